"""The names of whole commands, what they aim at by default, and the keys that NetHack wants for them.

An action is a whole command: ``"kick:north"`` is one action, not a key and an answer. ``"kick"``, ``"open"``,
``"eat"``, ``"drink"`` and ``"drop"`` alone aim at what `targets` finds; where it finds nothing, no command is given.
"""

from collections.abc import Mapping

import numpy as np

from nethack_pipe.game import tables

ACTIONS: tuple[str, ...] = (
    *("north", "south", "east", "west", "wait", "search", "pickup", "up", "down", "kick", "eat", "drink", "drop"),
    *("northeast", "northwest", "southeast", "southwest", "open", "pray"),
)
ACTION_SETS: dict[str, tuple[str, ...]] = {
    "reference": ACTIONS[:13],
    "compass": ACTIONS[:18],
    "compass_pray": ACTIONS,
}

# Name -> (dy, dx), in rows and columns of the map.
DIRECTIONS: dict[str, tuple[int, int]] = {
    "north": (-1, 0),
    "south": (1, 0),
    "east": (0, 1),
    "west": (0, -1),
    "northeast": (-1, 1),
    "northwest": (-1, -1),
    "southeast": (1, 1),
    "southwest": (1, -1),
}

KEYS: dict[str, int] = {
    **{"north": ord("k"), "south": ord("j"), "east": ord("l"), "west": ord("h")},
    **{"northeast": ord("u"), "northwest": ord("y"), "southeast": ord("n"), "southwest": ord("b")},
    **{"wait": ord("."), "search": ord("s"), "pickup": ord(","), "up": ord("<"), "down": ord(">")},
    **{"kick": ord("d") & 0x1F, "open": ord("o"), "eat": ord("e"), "drink": ord("q"), "drop": ord("d")},
    "pray": ord("p") | 0x80,
}
DIRECTED = frozenset(("kick", "open"))
ITEM_COMMANDS = frozenset(("eat", "drink", "drop"))
TARGETED = DIRECTED | ITEM_COMMANDS

_CLOSED_DOORS = tuple(int(glyph) for glyph in np.flatnonzero(tables.CMAP_EXPLANATION_OF_GLYPH == "closed door"))
_IS_MONSTER_NOT_PET: list[bool] = (tables.IS_MONSTER & ~tables.IS_PET & ~tables.IS_RIDDEN).tolist()


def name_of(action: str | int) -> str:
    """The action's name, from its name or its index in `ACTIONS`. ValueError when there is no such action."""
    if isinstance(action, str):
        name, colon, target = action.partition(":")
        if name in KEYS and (not colon or (name in TARGETED and _is_target(name, target))):
            return action
    else:
        index = int(action)
        if 0 <= index < len(ACTIONS):
            return ACTIONS[index]
    raise ValueError(
        f"no action {action!r}: it must be one of {', '.join(ACTIONS)}, or an index below {len(ACTIONS)}; kick "
        "and open may name a direction (kick:north), eat, drink and drop the letter of an item (eat:f)"
    )


def _is_target(name: str, target: str) -> bool:
    if name in DIRECTED:
        return target in DIRECTIONS
    return len(target) == 1 and target.isascii() and (target.isalpha() or target == "$")


def targets(observation: Mapping[str, np.ndarray]) -> dict[str, str | None]:
    """What the bare ``kick``, ``open``, ``eat``, ``drink`` and ``drop`` aim at now; None when there is nothing.

    Kick takes an adjacent closed door, else an adjacent monster that is neither pet nor peaceful; open an adjacent
    closed door; directions in the order of `DIRECTIONS`. Eat and drink take the first food and the first potion
    carried, drop the last thing that is neither worn, wielded nor quivered, gold left out. `observation` needs glyphs,
    blstats, peaceful, inv_letters, inv_oclasses and inv_worn.
    """
    door, foe = _adjacent(observation)
    classes = observation["inv_oclasses"].tobytes()
    letters = observation["inv_letters"].tobytes()
    food = classes.find(tables.FOOD_CLASS)
    potion = classes.find(tables.POTION_CLASS)
    return {
        "kick": door or foe,
        "open": door,
        "eat": None if food < 0 else chr(letters[food]),
        "drink": None if potion < 0 else chr(letters[potion]),
        "drop": _droppable(letters, classes, observation["inv_worn"]),
    }


def _adjacent(observation: Mapping[str, np.ndarray]) -> tuple[str | None, str | None]:
    glyphs = observation["glyphs"]
    x, y = observation["blstats"][:2].tolist()
    rows, columns = glyphs.shape
    door = foe = None
    for name, (dy, dx) in DIRECTIONS.items():
        row, column = y + dy, x + dx
        if 0 <= row < rows and 0 <= column < columns:
            glyph = glyphs.item(row, column)
            if glyph in _CLOSED_DOORS:
                door = door or name
            elif foe is None and _IS_MONSTER_NOT_PET[glyph] and not observation["peaceful"].item(row, column):
                foe = name
    return door, foe


def _droppable(letters: bytes, classes: bytes, worn: np.ndarray) -> str | None:
    count = letters.find(0)
    for i in range((len(letters) if count < 0 else count) - 1, -1, -1):
        if classes[i] != tables.COIN_CLASS and not worn.item(i):
            return chr(letters[i])
    return None
