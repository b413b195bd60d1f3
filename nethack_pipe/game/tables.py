"""NLE's own tables of glyphs, monsters, objects and statistics as arrays, with no meaning added.

Arrays named IS_... and ..._OF_GLYPH are indexed by glyph and have `MAX_GLYPH` + 1 entries: the last one is NO_GLYPH,
which fills unused inventory slots.
"""

import ctypes
from enum import IntEnum

import numpy as np
from nle import _pynethack, nethack

MAP_SHAPE: tuple[int, int] = nethack.DUNGEON_SHAPE  # (21 rows, 79 columns)
INVENTORY_SIZE: int = nethack.INV_SIZE[0]

MON_OFF: int = nethack.GLYPH_MON_OFF
PET_OFF: int = nethack.GLYPH_PET_OFF
INVIS_OFF: int = nethack.GLYPH_INVIS_OFF
DETECT_OFF: int = nethack.GLYPH_DETECT_OFF
BODY_OFF: int = nethack.GLYPH_BODY_OFF
RIDDEN_OFF: int = nethack.GLYPH_RIDDEN_OFF
OBJ_OFF: int = nethack.GLYPH_OBJ_OFF
CMAP_OFF: int = nethack.GLYPH_CMAP_OFF
EXPLODE_OFF: int = nethack.GLYPH_EXPLODE_OFF
ZAP_OFF: int = nethack.GLYPH_ZAP_OFF
SWALLOW_OFF: int = nethack.GLYPH_SWALLOW_OFF
WARNING_OFF: int = nethack.GLYPH_WARNING_OFF
STATUE_OFF: int = nethack.GLYPH_STATUE_OFF
MAX_GLYPH: int = nethack.MAX_GLYPH
NO_GLYPH: int = nethack.NO_GLYPH

WEAPON_CLASS: int = nethack.WEAPON_CLASS
ARMOR_CLASS: int = nethack.ARMOR_CLASS
RING_CLASS: int = nethack.RING_CLASS
AMULET_CLASS: int = nethack.AMULET_CLASS
TOOL_CLASS: int = nethack.TOOL_CLASS
FOOD_CLASS: int = nethack.FOOD_CLASS
POTION_CLASS: int = nethack.POTION_CLASS
SCROLL_CLASS: int = nethack.SCROLL_CLASS
SPBOOK_CLASS: int = nethack.SPBOOK_CLASS
WAND_CLASS: int = nethack.WAND_CLASS
COIN_CLASS: int = nethack.COIN_CLASS
GEM_CLASS: int = nethack.GEM_CLASS
ROCK_CLASS: int = nethack.ROCK_CLASS
BALL_CLASS: int = nethack.BALL_CLASS
CHAIN_CLASS: int = nethack.CHAIN_CLASS
VENOM_CLASS: int = nethack.VENOM_CLASS
MAXOCLASSES: int = nethack.MAXOCLASSES

# Bits of blstats[BL.CONDITION].
CONDITIONS: dict[str, int] = {
    name.lower(): getattr(nethack, f"BL_MASK_{name}")
    for name in (
        *("STONE", "SLIME", "STRNGL", "FOODPOIS", "TERMILL", "BLIND", "DEAF"),
        *("STUN", "CONF", "HALLU", "LEV", "FLY", "RIDE"),
    )
}


class BL(IntEnum):
    """Indices of the 27 numbers in ``blstats`` (int64)."""

    X = nethack.NLE_BL_X  # column, 0..78
    Y = nethack.NLE_BL_Y  # row, 0..20
    STR25 = nethack.NLE_BL_STR25  # strength, 3..25
    STR125 = nethack.NLE_BL_STR125  # strength, 3..125 (18/01..18/100 spelt out)
    DEX = nethack.NLE_BL_DEX
    CON = nethack.NLE_BL_CON
    INT = nethack.NLE_BL_INT
    WIS = nethack.NLE_BL_WIS
    CHA = nethack.NLE_BL_CHA
    SCORE = nethack.NLE_BL_SCORE
    HP = nethack.NLE_BL_HP
    HPMAX = nethack.NLE_BL_HPMAX
    DEPTH = nethack.NLE_BL_DEPTH  # levels below the surface
    GOLD = nethack.NLE_BL_GOLD
    ENE = nethack.NLE_BL_ENE
    ENEMAX = nethack.NLE_BL_ENEMAX
    AC = nethack.NLE_BL_AC
    HD = nethack.NLE_BL_HD  # monster level while polymorphed
    XP = nethack.NLE_BL_XP  # experience level
    EXP = nethack.NLE_BL_EXP  # experience points
    TIME = nethack.NLE_BL_TIME  # turns
    HUNGER = nethack.NLE_BL_HUNGER  # 0 satiated, 1 not hungry, 2 hungry, 3 weak, 4 fainting
    CAP = nethack.NLE_BL_CAP  # 0 unencumbered .. 5 overloaded
    DNUM = nethack.NLE_BL_DNUM  # number of the dungeon branch
    DLEVEL = nethack.NLE_BL_DLEVEL  # level within the branch
    CONDITION = nethack.NLE_BL_CONDITION  # see CONDITIONS
    ALIGN = nethack.NLE_BL_ALIGN


_GLYPHS = np.arange(MAX_GLYPH, dtype=np.int64)


def _per_glyph(values: np.ndarray, of_no_glyph: object) -> np.ndarray:
    table = np.append(values, np.array([of_no_glyph], dtype=values.dtype))
    table.setflags(write=False)
    return table


def _flag(predicate: str) -> np.ndarray:
    return _per_glyph(np.asarray(getattr(nethack, predicate)(_GLYPHS), dtype=bool), False)


IS_MONSTER = _flag("glyph_is_monster")  # normal, pet, ridden and detected
IS_NORMAL_MONSTER = _flag("glyph_is_normal_monster")
IS_PET = _flag("glyph_is_pet")
IS_RIDDEN = _flag("glyph_is_ridden_monster")
IS_DETECTED = _flag("glyph_is_detected_monster")
IS_INVISIBLE = _flag("glyph_is_invisible")  # the "I" where an unseen monster was felt
IS_OBJECT = _flag("glyph_is_object")  # normal objects, bodies and statues
IS_NORMAL_OBJECT = _flag("glyph_is_normal_object")
IS_BODY = _flag("glyph_is_body")
IS_STATUE = _flag("glyph_is_statue")
IS_CMAP = _flag("glyph_is_cmap")
IS_TRAP = _flag("glyph_is_trap")
IS_SWALLOW = _flag("glyph_is_swallow")
IS_WARNING = _flag("glyph_is_warning")

MONSTER_NAMES: tuple[str, ...] = tuple(nethack.permonst(i).mname for i in range(nethack.NUMMONS))

# struct permonst of NetHack 3.6 (include/permonst.h) as 64-bit builds lay it out. NLE hands out one monster at a time,
# and not its attacks: these are read from its table.
_PERMONST = np.dtype(
    {
        "names": ["mlevel", "mmove", "mattk", "cwt", "difficulty"],
        "formats": [np.int8, np.int8, (np.uint8, (6, 4)), np.uint16, np.uint8],
        "offsets": [9, 10, 16, 40, 66],
        "itemsize": 72,
    }
)


def _monsters() -> np.ndarray:
    size = nethack.NUMMONS * _PERMONST.itemsize
    table = (ctypes.c_char * size).in_dll(ctypes.CDLL(_pynethack.__file__), "mons")
    monsters = np.frombuffer(table.raw, dtype=_PERMONST)
    for field in ("mlevel", "mmove", "cwt", "difficulty"):  # on both sides of the attacks
        told = [getattr(nethack.permonst(i), field) for i in range(nethack.NUMMONS)]
        if monsters[field].tolist() != told:
            raise RuntimeError(
                f"this build of NLE lays out NetHack's struct permonst in another way: {field} of its first monster is "
                f"{told[0]}, {monsters[field][0]} was read; nle 1.3.0 from its 64-bit wheels is needed"
            )
    return monsters


_MONSTERS = _monsters()
# By index into MONSTER_NAMES.
MONSTER_LEVELS: np.ndarray = _MONSTERS["mlevel"]  # int8: experience level it is created with, or a little off
MONSTER_SPEEDS: np.ndarray = _MONSTERS["mmove"]  # int8: movement points in a turn, 12 for an ordinary hero
# (., 6, 4) uint8: of up to six attacks the kind (AT_...), the kind of damage (AD_...), the number of dice and their
# sides; all zero where there is none. No dice, but sides: as many dice as the monster has levels, or one more.
MONSTER_ATTACKS: np.ndarray = _MONSTERS["mattk"]
# Some of include/monattk.h.
AT_NONE, AT_SPIT, AT_BREA, AT_BOOM, AT_GAZE, AT_MAGC = 0, 10, 12, 14, 15, 255
AD_BLND, AD_HALU = 11, 36

# A map glyph of an object that was not identified stands for its looks: use OBJECT_DESCRIPTIONS there. Only objects
# with an empty description are what OBJECT_NAMES says.
OBJECT_NAMES: tuple[str, ...] = tuple(nethack.OBJ_NAME(nethack.objclass(i)) or "" for i in range(nethack.NUM_OBJECTS))
OBJECT_DESCRIPTIONS: tuple[str, ...] = tuple(
    nethack.OBJ_DESCR(nethack.objclass(i)) or "" for i in range(nethack.NUM_OBJECTS)
)
CMAP_EXPLANATIONS: tuple[str, ...] = tuple(nethack.symdef.from_idx(i).explanation for i in range(nethack.MAXPCHARS))
CMAP_SYMBOLS: tuple[str, ...] = tuple(chr(nethack.symdef.from_idx(i).sym) for i in range(nethack.MAXPCHARS))


def _index(of: str, where: np.ndarray) -> np.ndarray:
    index = np.full(MAX_GLYPH + 1, -1, dtype=np.int16)
    index[where] = getattr(nethack, of)(np.flatnonzero(where))
    return index


# Index into MONSTER_NAMES: of monsters of any kind, and whose bodies and statues they are; else -1.
MONSTER_OF_GLYPH = _index("glyph_to_mon", IS_MONSTER | IS_STATUE)
MONSTER_OF_GLYPH[IS_BODY] = np.flatnonzero(IS_BODY) - BODY_OFF
OBJECT_OF_GLYPH = _index("glyph_to_obj", IS_OBJECT)  # index into OBJECT_NAMES, else -1
CMAP_OF_GLYPH = _index("glyph_to_cmap", IS_CMAP)  # index into CMAP_EXPLANATIONS, else -1
for _table in (MONSTER_OF_GLYPH, OBJECT_OF_GLYPH, CMAP_OF_GLYPH):
    _table.setflags(write=False)

_CLASSES = np.array([ord(nethack.objclass(i).oc_class) for i in range(nethack.NUM_OBJECTS)], dtype=np.int16)
OBJECT_CLASS_OF_GLYPH = np.where(OBJECT_OF_GLYPH >= 0, _CLASSES[OBJECT_OF_GLYPH], np.int16(-1))  # ..._CLASS, else -1
OBJECT_CLASS_OF_GLYPH.setflags(write=False)
CMAP_EXPLANATION_OF_GLYPH = np.where(CMAP_OF_GLYPH >= 0, np.array(CMAP_EXPLANATIONS)[CMAP_OF_GLYPH], "")
CMAP_EXPLANATION_OF_GLYPH.setflags(write=False)
