import numpy as np
import pytest

from nethack_pipe.game import tables
from nethack_pipe.game.actions import ACTION_SETS, ACTIONS, DIRECTIONS, name_of, targets

FLOOR = tables.CMAP_OFF + tables.CMAP_EXPLANATIONS.index("floor of a room")
DOORS = [tables.CMAP_OFF + i for i, text in enumerate(tables.CMAP_EXPLANATIONS) if text == "closed door"]
JACKAL = tables.MONSTER_NAMES.index("jackal")


def observation(x: int = 10, y: int = 5) -> dict[str, np.ndarray]:
    """The hero on a bare floor, carrying nothing."""
    blstats = np.zeros(27, np.int64)
    blstats[[tables.BL.X, tables.BL.Y]] = x, y
    return {
        "glyphs": np.full(tables.MAP_SHAPE, FLOOR, np.int16),
        "peaceful": np.zeros(tables.MAP_SHAPE, bool),
        "blstats": blstats,
        "inv_letters": np.zeros(55, np.uint8),
        "inv_oclasses": np.full(55, tables.MAXOCLASSES, np.uint8),
        "inv_worn": np.zeros(55, bool),
    }


def carry(seen: dict[str, np.ndarray], *items: tuple[str, int, bool]) -> None:
    for i, (letter, oclass, worn) in enumerate(items):
        seen["inv_letters"][i], seen["inv_oclasses"][i], seen["inv_worn"][i] = ord(letter), oclass, worn


def test_names_and_indices() -> None:
    assert [name_of(i) for i in range(len(ACTIONS))] == list(ACTIONS)
    assert name_of(np.int64(12)) == "drop"
    for name in (*ACTIONS, "kick:north", "open:southwest", "eat:f", "drink:G", "drop:$"):
        assert name_of(name) == name
    assert ACTION_SETS["reference"] == (
        *("north", "south", "east", "west", "wait", "search"),
        *("pickup", "up", "down", "kick", "eat", "drink", "drop"),
    )
    assert set(ACTION_SETS["compass"]) == set(ACTION_SETS["reference"]) | set(DIRECTIONS) | {"open"}
    assert ACTION_SETS["compass_pray"] == (*ACTION_SETS["compass"], "pray")


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "North",
        "fly",
        "kick:",
        "kick:up",
        "kick:a",
        "eat:north",
        "eat:",
        "eat:1",
        "north:a",
        "search:",
        "pray:",
        19,
        -1,
    ],
)
def test_wrong_names_are_refused_with_the_right_ones(wrong: str | int) -> None:
    with pytest.raises(ValueError, match=f"no action {wrong!r}: .*north, south, .*northeast.* below 19; .*kick:north"):
        name_of(wrong)


def test_nothing_to_aim_at() -> None:
    assert targets(observation()) == dict.fromkeys(("kick", "open", "eat", "drink", "drop"))


@pytest.mark.parametrize(("direction", "step"), DIRECTIONS.items())
@pytest.mark.parametrize("door", DOORS)
def test_doors_in_all_directions(direction: str, step: tuple[int, int], door: int) -> None:
    seen = observation()
    seen["glyphs"][5 + step[0], 10 + step[1]] = door
    assert targets(seen)["kick"] == targets(seen)["open"] == direction


def test_kick_aims_at_doors_before_foes_and_never_at_friends() -> None:
    seen = observation()
    seen["glyphs"][4, 10] = tables.PET_OFF + JACKAL
    seen["glyphs"][6, 10] = tables.STATUE_OFF + JACKAL
    seen["glyphs"][5, 11] = JACKAL
    seen["peaceful"][5, 11] = True
    seen["glyphs"][5, 10] = tables.MONSTER_NAMES.index("monk")  # the hero
    assert targets(seen)["kick"] is None
    seen["glyphs"][6, 11] = JACKAL
    assert targets(seen)["kick"] == "southeast"
    assert targets(seen)["open"] is None
    seen["glyphs"][4, 9] = DOORS[0]
    assert targets(seen)["kick"] == targets(seen)["open"] == "northwest"


@pytest.mark.parametrize(("x", "y"), [(0, 0), (78, 20), (0, 20), (78, 0)])
def test_the_corners_of_the_map_have_no_other_side(x: int, y: int) -> None:
    seen = observation(x, y)
    seen["glyphs"][20 - y, :] = seen["glyphs"][:, 78 - x] = DOORS[0]
    assert targets(seen)["kick"] is None


def test_items() -> None:
    seen = observation()
    carry(
        seen,
        ("$", tables.COIN_CLASS, False),
        ("b", tables.ARMOR_CLASS, True),
        ("f", tables.FOOD_CLASS, False),
        ("g", tables.FOOD_CLASS, False),
        ("h", tables.POTION_CLASS, False),
        ("i", tables.WEAPON_CLASS, True),
    )
    assert targets(seen) == {"kick": None, "open": None, "eat": "f", "drink": "h", "drop": "h"}
    seen["inv_worn"][:] = True
    assert targets(seen)["drop"] is None
    carry(seen, ("$", tables.COIN_CLASS, False))
    assert targets(seen)["drop"] is None


def test_a_full_inventory() -> None:
    seen = observation()
    letters = [chr(c) for c in (*range(ord("a"), ord("z") + 1), *range(ord("A"), ord("Z") + 1))] + ["$", "#", "!"]
    carry(seen, *[(letter, tables.GEM_CLASS, False) for letter in letters])
    assert targets(seen)["drop"] == "!"
