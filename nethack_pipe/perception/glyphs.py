"""What a glyph means to a player, as look-up tables indexed by glyph.

Every cell of the map is one of 19 kinds of `Tile`. Glyphs of monsters and objects hide the ground they stand on.
"""

from enum import IntEnum

import numpy as np

from nethack_pipe.game import tables


class Tile(IntEnum):
    """Kinds of tile, the one-hot classes of the observation vector."""

    UNKNOWN = 0
    WALL = 1
    FLOOR = 2
    CORRIDOR = 3
    DOORWAY = 4  # without a door, or with a broken one
    OPEN_DOOR = 5
    CLOSED_DOOR = 6
    STAIRS_UP = 7  # ladders too
    STAIRS_DOWN = 8
    FIXTURE = 9  # altar, grave, throne, sink, fountain
    LIQUID = 10  # water, lava
    TRAP = 11
    OBSTACLE = 12  # tree, iron bars, raised drawbridge, statue
    BOULDER = 13
    ITEM = 14
    GOLD = 15
    PET = 16
    PEACEFUL = 17
    HOSTILE = 18


TILE_SYMBOLS = "?|.#:/+<>_}^T0*$fpM"  # one character per Tile, for prompts
HIDDEN = 255  # in GROUND: the glyph says nothing about the ground

# Bits of FLAGS.
OBJECT, USEFUL, EXPLORES, STAIRS, ROOM, MONSTER, HURTS = (1 << i for i in range(7))

_GROUND_BY_NAME = {
    "wall": Tile.WALL,
    "doorway": Tile.DOORWAY,
    "open door": Tile.OPEN_DOOR,
    "closed door": Tile.CLOSED_DOOR,
    "iron bars": Tile.OBSTACLE,
    "tree": Tile.OBSTACLE,
    "raised drawbridge": Tile.OBSTACLE,
    "floor of a room": Tile.FLOOR,
    "dark part of a room": Tile.FLOOR,
    "ice": Tile.FLOOR,
    "lowered drawbridge": Tile.FLOOR,
    "corridor": Tile.CORRIDOR,
    "lit corridor": Tile.CORRIDOR,
    "staircase up": Tile.STAIRS_UP,
    "ladder up": Tile.STAIRS_UP,
    "staircase down": Tile.STAIRS_DOWN,
    "ladder down": Tile.STAIRS_DOWN,
    "altar": Tile.FIXTURE,
    "grave": Tile.FIXTURE,
    "opulent throne": Tile.FIXTURE,
    "sink": Tile.FIXTURE,
    "fountain": Tile.FIXTURE,
    "water": Tile.LIQUID,
    "molten lava": Tile.LIQUID,
    "air": Tile.FLOOR,
    "cloud": Tile.FLOOR,
}
_STONE = int(np.flatnonzero(tables.CMAP_OF_GLYPH == 0)[0])  # blank: rock, or never seen
_SOLID = (Tile.UNKNOWN, Tile.WALL, Tile.OBSTACLE)
_ROOM_TILES = (Tile.FLOOR, Tile.STAIRS_UP, Tile.STAIRS_DOWN, Tile.FIXTURE, Tile.TRAP)
# Traps that neither cost hit points nor hold the hero.
_HARMLESS_TRAPS = (
    *("squeaky board", "trap door", "hole", "teleportation trap", "level teleporter"),
    *("magic portal", "vibrating square"),
)
_USELESS_CLASSES = (tables.ROCK_CLASS, tables.BALL_CLASS, tables.CHAIN_CLASS, tables.VENOM_CLASS)

_BOULDER_GLYPH = tables.OBJ_OFF + tables.OBJECT_NAMES.index("boulder")
_ROCK_GLYPH = tables.OBJ_OFF + tables.OBJECT_NAMES.index("rock")
SOME_OBJECT = tables.OBJ_OFF  # NetHack's "strange object": something whose looks are not known


def _ground() -> np.ndarray:
    ground = np.full(tables.MAX_GLYPH + 1, HIDDEN, dtype=np.uint8)
    for name, tile in _GROUND_BY_NAME.items():
        ground[name == tables.CMAP_EXPLANATION_OF_GLYPH] = tile
    # NLE counts the first beam of a ray among the traps; only what has a name is one.
    ground[tables.IS_TRAP & (tables.CMAP_EXPLANATION_OF_GLYPH != "")] = Tile.TRAP
    ground[_STONE] = HIDDEN  # what was seen is not forgotten because the screen went blank there
    return ground


GROUND = _ground()
"""(MAX_GLYPH + 1,) uint8: Tile of the ground that a glyph shows, HIDDEN for monsters, objects, effects and blanks."""

IS_MONSTER = tables.IS_MONSTER | tables.IS_INVISIBLE | tables.IS_WARNING
IS_SWALLOW = tables.IS_SWALLOW
SHOWS_GROUND = GROUND != HIDDEN
MONSTER_OF = np.where(tables.IS_MONSTER, tables.MONSTER_OF_GLYPH, -1)
OBJECT_OF = np.where(tables.IS_NORMAL_OBJECT, tables.OBJECT_OF_GLYPH, -1)

MONSTER_TILE = np.where(tables.IS_PET | tables.IS_RIDDEN, np.uint8(Tile.PET), np.uint8(Tile.HOSTILE))
"""(MAX_GLYPH + 1,) uint8: PET or HOSTILE; which of the hostile-looking are peaceful, only NetHack's words tell."""


def _of_monsters() -> tuple[np.ndarray, ...]:
    kind, harm, dice, sides = np.moveaxis(tables.MONSTER_ATTACKS.astype(np.int16), -1, 0)
    # The dice of a flash of light are turns of blindness or hallucination.
    hurts = ~np.isin(kind, (tables.AT_NONE, tables.AT_BOOM)) & ~np.isin(harm, (tables.AD_BLND, tables.AD_HALU))
    damage = (dice * sides * hurts).sum(axis=1)
    passive = (kind == tables.AT_NONE) & ((harm > 0) | (sides > 0))  # all zero is no attack
    ranged = np.isin(kind, (tables.AT_SPIT, tables.AT_BREA, tables.AT_GAZE, tables.AT_MAGC))
    monsters = tables.MONSTER_LEVELS, tables.MONSTER_SPEEDS, damage, passive.any(axis=1), ranged.any(axis=1)
    return tuple(np.where(MONSTER_OF >= 0, np.take(values, MONSTER_OF), values.dtype.type(0)) for values in monsters)


MONSTER_LEVEL, MONSTER_SPEED, MONSTER_DAMAGE, MONSTER_PASSIVE, MONSTER_RANGED = _of_monsters()
"""(MAX_GLYPH + 1,) what the kind of monster that a glyph shows is like, 0 where it shows none. Integers: level; speed,
where 12 is an ordinary hero's; the most hit points that all its attacks together can cost, without weapons, spells and
what it does when it is hit or dies. bool: hitting it hurts, as a floating eye or an acid blob; it spits, breathes,
gazes or casts spells."""

_IS_BOULDER = np.arange(tables.MAX_GLYPH + 1) == _BOULDER_GLYPH
IS_ITEM = tables.IS_OBJECT & ~tables.IS_STATUE & ~_IS_BOULDER
_BLOCKS = tables.IS_STATUE | _IS_BOULDER

ITEM_TILE = np.full(tables.MAX_GLYPH + 1, Tile.ITEM, dtype=np.uint8)
"""(MAX_GLYPH + 1,) uint8: ITEM, GOLD, BOULDER or OBSTACLE (statue), for glyphs of objects."""
ITEM_TILE[tables.OBJECT_CLASS_OF_GLYPH == tables.COIN_CLASS] = Tile.GOLD
ITEM_TILE[tables.IS_STATUE] = Tile.OBSTACLE
ITEM_TILE[_IS_BOULDER] = Tile.BOULDER


def _flags() -> np.ndarray:
    flags = np.zeros(tables.MAX_GLYPH + 1, dtype=np.uint8)
    flags[IS_ITEM | _BLOCKS] |= OBJECT
    flags[IS_MONSTER] |= MONSTER
    flags[(GROUND == Tile.TRAP) & ~np.isin(tables.CMAP_EXPLANATION_OF_GLYPH, _HARMLESS_TRAPS)] |= HURTS
    useful = tables.IS_NORMAL_OBJECT & ~np.isin(tables.OBJECT_CLASS_OF_GLYPH, _USELESS_CLASSES)
    flags[useful & (np.arange(flags.size) != _ROCK_GLYPH) & (np.arange(flags.size) != SOME_OBJECT)] |= USEFUL
    walkable = SHOWS_GROUND & ~np.isin(GROUND, _SOLID)
    # What is detected or warned of was not seen where it stands.
    flags[walkable | IS_ITEM | (tables.IS_MONSTER & ~tables.IS_DETECTED)] |= EXPLORES
    flags[np.isin(GROUND, (Tile.STAIRS_UP, Tile.STAIRS_DOWN))] |= STAIRS
    flags[np.isin(GROUND, _ROOM_TILES)] |= ROOM
    return flags


FLAGS = _flags()
"""(MAX_GLYPH + 1,) uint8 bits. OBJECT: an object is drawn there. USEFUL: one worth having (no corpse, statue, boulder,
rock, ball or chain). EXPLORES: ground one can stand on. STAIRS: a staircase or ladder. ROOM: ground of a room.
MONSTER: as IS_MONSTER. HURTS: a trap that hurts or holds whoever steps on it."""

HURTING_TRAPS: frozenset[str] = frozenset(tables.CMAP_EXPLANATION_OF_GLYPH[FLAGS & HURTS != 0].tolist())
"""NetHack's names of these traps."""

IS_ROOM_TILE = np.zeros(len(Tile), dtype=bool)
IS_ROOM_TILE[list(_ROOM_TILES)] = True
