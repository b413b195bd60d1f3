"""The observation vector, number by number."""

import numpy as np

from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.perception import features
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.tasks.skills import SKILLS
from tests.helpers.scenes import Story

PAINTING = """
    ---+---
    |.n.@)f
    |..>.S|
    |....h|
    -------
"""


def one_hot(tile: Tile) -> list[float]:
    return [float(kind == tile) for kind in range(19)]


def test_one_whole_vector():
    story = Story()
    story.show(PAINTING)
    scene = story.show(PAINTING, "search", hp=7, gold=30, turn=250, ac=-2, strength=18, dexterity=10)
    mask = np.array([1, 1, 1, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0], dtype=bool)
    vector = features.vector(scene, SKILLS.index("combat"), mask)
    assert vector.dtype == np.float32 and vector.shape == (106,)
    expected = [
        0.5,  # HP 7 of 14
        0.7,  # maximum 14 / 20
        0.3,  # 30 gold / 100
        0.1,  # depth 1 / 10
        0.25,  # turn 250 / 1000
        -0.1,  # AC -2 / 20
        0.72,  # strength 18 / 25
        0.4,  # dexterity 10 / 25
        0.375,  # three monsters (newt, shopkeeper, kitten) / 8
        0.125,  # one item / 8, the statue is none
        0.04,  # 16 tiles / 400: 14 of the room (not the statue's), the kitten's, the door
        0.05,  # one room / 20
        *one_hot(Tile.WALL),  # north
        *one_hot(Tile.FLOOR),  # south
        *one_hot(Tile.ITEM),  # east
        *one_hot(Tile.FLOOR),  # west
        *(0.0, 0.0, 1.0, 0.0, 0.0),  # explore, survive, combat, descend, resource
        *(1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0),
    ]
    assert len(expected) == 106
    assert vector.tolist() == np.float32(expected).tolist()


def test_every_kind_of_neighbour_has_its_place():
    painted = {
        **{"UNKNOWN": " ", "WALL": "-", "FLOOR": ".", "CORRIDOR": "#", "DOORWAY": ",", "OPEN_DOOR": "'"},
        **{"CLOSED_DOOR": "+", "STAIRS_UP": "<", "STAIRS_DOWN": ">", "FIXTURE": "{", "LIQUID": "}", "TRAP": "^"},
        **{"OBSTACLE": "T", "BOULDER": "0", "ITEM": ")", "GOLD": "$", "PET": "f", "PEACEFUL": "G", "HOSTILE": "n"},
    }
    assert len(painted) == 19
    for offset, painting in ((0, "{}\n@"), (1, "@\n{}"), (2, "@{}"), (3, "{}@")):
        for name, symbol in painted.items():
            story = Story()
            vector = features.vector(story.show(painting.format(symbol)), 0, np.ones(13))
            block = vector[12 + 19 * offset : 31 + 19 * offset]
            assert block.tolist() == one_hot(Tile[name]), (painting, name)


def test_what_is_capped_is_capped():
    story = Story()
    scene = story.show("nnnnnnnnnn\n)))))))))))\n@", gold=12345, turn=20000, depth=50, hp=500, max_hp=400)
    vector = features.vector(scene, 4, np.ones(13))
    assert vector[:12].tolist() == np.float32([1.25, 20, 123.45, 5, 20, 0.2, 0.68, 0.6, 1, 1, 22 / 400, 0]).tolist()
    wide = "\n".join("." * 60 for _ in range(8))
    assert features.vector(Story().show("@\n" + wide), 0, np.ones(13))[10] == 1


def test_a_larger_action_set_has_a_longer_mask():
    scene = Story().show(PAINTING)
    compass = len(ACTION_SETS["compass"])
    mask = np.arange(compass) % 2
    vector = features.vector(scene, 0, mask)
    assert features.size(13) == 106 and features.size(compass) == 111 == vector.size
    assert vector[93:].tolist() == mask.tolist()
    assert vector[:93].tolist() == features.vector(scene, 0, np.ones(13))[:93].tolist()


def test_a_given_array_is_written_over():
    scene = Story().show(PAINTING)
    out = np.full(106, 7, dtype=np.float32)
    result = features.vector(scene, 1, np.zeros(13), out=out)
    assert result is out and out.tolist() == features.vector(scene, 1, np.zeros(13)).tolist()
    assert out.sum() < 20
