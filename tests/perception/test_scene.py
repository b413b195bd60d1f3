"""The structured state of one made-up moment, whole."""

import json

from nethack_pipe.game import tables
from nethack_pipe.perception.scene import structured
from tests.helpers.scenes import LEFT, TOP, Story, thing


def test_the_structured_state():
    story = Story()
    story.show("""
        -----
        |@..|
        |..)|
        -----
    """)
    scene = story.show("""
        -----
        |...,
        |.G@|n
        --f--
         *
    """, "southeast", "You see here a dagger.", hp=9, gold=4, hunger=2)  # fmt: skip
    x, y = LEFT + 3, TOP + 2
    state = structured(scene, story.step)
    assert state == {
        "hp": 9,
        "max_hp": 14,
        "ac": 4,
        "attributes": {
            **{"strength": 17, "dexterity": 15, "constitution": 12, "intelligence": 9, "wisdom": 13, "charisma": 8},
        },
        "gold": 4,
        "depth": 1,
        "turn": 2,
        "hunger": 2,
        "position": [x, y],
        "on": "unknown",  # the dagger was there before the hero
        "item_here": True,
        "adjacent": {
            **{"north": "floor", "south": "wall", "east": "wall", "west": "peaceful"},
            **{"northeast": "doorway", "northwest": "floor", "southeast": "wall", "southwest": "pet"},
        },
        "monsters": [
            {"kind": "gnome", "attitude": "peaceful", "position": [x - 1, y], "distance": 1},
            {"kind": "kitten", "attitude": "pet", "position": [x - 1, y + 1], "distance": 1},
            {"kind": "newt", "attitude": "hostile", "position": [x + 2, y], "distance": 2},
        ],
        "items": [{"kind": "remains", "position": [x - 2, y + 2], "distance": 2}],
        "message": "You see here a dagger.",
    }
    assert json.loads(json.dumps(state)) == state


def test_kinds_go_by_what_can_be_seen():
    story = Story()
    healing = tables.OBJECT_NAMES.index("healing")
    scene = story.show("|@..I|\n|.....|", glyphs={(1, 2): thing("healing"), (1, 3): thing("dagger")})
    state = structured(scene, story.step)
    assert [item["kind"] for item in state["items"]] == [tables.OBJECT_DESCRIPTIONS[healing], "dagger"]
    assert state["items"][0]["kind"] not in ("", "healing")
    assert [monster["kind"] for monster in state["monsters"]] == ["unseen monster"]
    assert state["monsters"][0]["attitude"] == "hostile"
