"""Made-up moments of a game: maps painted in characters, shown to a real `Memory` as `Game` would show them."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from nethack_pipe.game import tables
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import EndStatus, Step
from nethack_pipe.game.tables import BL
from nethack_pipe.perception.memory import Memory
from nethack_pipe.perception.scene import Scene
from nethack_pipe.tasks.playthrough import Playthrough

TOP, LEFT = 3, 10  # where the painting's first character lies on the map


def cmap(index: int) -> int:
    """Glyph of an entry of NetHack 3.6's defsyms[]."""
    return tables.CMAP_OFF + index


def monster(name: str) -> int:
    return tables.MON_OFF + tables.MONSTER_NAMES.index(name)


def pet(name: str) -> int:
    return tables.PET_OFF + tables.MONSTER_NAMES.index(name)


def thing(name: str) -> int:
    return tables.OBJ_OFF + tables.OBJECT_NAMES.index(name)


def body(name: str) -> int:
    return tables.BODY_OFF + tables.MONSTER_NAMES.index(name)


def statue(name: str) -> int:
    return tables.STATUE_OFF + tables.MONSTER_NAMES.index(name)


GLYPHS = {
    " ": cmap(0),  # stone, or never seen
    "|": cmap(1),
    "-": cmap(2),
    ",": cmap(12),  # doorway without a door
    "'": cmap(13),  # open door
    "+": cmap(15),  # closed door
    "=": cmap(17),  # iron bars
    "T": cmap(18),  # tree
    ".": cmap(19),
    ":": cmap(20),  # dark part of a room
    "#": cmap(21),
    "<": cmap(23),
    ">": cmap(24),
    "_": cmap(27),  # altar
    "{": cmap(31),  # fountain
    "}": cmap(32),  # water
    "^": cmap(42),  # arrow trap
    "@": monster("monk"),  # the hero; any other human is "h"
    "h": monster("shopkeeper"),
    "n": monster("newt"),
    "g": monster("gnome"),
    "G": monster("gnome"),  # peaceful
    "f": pet("kitten"),
    "I": tables.INVIS_OFF,
    "5": tables.WARNING_OFF + 5,
    "S": statue("newt"),
    "0": thing("boulder"),
    "*": body("newt"),
    "`": thing("rock"),
    ")": thing("dagger"),
    "%": thing("apple"),
    "$": thing("gold piece"),
}
STATS = {
    **{"hp": BL.HP, "max_hp": BL.HPMAX, "ac": BL.AC, "strength": BL.STR25, "dexterity": BL.DEX, "constitution": BL.CON},
    **{"intelligence": BL.INT, "wisdom": BL.WIS, "charisma": BL.CHA, "gold": BL.GOLD, "depth": BL.DEPTH},
    **{"level": BL.DLEVEL, "dungeon": BL.DNUM, "turn": BL.TIME, "experience_level": BL.XP, "score": BL.SCORE},
    **{"hunger": BL.HUNGER, "burden": BL.CAP, "condition": BL.CONDITION},
}
START = {
    **{"hp": 14, "max_hp": 14, "ac": 4, "strength": 17, "dexterity": 15, "constitution": 12, "intelligence": 9},
    **{"wisdom": 13, "charisma": 8, "depth": 1, "level": 1, "experience_level": 1, "hunger": 1},
}


def at(row: int, column: int) -> tuple[int, int]:
    """(y, x) on the map of a place in the painting."""
    return TOP + row, LEFT + column


class Story:
    """A made-up game, told moment by moment to one memory.

    Statistics stay as they are until told otherwise. The arrays are re-used from moment to moment, as NLE does.
    """

    def __init__(self) -> None:
        self.memory = Memory()
        self.stats = np.zeros(27, dtype=np.int64)
        for name, value in START.items():
            self.stats[STATS[name]] = value
        self.observation = {
            "glyphs": np.zeros((21, 79), dtype=np.int16),
            "chars": np.zeros((21, 79), dtype=np.uint8),
            "blstats": np.zeros(27, dtype=np.int64),
            "peaceful": np.zeros((21, 79), dtype=bool),
            "inv_letters": np.zeros(55, dtype=np.uint8),
            "inv_oclasses": np.full(55, tables.MAXOCLASSES, dtype=np.uint8),
            "inv_worn": np.zeros(55, dtype=bool),
        }
        self.step: Step

    def show(
        self,
        painting: str,
        action: str | None = None,
        text: str = "",
        *,
        took_time: bool = True,
        died: bool = False,
        hero: tuple[int, int] | None = None,
        glyphs: dict[tuple[int, int], int] | None = None,
        **stats: int,
    ) -> Scene:
        """The scene after `action` led to what is painted.

        Args:
            painting: rows of the map; where the first one is empty, they are indented.
            hero: row and column of the hero in the painting; where the "@" is if not given.
            glyphs: row and column in the painting -> glyph, over what is painted.
            stats: what changed of the names in `STATS`; depth changes the level too.
        """
        rows = textwrap.dedent(painting[1:]).rstrip().splitlines() if painting[0] == "\n" else painting.splitlines()
        screen, chars = self.observation["glyphs"], self.observation["chars"]
        screen[:], chars[:], self.observation["peaceful"][:] = GLYPHS[" "], ord(" "), False
        for row, line in enumerate(rows):
            for column, symbol in enumerate(line):
                y, x = at(row, column)
                screen[y, x], chars[y, x] = GLYPHS[symbol], ord(symbol)
                self.observation["peaceful"][y, x] = symbol == "G"
                if symbol == "@" and hero is None:
                    hero = row, column
        for (row, column), glyph in (glyphs or {}).items():
            screen[at(row, column)] = glyph
        assert hero is not None, "nobody painted a hero"
        if action is not None and took_time:
            self.stats[BL.TIME] += 1
        elif action is None:
            self.stats[BL.TIME] = 1
        if "depth" in stats:
            stats.setdefault("level", stats["depth"])
        for name, value in stats.items():
            self.stats[STATS[name]] = value
        self.stats[BL.Y], self.stats[BL.X] = at(*hero)
        self.observation["blstats"][:] = self.stats
        status = EndStatus.DEATH if died else EndStatus.RUNNING
        self.step = Step(self.observation, text, took_time, died, status, int(self.stats[BL.SCORE]))
        return self.memory.update(self.step, action)


class Painted:
    """Stands in for a `Game`: its next step leads to what was painted last, whatever the action."""

    def __init__(self) -> None:
        self.story = Story()

    def paint(self, painting: str, action: str | None = None, text: str = "", **changes: Any) -> None:
        """As `Story.show`."""
        self.story.show(painting, action, text, **changes)

    def carry(self, *items: tuple[str, int, bool]) -> None:
        """The inventory from now on: (letter, object class, whether it is worn) of each item."""
        letters, classes, worn = (self.story.observation[key] for key in ("inv_letters", "inv_oclasses", "inv_worn"))
        letters[:], classes[:], worn[:] = 0, tables.MAXOCLASSES, False
        for i, (letter, kind, is_worn) in enumerate(items):
            letters[i], classes[i], worn[i] = ord(letter), kind, is_worn

    @property
    def last(self) -> Step:
        return self.story.step

    def reset(self, seed: int) -> Step:
        return self.story.step

    def step(self, action: str) -> Step:
        return self.story.step


def playing(painting: str, actions: Sequence[str] = ACTION_SETS["compass"], **changes) -> tuple[Painted, Playthrough]:
    """A playthrough that has just begun on `painting`, and the painted game behind it; `changes` go to `paint`."""
    game = Painted()
    game.paint(painting, **changes)
    playthrough = Playthrough(game, actions)
    playthrough.reset(0)
    return game, playthrough
