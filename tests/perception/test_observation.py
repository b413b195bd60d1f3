"""The rich observation: known answers on painted maps, a plain reading of real moments, and its two ways against each
other on thousands of them."""

import ctypes
import random
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from nle import _pynethack, nethack

from nethack_pipe.game import tables
from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS
from nethack_pipe.game.game import Game, Step
from nethack_pipe.native import build
from nethack_pipe.perception import features, observation
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.memory import LevelMemory, Memory
from nethack_pipe.perception.observation import (
    CROP_PLANES,
    MAP_PLANES,
    PARTS,
    TARGETS,
    ObservationSpec,
    Observer,
)
from nethack_pipe.perception.scene import Scene
from nethack_pipe.policies.protocol import Policy
from nethack_pipe.policies.scripted import Frontier, Random, WallAvoidance
from nethack_pipe.tasks.playthrough import CLOSED, DOORS, Playthrough
from nethack_pipe.tasks.skills import SKILLS
from tests.helpers.games import WIZARD_KEYS, press
from tests.helpers.scenes import Story, at, monster, pet

REFERENCE, COMPASS = ACTION_SETS["reference"], ACTION_SETS["compass"]
EIGHT = ObservationSpec("rich", PARTS, COMPASS)
FOUR = ObservationSpec("rich", PARTS, REFERENCE)
ALL = tuple(DIRECTIONS)


def observer(spec: ObservationSpec, way: str) -> Observer:
    """One that takes the compiled way (skips the test where it cannot be had), or the ``python`` one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETHACK_PIPE_KERNELS", "python" if way == "python" else "")
        observation._library.cache_clear()
        if way == "compiled" and observation._library() is None:
            pytest.skip("there is no C compiler")
        made = Observer(spec)
        observation._library.cache_clear()
    return made


@pytest.fixture(params=["compiled", "python"])
def way(request: pytest.FixtureRequest) -> str:
    return request.param


def by_name(spec: ObservationSpec, numbers: np.ndarray) -> dict[str, Any]:
    """The numbers of each field, shaped; single ones as floats."""
    cut = {field.name: numbers[field.start : field.start + field.size].reshape(field.shape) for field in spec.fields}
    return {name: part if part.ndim else float(part) for name, part in cut.items()}


def seen(way: str, story: Story, spec: ObservationSpec = EIGHT) -> dict[str, Any]:
    """What is observed of the story's latest moment."""
    scene = story.memory.scene
    assert scene is not None
    numbers = observer(spec, way).observe(scene, story.memory, 0, np.ones(len(spec.actions)))
    return by_name(spec, numbers)


def path(seen: dict[str, Any], target: str) -> tuple[int, list[str]] | None:
    """A row of the path block as (steps, directions); None where it says that there is no way."""
    reachable, distance, closeness, *nearer = seen[f"path_{target}"].tolist()
    if not reachable:
        assert distance == closeness == 0 and not any(nearer)
        return None
    steps = round(1 / closeness) - 1
    assert reachable == 1 and closeness == np.float32(1 / (1 + steps)) and distance == np.float32(min(steps, 40) / 40)
    return steps, [name for name, near in zip(DIRECTIONS, nearer, strict=True) if near == 1]


def told(painting: str, **changes: Any) -> Story:
    story = Story()
    story.show(painting, **changes)
    return story


# -- The description -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("actions", [REFERENCE, COMPASS], ids=["reference", "compass"])
def test_the_fields_say_what_every_number_is(actions):
    sizes = {}
    for kind, parts in [("reference", ()), ("rich", ()), *(("rich", (part,)) for part in PARTS), ("rich", PARTS)]:
        spec = ObservationSpec(kind, parts, actions)
        assert [field.start for field in spec.fields[1:]] == [field.start + field.size for field in spec.fields[:-1]]
        assert spec.fields[0].start == 0 and spec.fields[-1].start + spec.fields[-1].size == spec.size
        assert len({field.name for field in spec.fields}) == len(spec.fields)
        assert (spec.skill.stop - spec.skill.start, spec.mask.stop - spec.mask.start) == (5, len(actions))
        sizes[kind, parts] = spec.size
    count = len(actions)
    assert sizes["reference", ()] == features.size(count)
    assert sizes["rich", ()] == 26 + 5 + 13 + 19 + 8 * 19 + 5 + count
    added = {part: sizes["rich", (part,)] - sizes["rich", ()] for part in PARTS}
    monsters = 8 * 4 + 2 * 9
    expected = {"paths": 77, "recency": 162 + 4 * count, "monsters": monsters, "crop": 14 * 81, "map": 6 * 91 + 2}
    assert added == expected
    assert sizes["rich", PARTS] == sizes["rich", ()] + sum(added.values())


def test_the_order_in_which_parts_are_named_means_nothing():
    assert ObservationSpec("rich", ("map", "paths"), COMPASS) == ObservationSpec("rich", ("paths", "map"), COMPASS)


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        ("poor", (), "expected one of reference, rich, got 'poor'"),
        ("rich", ("path",), r"each of paths, recency, monsters, crop, map at most once, got \('path',\)"),
        ("rich", ("map", "map"), "at most once"),
        ("reference", ("map",), "the reference observation has none"),
    ],
)
def test_a_wrong_description_is_refused(kind, parts, message):
    with pytest.raises(ValueError, match=message):
        ObservationSpec(kind, parts, COMPASS)


def test_a_field_that_is_not_there_is_an_error():
    with pytest.raises(KeyError, match="no field 'crop' in a rich observation"):
        ObservationSpec("rich", ("paths",), COMPASS).where("crop")


def test_both_kinds_are_printed_as_tables(capsys):
    observation.main()
    lines = capsys.readouterr().out.splitlines()
    assert "rich, 18 actions: 2281 numbers, float32" in lines
    for spec in (ObservationSpec("reference", (), COMPASS), EIGHT):
        for field in spec.fields:
            assert any(line.split()[0] == str(field.start) and field.name in line for line in lines if line)


def test_every_kind_of_tile_but_the_unknown_has_a_plane_of_the_crop():
    assert sorted(tile for tiles in CROP_PLANES.values() for tile in tiles) == sorted(set(Tile) - {Tile.UNKNOWN})


def test_ground_is_closed_where_the_actions_mask_closes_it():
    assert {tile for tile in Tile if observation._CLOSED[tile]} == CLOSED
    assert {tile for tile in Tile if observation._DOOR[tile]} == DOORS


# -- Reference and scalars -----------------------------------------------------------------------------------------

ROOM = """
    -------
    |.....|
    |.@...+
    |....>|
    -------
"""


def test_a_reference_observation_is_the_reference_vector():
    story = told(ROOM, hp=7)
    mask = np.arange(13) % 2
    spec = ObservationSpec("reference", (), REFERENCE)
    numbers = Observer(spec).observe(story.memory.scene, story.memory, 3, mask)
    assert numbers.tolist() == features.vector(story.memory.scene, 3, mask).tolist()
    assert numbers[spec.skill].tolist() == [0, 0, 0, 1, 0] and numbers[spec.mask].tolist() == mask.tolist()


def test_scalars_neighbours_skill_and_mask():
    story = told("""
        -------
        |.....|
        |.@n..+
        |)$..>|
        -------
    """)
    changes = {"hp": 7, "ac": -2, "strength": 18, "dexterity": 10, "gold": 100, "depth": 1, "experience_level": 3}
    scene = story.show(
        """
        -------
        |..f..|
        |..@n.+
        |)$g.>|
        -------
    """,
        "east",
        **changes,
        turn=250,
        hunger=3,
        burden=1,
        condition=tables.CONDITIONS["blind"] | tables.CONDITIONS["conf"],
    )
    mask = np.arange(18) % 3 == 0
    numbers = Observer(EIGHT).observe(scene, story.memory, SKILLS.index("descend"), mask)
    found = by_name(EIGHT, numbers)
    scalars = {name: found[name] for name in observation._SCALARS}
    expected = {
        **{"hp": 0.5, "max_hp": 14 / 50, "low_hp": 1, "hp_change": -0.5, "ac": -0.1},
        **{"strength": 0.72, "dexterity": 0.4},
        **{"experience_level": 0.3, "depth": 0.1, "turn": 0.25, "steps": 0.001, "gold": 0.5, "burden": 0.2},
        **{"hostiles_adjacent": 0.25, "hostiles_in_view": 0.25, "items": 0.25, "explored": 16 / 400, "rooms": 0.1},
        **{"new_tiles": 0, "item_here": 0, "visits_here": 0.2, "took_time": 1, "moved": 1, "repeated_state": 0},
        **{"recent_tile": 0, "swallowed": 0},
    }
    assert scalars == {name: float(np.float32(value)) for name, value in expected.items()}
    assert found["hunger"].tolist() == [0, 0, 0, 1, 0]
    assert np.flatnonzero(found["condition"]).tolist() == [5, 8]
    assert np.flatnonzero(found["ground"]).tolist() == [Tile.UNKNOWN]  # nobody has seen what the newt stood on
    around = [Tile.PET, Tile.HOSTILE, Tile.HOSTILE, Tile.FLOOR, Tile.FLOOR, Tile.FLOOR, Tile.FLOOR, Tile.GOLD]
    assert found["neighbours"].argmax(axis=1).tolist() == around and found["neighbours"].sum() == 8
    assert numbers[EIGHT.skill].tolist() == [0, 0, 0, 1, 0] and numbers[EIGHT.mask].tolist() == mask.tolist()


def test_what_is_capped_is_capped():
    story = told("nnnnnnnnnn\n)))))))))))\n@", hunger=6, turn=20000)
    found = seen("python", story)
    assert [found[name] for name in ("hostiles_in_view", "items", "new_tiles")] == [1, 1, 1]
    assert found["hunger"].tolist() == [0, 0, 0, 0, 1] and found["turn"] == 20


def test_the_last_actions_the_latest_first():
    story = told("@..")
    for action in ("search", "kick:north", "northeast", "wait", "eat:f"):
        story.show("@..", action)
    for spec, expected in (
        (EIGHT, ["eat", "wait", "northeast", "kick"]),
        (FOUR, ["eat", "wait", None, "kick"]),  # northeast is no action of this set
    ):
        rows = seen("python", story, spec)["last_actions"]
        assert [[spec.actions[i] for i in np.flatnonzero(row)] for row in rows] == [[a] if a else [] for a in expected]
    assert not seen("python", told("@.."))["last_actions"].any()


# -- Paths ---------------------------------------------------------------------------------------------------------


def test_ways_in_a_room(way):
    found = seen(way, told(ROOM))
    assert path(found, "downstairs") == (3, ["east", "northeast", "southeast"])
    assert path(found, "upstairs") == (0, [])  # under the hero
    # The door is entered straight, and beyond it nothing was seen.
    assert path(found, "closed_door") == path(found, "frontier") == (4, ["east", "northeast", "southeast"])
    assert path(found, "unvisited") == (1, [*ALL])
    assert path(found, "item") is None and path(found, "hostile") is None


def test_ways_of_one_who_takes_no_diagonal_steps(way):
    found = seen(way, told(ROOM), FOUR)
    assert path(found, "downstairs") == (4, ["south", "east"])
    assert path(found, "closed_door") == (4, ["east"])
    assert path(found, "unvisited") == (1, ["north", "south", "east", "west"])


@pytest.mark.parametrize(
    ("door", "downstairs", "item"),
    [(",", (3, ["southeast"]), 2), ("'", (5, ["east"]), 3), ("+", (5, ["east"]), 3)],
    ids=["doorway", "open door", "closed door"],
)
def test_doors_are_not_passed_diagonally_but_doorways_without_one_are(way, door, downstairs, item):
    story = told(f"""
        ------
        |@...|
        --{door}---
         |..>|
         -----
    """)
    assert path(seen(way, story), "downstairs") == downstairs
    story = told(f"""
        ------
        |.@..|
        --{door}---
         |.).|
         -----
    """)
    assert path(seen(way, story), "item") == (item, ["south"])


def test_nobody_walks_diagonally_out_of_an_open_door(way):
    story = told("""
        -----
        |...|
        --.--
         |.|
    """, hero=(2, 2))  # fmt: skip
    story.memory.level.tiles[at(2, 2)] = Tile.OPEN_DOOR
    assert path(seen(way, story), "unvisited") == (1, ["north", "south"])


def test_what_cannot_be_reached(way):
    painting = """
        ------ -----
        |@...| |.>.|
        |....| |.).|
        ------ -----
    """
    found = seen(way, told(painting))
    assert path(found, "downstairs") is None and path(found, "item") is None
    # Past a statue, iron bars or a peaceful gnome nobody walks; past a pet or a boulder one does, perhaps.
    for between, steps in (("S", None), ("=", None), ("}", None), ("G", None), ("f", 4), ("0", 4)):
        story = told(f"---------\n|@.{between}.>..|\n---------")
        story.memory.level.explored[at(1, 3)] = True
        way_down = path(seen(way, story), "downstairs")
        assert way_down == (steps and (steps, ["east"])), between


def test_a_target_is_reached_though_it_cannot_be_passed(way):
    story = told("@.n..)")
    assert path(seen(way, story), "hostile") == (2, ["east"])
    story = told("@+.>")
    assert path(seen(way, story), "downstairs") == (3, ["east"])
    assert path(seen(way, story), "frontier") == path(seen(way, story), "closed_door") == (1, ["east"])
    story.show("@+.>", "east", "This door is locked.", took_time=False)
    found = seen(way, story)
    assert path(found, "closed_door") == (1, ["east"])
    assert path(found, "downstairs") is None and path(found, "frontier") is None
    # Once it is kicked open it is a way, and an edge of what is known.
    story.show("@,.>", "kick:east", "WHAMM!  The door crashes open!")
    found = seen(way, story)
    assert path(found, "downstairs") == (3, ["east"]) and path(found, "frontier") == (1, ["east"])
    assert path(found, "closed_door") is None


def test_the_frontier_is_ground_never_stood_on_beside_something_never_seen(way):
    corridor = told("""
        -----
        |...|
        |.@.,##
        |...|
        -----
    """)  # fmt: skip
    assert path(seen(way, corridor), "frontier") == (2, ["east", "northeast", "southeast"])
    # An item hides the ground it lies on, yet it was seen: the tiles around it are no edge of the known.
    inside = told("""
        ------
        |....|
        |.).@|
        |....|
        ------
    """)
    assert path(seen(way, inside), "frontier") is None
    assert path(seen(way, inside), "item") == (2, ["west", "northwest", "southwest"])


def test_an_item_that_the_hero_has_stood_on_is_no_target(way):
    story = told("@.)..)")
    assert path(seen(way, story), "item") == (2, ["east"])
    story.show("..)..)", "east", hero=(0, 2), text="You see here a dagger.")
    assert path(seen(way, story), "item") == (3, ["east"])


def test_of_two_as_near_both_directions_come_nearer(way):
    assert path(seen(way, told(">..@..>")), "downstairs") == (3, ["east", "west"])


def test_far_away_is_capped(way):
    found = seen(way, told("@" + 50 * "#" + ">"))
    assert path(found, "downstairs") == (51, ["east"])
    assert found["path_downstairs"][1] == 1 and found["path_downstairs"][2] == np.float32(1 / 52)


def test_a_longest_way(way):
    """A winding corridor through the whole level: every number of steps has its place."""
    level = LevelMemory()
    for y in range(0, 21, 2):
        level.tiles[y], level.explored[y] = Tile.CORRIDOR, True
        if y < 20:
            turn = 78 if y % 4 == 0 else 0
            level.tiles[y + 1, turn], level.explored[y + 1, turn] = Tile.CORRIDOR, True
    level.base[:], level.visits[:], level.visits[20, 78] = level.tiles, 1, 0
    level.board[1:-1, 1:-1] = level.tiles
    story = told(" ", hero=(-3, -10))
    story.memory.level = level
    assert path(seen(way, story, FOUR), "unvisited") == (11 * 78 + 20, ["east"])
    assert path(seen(way, story), "unvisited") == (11 * 78 + 20 - 2 * 10, ["east"])


@pytest.mark.parametrize(("row", "column"), [(-3, -10), (17, 68), (-3, 68), (17, -10)])
def test_at_the_corners_of_the_level(way, row, column):
    story = told(" ", hero=(row, column), glyphs={(row, column): monster("monk")})
    y, x = at(row, column)
    north_or_south, east_or_west = "south" if y == 0 else "north", "east" if x == 0 else "west"
    step = DIRECTIONS[north_or_south][0], DIRECTIONS[east_or_west][1]
    level = story.memory.level
    for to in ((y + step[0], x), (y, x + step[1])):
        level.tiles[to], level.base[to], level.explored[to] = Tile.FLOOR, Tile.FLOOR, True
    found = seen(way, story)
    names = [name for name in DIRECTIONS if name in (north_or_south, east_or_west)]
    assert path(found, "unvisited") == path(found, "frontier") == (1, names)
    beyond = np.ones((9, 9), dtype=bool)  # all beyond the edge is wall
    beyond[4 - min(y, 4) : 5 + min(20 - y, 4), 4 - min(x, 4) : 5 + min(78 - x, 4)] = False
    assert np.array_equal(found["crop"][list(CROP_PLANES).index("wall")], beyond)
    assert found["recency"][4, 4] == 1 and found["recency"].sum() == 1
    assert found["map"][MAP_PLANES.index("hero"), y // 3, x // 6 if x == 0 else 12] == 1
    assert found["place"].tolist() == [y / 20, x / 78]


def test_inside_a_monster_it_is_on_all_sides_and_there_are_no_other_ways(way):
    story = told(ROOM)
    stomach = tables.SWALLOW_OFF + 8 * tables.MONSTER_NAMES.index("ochre jelly")
    inside = {(2 + dy, 2 + dx): stomach + i for i, (dy, dx) in enumerate(DIRECTIONS.values())}
    assert story.show("@", "wait", glyphs=inside, hero=(2, 2)).swallowed
    found = seen(way, story)
    assert found["swallowed"] == 1
    assert {target: path(found, target) for target in TARGETS if target != "hostile"} == dict.fromkeys(
        set(TARGETS) - {"hostile"}
    )
    assert path(found, "hostile") == (1, [*ALL])


# -- Monsters ------------------------------------------------------------------------------------------------------

NOBODY = [0.0] * 9


def adjacent(seen: dict[str, Any]) -> dict[str, list[float]]:
    """The directions in which somebody is described, and how."""
    rows = zip(DIRECTIONS, seen["monsters_adjacent"].tolist(), strict=True)
    return {name: row for name, row in rows if any(row)}


def numbers(*values: float) -> list[float]:
    return np.float32(values).tolist()


def test_hostile_monsters_are_described_by_what_they_are_like():
    names = {(1, 0): "soldier ant", (0, 2): "floating eye", (1, 3): "winter wolf cub"}
    story = told("n....\n.@...", glyphs={place: monster(name) for place, name in names.items()})
    found = seen("python", story)
    assert adjacent(found) == {
        "west": numbers(3 / 10, 18 / 12, 20 / 20, 0),
        "northeast": numbers(2 / 10, 1 / 12, 0, 1),
        "northwest": numbers(0, 6 / 12, 2 / 20, 0),
    }
    # Of three as near the first two in reading order; the wolf is further off.
    assert found["monsters_near"].tolist() == [
        numbers(1, -1 / 8, -1 / 8, 1, 0, 6 / 12, 2 / 20, 0, 0),
        numbers(1, -1 / 8, 1 / 8, 1, 2 / 10, 1 / 12, 0, 1, 0),
    ]
    story.show("....n..\n.@..\n....", "wait", glyphs={(1, 3): monster("winter wolf cub")})
    found = seen("python", story)
    assert adjacent(found) == {}
    assert found["monsters_near"].tolist() == [
        numbers(1, 0, 2 / 8, 1 / 2, 5 / 10, 12 / 12, 14 / 20, 0, 1),
        numbers(1, -1 / 8, 3 / 8, 1 / 3, 0, 6 / 12, 2 / 20, 0, 0),
    ]


def test_pets_and_the_peaceful_are_not_described():
    found = seen("python", told("fG.\n.@.\n.h.", glyphs={(2, 1): pet("soldier ant")}))
    assert not found["monsters_adjacent"].any() and not found["monsters_near"].any()


def test_where_somebody_unseen_was_felt_he_is_there_and_no_more_is_known():
    found = seen("python", told("I@.\n..5"))
    assert adjacent(found) == {}
    assert found["monsters_near"].tolist() == [
        numbers(1, 0, -1 / 8, 1, 0, 0, 0, 0, 0),
        numbers(1, 1 / 8, 1 / 8, 1, 0, 0, 0, 0, 0),
    ]


def test_how_far_away_a_monster_is_is_capped_but_not_its_nearness():
    found = seen("python", told("@" + 19 * "." + "n" + "\n" * 10 + "." * 20 + "n"))
    assert found["monsters_near"][:, :4].tolist() == [numbers(1, 0, 1, 1 / 20), numbers(1, 1, 1, 1 / 20)]


def test_inside_a_monster_nobody_is_described():
    story = told("n@n")
    assert seen("python", story)["monsters_near"].all(axis=1).tolist() == [False, False]
    stomach = tables.SWALLOW_OFF + 8 * tables.MONSTER_NAMES.index("ochre jelly")
    inside = {(2 + dy, 2 + dx): stomach + i for i, (dy, dx) in enumerate(DIRECTIONS.values())}
    assert story.show("@", "wait", glyphs=inside, hero=(2, 2)).swallowed
    found = seen("python", story)
    assert adjacent(found) == {} and found["monsters_near"].tolist() == [NOBODY, NOBODY]


# -- Recency, crop, map --------------------------------------------------------------------------------------------


def test_recency_and_visits(way):
    story = told("@...")
    story.show(".@..", "east")
    story.show(".@..", "search")
    story.show("..@.", "east")
    found = seen(way, story)
    # Two, one and no steps ago; three moments since the first tile.
    assert found["recency"][4, 2:6].tolist() == np.float32([8 / 11, 8 / 9, 1, 0]).tolist()
    assert found["visits"][4, 2:6].tolist() == np.float32([1 / 5, 2 / 6, 1 / 5, 0]).tolist()
    assert np.count_nonzero(found["recency"]) == np.count_nonzero(found["visits"]) == 3


def test_the_crop_shows_each_kind_of_tile_in_its_plane(way):
    painted = {
        **{"|": "wall", "T": "wall", ".": "floor", "{": "floor", "#": "corridor", ",": "doorway", "'": "doorway"},
        **{"+": "closed door", "<": "stairs up", ">": "stairs down", "}": "liquid", "^": "trap", "0": "boulder"},
        **{")": "item", "$": "item", "f": "pet", "G": "peaceful", "n": "hostile"},
    }
    assert set(painted.values()) == set(CROP_PLANES)
    for symbol, plane in painted.items():
        # Three rows up and four columns left of the hero, who stands on the upstairs.
        crop = seen(way, told(f"   {symbol}\n\n\n       @"))["crop"]
        assert crop[list(CROP_PLANES).index(plane), 1, 0] == 1, symbol
        assert crop[list(CROP_PLANES).index("stairs up"), 4, 4] == 1 and crop.sum() == 2


def test_the_coarse_map(way):
    story = told("""
        @.....|
        ##)n..|
        -----
    """)  # fmt: skip
    story.show("""
        .@....|
        ##)n..|
        -----
    """, "east")  # fmt: skip
    planes = dict(zip(MAP_PLANES, seen(way, story)["map"], strict=True))
    # The painting lies in rows 3 to 5 and columns 10 to 16; two blocks touch it, columns 7 to 12 and 13 to 18.
    expected = {"seen": (9 / 18, 10 / 18), "walkable": (6 / 18, 6 / 18), "visited": (2 / 18, 0)}
    expected |= {"item": (1, 0), "hostile": (0, 1), "hero": (1, 0)}
    for name, plane in planes.items():
        where = np.argwhere(plane).tolist()
        assert plane[1, 1:3].tolist() == np.float32(expected[name]).tolist(), name
        assert where == [[1, 1 + i] for i in range(2) if expected[name][i]], name


# -- Real moments --------------------------------------------------------------------------------------------------


def teleport(game: Game, place: str) -> Step:
    """Wizard mode's teleport to a level, by its name in the menu."""
    for key in "\x16?\r":
        game._press(ord(key))
    for _ in range(3):  # pages
        text = "\n".join(bytes(row).decode("latin-1") for row in game._observation["tty_chars"])
        if found := re.search(rf"(\w) - [* ] *{place}:", text):
            return press(game, found.group(1))
        game._press(ord(">"))
    raise AssertionError(f"no {place} in the menu: {text}")


def wish(game: Game, thing: str, use: str) -> None:
    """Wizard mode's wish for `thing`, the only one of its kind, on which the command `use` is tried at once."""
    shown = press(game, f"\x17{thing}\r").observation
    names = [bytes(row).decode("latin-1") for row in shown["inv_strs"]]
    slot = next(i for i, name in enumerate(names) if thing.split()[0] in name)
    press(game, use + chr(shown["inv_letters"][slot]))


def ordinary_moments(actions: tuple[str, ...]) -> Iterator[Playthrough]:
    """Games as they are played: several seeds and policies."""
    plays: list[tuple[Policy, int]] = [
        *((Frontier("descend"), seed) for seed in (4013, 4033, 4050, 4056)),  # down to levels 3 and 4
        *((policy, 4000 + i) for i, policy in enumerate((WallAvoidance(), Frontier("explore"), Random()))),
        *((Frontier(task), seed) for seed, task in ((4007, "combat"), (4008, "resource"))),
    ]
    with Game() as game:
        playthrough = Playthrough(game, actions)
        for policy, seed in plays:
            playthrough.reset(seed)
            policy.reset(0, seed)
            for _ in range(200):
                yield playthrough
                if playthrough.scene.done:
                    break
                playthrough.step(policy.act([0], [playthrough])[0])


def strange_moments(actions: tuple[str, ...]) -> Iterator[Playthrough]:
    """Caves, mazes, swamps, planes of air and water, the inside of a monster, blindness, hallucination."""
    places = ("oracle", "bigrm", "rogue", "medusa", "juiblex", "wizard1", "minetn", "minend", "soko1", "water", "air")
    with Game(WIZARD_KEYS, wizard=True) as game:
        playthrough = Playthrough(game, actions)
        policy = Random()
        policy.reset(0, 0)

        def walk(steps: int) -> Iterator[Playthrough]:
            for _ in range(steps):
                yield playthrough
                if playthrough.scene.done:
                    return
                playthrough.step(policy.act([0], [playthrough])[0])

        for thing, use in (("", ""), ("blindfold", "P"), ("potion of hallucination", "q")):
            for place in places:
                playthrough.reset(3)
                if thing:
                    wish(game, thing, use)
                playthrough._look(teleport(game, place), None)
                playthrough._look(press(game, "\x06"), None)  # the level's whole map
                yield from walk(15)
        playthrough.reset(4)
        playthrough._look(press(game, "\x07lurker above\r"), None)
        yield from walk(20)


MOMENTS = {"ordinary": ordinary_moments, "strange": strange_moments}


@pytest.mark.parametrize("spec", [EIGHT, FOUR], ids=["eight", "four"])
@pytest.mark.parametrize("moments", MOMENTS.values(), ids=MOMENTS)
def test_both_ways_give_the_same_bits(spec: ObservationSpec, moments: Callable):
    compiled, plain = observer(spec, "compiled"), observer(spec, "python")
    assert type(compiled._parts) is not type(plain._parts)
    out = np.full(spec.size, np.nan, dtype=np.float32)
    draw = random.Random(1)
    levels, swallowed, blind, hallucinating, count = set(), 0, 0, 0, 0
    for playthrough in moments(spec.actions):
        scene, memory = playthrough.scene, playthrough.memory
        if draw.random() < 0.1:  # a twin looks ahead: it is another level, and the game is seen as before
            twin = memory.copy()
            twin.update(playthrough.game.last, "wait")
            compiled.observe(twin.scene, twin, 0, playthrough.mask)
            plain.observe(twin.scene, twin, 0, playthrough.mask)
        skill = count % 5
        fast = compiled.observe(scene, memory, skill, playthrough.mask, out)
        slow = plain.observe(scene, memory, skill, playthrough.mask)
        assert fast is out and np.array_equal(fast.view(np.uint32), slow.view(np.uint32)), (
            *(scene.level, scene.turn),
            [name for name, part in by_name(spec, fast).items() if not np.array_equal(part, by_name(spec, slow)[name])],
        )
        assert np.isfinite(fast).all() and np.abs(fast).max() < 100
        levels.add(scene.level)
        swallowed += scene.swallowed
        blind += scene.condition & tables.CONDITIONS["blind"] > 0
        hallucinating += scene.condition & tables.CONDITIONS["hallu"] > 0
        count += 1
    if moments is strange_moments:
        assert len(levels) >= 11 and min(blind, hallucinating) >= 100 and swallowed >= 3 and count > 450
    else:
        assert count > 1500 and levels >= {(0, 1), (0, 2), (0, 3), (0, 4)}


def test_both_ways_give_the_same_bits_whatever_the_memory_holds():
    """Levels of random noise, of all densities, with the hero anywhere."""
    rng = np.random.default_rng(5)
    pairs = [(spec, observer(spec, "compiled"), observer(spec, "python")) for spec in (EIGHT, FOUR)]
    story = told("@")
    memory, scene = story.memory, story.memory.scene
    for trial in range(400):
        level = memory.level = LevelMemory()
        density = rng.uniform(0.3, 1.0)
        solid = rng.random((21, 79)) > density
        level.tiles[:] = np.where(solid, rng.integers(2, size=(21, 79)), rng.choice([2, 2, 3, 4, 5, 6], size=(21, 79)))
        level.base[:] = np.where(rng.random((21, 79)) < 0.9, level.tiles, rng.integers(19, size=(21, 79)))
        level.board[1:-1, 1:-1] = np.where(rng.random((21, 79)) < 0.95, level.base, rng.integers(19, size=(21, 79)))
        level.explored[:], level.blocked[:] = rng.random((21, 79)) > 0.05, rng.random((21, 79)) > 0.95
        level.lying[:] = rng.random((21, 79)) > 0.995
        seldom = rng.random() < 0.5
        level.visits[:] = np.where(rng.random((21, 79)) < (0.99 if seldom else 0.5), rng.integers(1, 2000), 0)
        memory.steps = int(rng.integers(3000, 5000))
        level.last_visit[:] = np.where(level.visits, rng.integers(1, 3000, size=(21, 79)), 0)
        for tile in (Tile.STAIRS_DOWN, Tile.STAIRS_UP):
            level.tiles[rng.integers(21), rng.integers(79)] = tile
        scene.y, scene.x = int(rng.integers(21)), int(rng.integers(79))
        if trial % 3 == 0:
            scene.y, scene.x = int(rng.choice([0, 20])), int(rng.choice([0, 78]))
        scene.cell = 79 * scene.y + scene.x
        for spec, compiled, plain in pairs:
            mask = np.ones(len(spec.actions))
            fast, slow = compiled.observe(scene, memory, 0, mask), plain.observe(scene, memory, 0, mask)
            assert np.array_equal(fast.view(np.uint32), slow.view(np.uint32)), trial


def plain_ways(level: LevelMemory, scene: Scene, slanted: bool) -> dict[str, tuple[int, list[str]] | None]:
    """The path block, cell by cell: steps from every cell back from the goals, then a look at the hero's neighbours."""
    cells = [(y, x) for y in range(21) for x in range(79)]
    tiles, explored, blocked, visits, lying, items, base = (
        {cell: array[cell] for cell in cells}
        for array in (level.tiles, level.explored, level.blocked, level.visits, level.lying, level.items, level.base)
    )
    hero = (scene.y, scene.x)
    hostile = {divmod(cell, 79) for cell, _, tile in scene.in_view if tile == Tile.HOSTILE}
    in_the_way = {divmod(cell, 79) for cell, _, tile in scene.in_view if tile == Tile.PEACEFUL}
    in_the_way |= {cell for cell in cells if base[cell] == Tile.OBSTACLE}
    solid = {Tile.WALL, Tile.OBSTACLE, Tile.LIQUID}
    walkable = {
        cell
        for cell in cells
        if explored[cell] and tiles[cell] not in solid and cell not in in_the_way and not blocked[cell]
    }
    new = {cell for cell in walkable if not visits[cell]}

    def around(cell: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        for name, (dy, dx) in DIRECTIONS.items():
            to = cell[0] + dy, cell[1] + dx
            if 0 <= to[0] < 21 and 0 <= to[1] < 79:
                yield name, to

    def never_seen(cell: tuple[int, int]) -> bool:
        return not explored[cell] and tiles[cell] == Tile.UNKNOWN and items[cell] == -1

    def steps_from(cell: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        for name, to in around(cell):
            doors = {tiles[cell], tiles[to]} & {Tile.OPEN_DOOR, Tile.CLOSED_DOOR}
            if 0 in DIRECTIONS[name] or (slanted and not doors):
                yield name, to

    goals = {
        "frontier": {cell for cell in new if any(never_seen(to) for _, to in around(cell))},
        "downstairs": {cell for cell in cells if tiles[cell] == Tile.STAIRS_DOWN},
        "upstairs": {cell for cell in cells if tiles[cell] == Tile.STAIRS_UP},
        "item": {cell for cell in new if lying[cell]},
        "hostile": hostile - {hero},
        "closed_door": {cell for cell in cells if tiles[cell] == Tile.CLOSED_DOOR},
        "unvisited": new,
    }
    found: dict[str, tuple[int, list[str]] | None] = {}
    for target, goal in goals.items():
        steps = dict.fromkeys(goal, 0)
        queue = list(goal)
        for cell in queue:  # grows while it is walked through
            for _, back in steps_from(cell):
                if back not in steps and (back in walkable or back == hero):
                    steps[back] = steps[cell] + 1
                    queue.append(back)
        found[target] = None
        if hero in steps:
            nearer = [name for name, to in steps_from(hero) if steps.get(to) == steps[hero] - 1]
            found[target] = steps[hero], nearer
    return found


@pytest.mark.parametrize("spec", [EIGHT, FOUR], ids=["eight", "four"])
def test_what_is_observed_of_real_moments_is_what_a_plain_reading_finds(spec):
    observe = Observer(spec).observe  # the other way gives the same bits
    met: dict[str, int] = dict.fromkeys(TARGETS, 0)
    for count, playthrough in enumerate(ordinary_moments(spec.actions)):
        scene, level = playthrough.scene, playthrough.memory.level
        if count % 60 and (count % 10 or Tile.STAIRS_DOWN not in level.tiles):
            continue
        found = by_name(spec, observe(scene, playthrough.memory, 0, playthrough.mask))
        expected = plain_ways(level, scene, slanted=spec is EIGHT)
        assert {target: path(found, target) for target in TARGETS} == expected, count
        for target, ways in expected.items():
            met[target] += ways is not None
        for y in range(9):
            for x in range(9):
                at_y, at_x = scene.y + y - 4, scene.x + x - 4
                planes = [name for name, plane in zip(CROP_PLANES, found["crop"], strict=True) if plane[y, x]]
                if not (0 <= at_y < 21 and 0 <= at_x < 79):
                    assert (planes, found["recency"][y, x], found["visits"][y, x]) == (["wall"], 0, 0)
                    continue
                tile = level.base[at_y, at_x] if (y, x) == (4, 4) else level.board[at_y + 1, at_x + 1]
                assert planes == [name for name, tiles in CROP_PLANES.items() if tile in tiles]
                visits, last = level.visits[at_y, at_x], level.last_visit[at_y, at_x]
                assert found["visits"][y, x] == np.float32(visits / (visits + 4))
                ago = playthrough.memory.steps - last
                assert found["recency"][y, x] == (np.float32(8 / (8 + ago)) if visits else 0)
    assert all(number >= 3 for number in met.values()), met


class Permonst(ctypes.Structure):
    """struct permonst of NetHack, up to the attacks and as long as it is."""

    _fields_ = [
        ("mname", ctypes.c_char_p),
        ("mlet", ctypes.c_char),
        *((name, ctypes.c_int8) for name in ("mlevel", "mmove", "ac", "mr", "maligntyp")),
        ("geno", ctypes.c_ushort),
        ("mattk", ctypes.c_uint8 * 4 * 6),
        ("rest", ctypes.c_uint64 * 4),
    ]


PERMONST = (Permonst * nethack.NUMMONS).in_dll(ctypes.CDLL(_pynethack.__file__), "mons")


def plain_monster(glyph: int) -> list[float]:
    """The last five numbers of `monsters_near`."""
    if not nethack.glyph_is_monster(glyph):
        return [0.0] * 5
    kind = nethack.glyph_to_mon(glyph)
    told, read = nethack.permonst(kind), PERMONST[kind]
    assert (read.mname.decode(), read.mlevel) == (told.mname, told.mlevel)
    damage, passive, ranged = 0, 0, 0
    for how, what, dice, sides in map(list, read.mattk):
        if how == 0:
            passive |= (what, dice, sides) != (0, 0, 0)
        elif how != 14 and what not in (11, 36):  # explodes when it dies; blinds, makes one hallucinate
            damage += dice * sides
        ranged |= how in (10, 12, 15, 255)
    return [told.mlevel / 10, told.mmove / 12, damage / 20, passive, ranged]


def plain_monsters(shown: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The part `monsters`, from what NLE shows."""
    hero = int(shown["blstats"][1]), int(shown["blstats"][0])
    around, near = np.zeros((8, 4), dtype=np.float32), np.zeros((2, 9), dtype=np.float32)
    screen = shown["glyphs"].astype(np.int64)
    if nethack.glyph_is_swallow(screen).any():
        return around, near
    foes = nethack.glyph_is_monster(screen) | nethack.glyph_is_invisible(screen) | nethack.glyph_is_warning(screen)
    foes &= ~(nethack.glyph_is_pet(screen) | nethack.glyph_is_ridden_monster(screen) | shown["peaceful"])
    foes[hero] = False
    steps = [(y - hero[0], x - hero[1]) for y, x in np.argwhere(foes).tolist()]
    for i, (dy, dx) in enumerate(sorted(steps, key=lambda step: max(map(abs, step)))):
        like, distance = plain_monster(int(screen[hero[0] + dy, hero[1] + dx])), max(abs(dy), abs(dx))
        if i < 2:
            rows, columns = (float(np.clip(step / 8, -1, 1)) for step in (dy, dx))
            near[i] = [1, rows, columns, 1 / distance, *like]
        if distance == 1:
            around[list(DIRECTIONS.values()).index((dy, dx))] = like[:4]
    return around, near


def attacked_moments(actions: tuple[str, ...]) -> Iterator[Playthrough]:
    """Among monsters that are not met every day."""
    names = ("soldier ant", "floating eye", "winter wolf cub", "gas spore", "cobra", "ghost", "long worm", "stalker")
    with Game(WIZARD_KEYS, wizard=True) as game:
        playthrough = Playthrough(game, actions)
        policy = Random()
        policy.reset(0, 0)
        for i in range(len(names)):
            playthrough.reset(5 + i)
            for name in (names * 2)[i : i + 3]:
                playthrough._look(press(game, f"\x07{name}\r"), None)
            for _ in range(10):
                yield playthrough
                if playthrough.scene.done:
                    break
                playthrough.step(policy.act([0], [playthrough])[0])


def test_monsters_and_hit_points_of_real_moments_are_what_a_plain_reading_finds():
    spec = ObservationSpec("rich", ("monsters",), COMPASS)
    observe = Observer(spec).observe
    out = np.full(spec.size, np.nan, dtype=np.float32)  # written over again and again
    kinds: set[tuple[float, ...]] = set()
    beside, passive, ranged, several, lost, won = 0, 0, 0, 0, 0, 0
    for moments in (ordinary_moments, strange_moments, attacked_moments):
        steps, hp = 0, 0
        for playthrough in moments(COMPASS):
            shown = playthrough.game.last.observation
            found = by_name(spec, observe(playthrough.scene, playthrough.memory, 0, playthrough.mask, out))
            around, near = plain_monsters(shown)
            assert np.array_equal(found["monsters_adjacent"], around) and np.array_equal(found["monsters_near"], near)
            before, steps = (steps, hp), playthrough.memory.steps
            hp, max_hp = shown["blstats"][10:12].tolist()
            change = hp - before[1] if steps > 1 else 0
            if steps in (1, before[0] + 1):  # else things have happened that were not yielded
                assert found["hp_change"] == np.float32(change / max_hp)
            beside += around.any()
            passive, ranged, several = passive + near[0, 7], ranged + near[0, 8], several + near[1, 0]
            lost, won = lost + (change < 0), won + (change > 0)
            kinds |= {tuple(row[4:]) for row in near.tolist()}
    assert min(beside, passive, ranged, several, lost, won) >= 15 and len(kinds) >= 25


# -- How it is used ------------------------------------------------------------------------------------------------


def test_a_twin_is_seen_as_the_game_itself(way):
    """Look-ahead twins have other levels than the game; one observer sees them all, in any order."""
    with Game() as game:
        playthrough = Playthrough(game, COMPASS)
        playthrough.reset(11)
        observe = observer(EIGHT, way).observe
        for action in ("east", "south", "south", "west", "search"):
            playthrough.step(action)
            ahead = playthrough.memory.copy()
            same = playthrough.game.probe(["wait"])[0]
            scene = ahead.update(same, "wait")
            of_twin = observe(scene, ahead, 2, playthrough.mask)
            of_game = observe(playthrough.scene, playthrough.memory, 2, playthrough.mask)
            fresh = observer(EIGHT, way)
            assert np.array_equal(of_twin, fresh.observe(scene, ahead, 2, playthrough.mask))
            fresh.reset()
            assert np.array_equal(of_game, fresh.observe(playthrough.scene, playthrough.memory, 2, playthrough.mask))
            assert not np.array_equal(of_twin, of_game)
            playthrough.step("wait")
            later = observe(playthrough.scene, playthrough.memory, 2, playthrough.mask)
            assert np.array_equal(later[: EIGHT.mask.start], of_twin[: EIGHT.mask.start])


def test_a_given_array_is_written_over(way):
    story = told(ROOM)
    batch = np.full((3, EIGHT.size), 7, dtype=np.float32)
    made = observer(EIGHT, way)
    result = made.observe(story.memory.scene, story.memory, 1, np.zeros(18), out=batch[1])
    assert result.base is batch and (batch[[0, 2]] == 7).all()
    assert np.array_equal(batch[1], made.observe(story.memory.scene, story.memory, 1, np.zeros(18)))


@pytest.mark.parametrize(
    "out",
    [
        np.zeros(EIGHT.size - 1, dtype=np.float32),
        np.zeros(EIGHT.size, dtype=np.float64),
        np.zeros((1, EIGHT.size), dtype=np.float32),
        np.zeros(2 * EIGHT.size, dtype=np.float32)[::2],
    ],
    ids=["short", "float64", "two dimensions", "with gaps"],
)
def test_an_array_that_cannot_hold_the_observation_is_refused(way, out):
    story = told(ROOM)
    with pytest.raises(ValueError, match=r"out: expected contiguous float32 of shape \(2281,\), got"):
        observer(EIGHT, way).observe(story.memory.scene, story.memory, 0, np.ones(18), out=out)


@pytest.fixture
def fresh_choice() -> Iterator[None]:
    """The way is chosen once per process: let it be chosen anew."""
    observation._library.cache_clear()
    yield
    observation._library.cache_clear()


@pytest.mark.usefixtures("fresh_choice")
def test_the_environment_chooses_python(monkeypatch):
    monkeypatch.setenv("NETHACK_PIPE_KERNELS", "python")
    assert observation._library() is None
    monkeypatch.setenv("NETHACK_PIPE_KERNELS", "")
    assert observation._library() is None  # once per process
    observation._library.cache_clear()
    monkeypatch.setenv("NETHACK_PIPE_KERNELS", "rust")
    with pytest.raises(ValueError, match=r"NETHACK_PIPE_KERNELS: expected python \(or nothing\), got 'rust'"):
        Observer(EIGHT)


@pytest.mark.usefixtures("fresh_choice")
def test_without_a_compiler_python_is_taken_without_a_word(monkeypatch, tmp_path):
    monkeypatch.setenv("NETHACK_PIPE_KERNELS", "")
    monkeypatch.setenv("NETHACK_PIPE_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(build.BuildError):
        build.library("paths")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        story = told(ROOM)
        numbers = Observer(EIGHT).observe(story.memory.scene, story.memory, 0, np.ones(18))
    assert path(by_name(EIGHT, numbers), "downstairs") == (3, ["east", "northeast", "southeast"])


def test_memory_that_is_another_one_each_time_is_not_mistaken_for_the_last(way):
    made = observer(ObservationSpec("rich", ("paths",), COMPASS), way)
    for column in range(3, 30):
        memory = Memory()
        story = Story()
        story.memory = memory
        story.show("@" + "." * column + ">")
        numbers = made.observe(memory.scene, memory, 0, np.ones(18))
        assert path(by_name(made.spec, numbers), "downstairs") == (column + 1, ["east"])
