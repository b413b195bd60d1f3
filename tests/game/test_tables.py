import numpy as np

from nethack_pipe.game import tables
from nethack_pipe.game.game import Game
from nethack_pipe.game.tables import BL


def test_glyph_ranges() -> None:
    assert (tables.MON_OFF, tables.PET_OFF, tables.MAX_GLYPH) == (0, 381, 5976)
    flags = [tables.IS_NORMAL_MONSTER, tables.IS_PET, tables.IS_INVISIBLE, tables.IS_DETECTED, tables.IS_RIDDEN]
    flags += [tables.IS_NORMAL_OBJECT, tables.IS_BODY, tables.IS_STATUE, tables.IS_CMAP]
    assert [int(flag.sum()) for flag in flags] == [381, 381, 1, 381, 381, 453, 381, 381, 96]
    assert not any(flag[tables.NO_GLYPH] for flag in flags)
    # No glyph is two of these.
    assert np.max(np.sum(flags, axis=0)) == 1


def test_names() -> None:
    newt = tables.MONSTER_NAMES.index("newt")
    for offset in (tables.MON_OFF, tables.PET_OFF, tables.DETECT_OFF, tables.RIDDEN_OFF, tables.BODY_OFF):
        assert tables.MONSTER_OF_GLYPH[offset + newt] == newt
    assert tables.MONSTER_OF_GLYPH[tables.STATUE_OFF + newt] == newt
    assert tables.MONSTER_OF_GLYPH[tables.OBJ_OFF] == -1

    assert tables.OBJECT_NAMES[tables.OBJECT_OF_GLYPH[tables.BODY_OFF + newt]] == "corpse"
    assert tables.OBJECT_NAMES[tables.OBJECT_OF_GLYPH[tables.STATUE_OFF + newt]] == "statue"
    assert tables.OBJECT_CLASS_OF_GLYPH[tables.BODY_OFF + newt] == tables.FOOD_CLASS
    assert tables.OBJECT_CLASS_OF_GLYPH[tables.STATUE_OFF + newt] == tables.ROCK_CLASS
    gold = tables.OBJ_OFF + tables.OBJECT_NAMES.index("gold piece")
    assert tables.OBJECT_CLASS_OF_GLYPH[gold] == tables.COIN_CLASS
    assert tables.OBJECT_CLASS_OF_GLYPH[newt] == -1

    down = tables.CMAP_OFF + tables.CMAP_EXPLANATIONS.index("staircase down")
    assert tables.CMAP_SYMBOLS[tables.CMAP_OF_GLYPH[down]] == ">"
    assert tables.CMAP_EXPLANATION_OF_GLYPH[down] == "staircase down"
    assert tables.CMAP_OF_GLYPH[newt] == -1
    assert tables.IS_TRAP[tables.CMAP_OFF + tables.CMAP_EXPLANATIONS.index("bear trap")]


def test_what_monsters_are_like() -> None:
    def of(name: str) -> tuple[int, int, list[tuple[int, ...]]]:
        i = tables.MONSTER_NAMES.index(name)
        attacks = [tuple(attack) for attack in tables.MONSTER_ATTACKS[i].tolist() if any(attack)]
        return int(tables.MONSTER_LEVELS[i]), int(tables.MONSTER_SPEEDS[i]), attacks

    assert tables.MONSTER_LEVELS.shape == tables.MONSTER_SPEEDS.shape == (381,)
    assert tables.MONSTER_ATTACKS.shape == (381, 6, 4)
    # As src/monst.c has them.
    assert of("newt") == (0, 6, [(2, 0, 1, 2)])
    assert of("soldier ant") == (3, 18, [(2, 0, 2, 4), (6, 7, 3, 4)])
    assert of("floating eye") == (2, 1, [(tables.AT_NONE, 14, 0, 70)])
    assert of("gas spore") == (1, 3, [(tables.AT_BOOM, 0, 4, 6)])
    assert of("winter wolf cub") == (5, 12, [(2, 0, 1, 8), (tables.AT_BREA, 3, 1, 6)])
    assert of("yellow light") == (3, 15, [(13, tables.AD_BLND, 10, 20)])
    assert of("black light") == (5, 15, [(13, tables.AD_HALU, 10, 12)])
    assert of("kobold shaman") == (2, 6, [(tables.AT_MAGC, 241, 0, 0)])
    assert of("cobra")[2] == [(2, 7, 2, 4), (tables.AT_SPIT, tables.AD_BLND, 0, 0)]
    assert (tables.AT_GAZE, 25, 0, 0) in of("umber hulk")[2]
    assert of("long worm tail") == (0, 0, [])


def test_blstats_and_conditions_are_those_of_a_game() -> None:
    with Game() as game:
        blstats = game.reset(1).observation["blstats"]
        glyphs = game.last.observation["glyphs"]
    assert tables.MONSTER_NAMES[tables.MONSTER_OF_GLYPH[glyphs[blstats[BL.Y], blstats[BL.X]]]] == "monk"
    assert blstats[[BL.TIME, BL.DEPTH, BL.DLEVEL, BL.XP]].tolist() == [1, 1, 1, 1]
    assert blstats[BL.HP] == blstats[BL.HPMAX] > 10
    assert len(BL) == len(blstats) == 27
    assert tables.CONDITIONS["blind"] == 0x20
    assert len(set(tables.CONDITIONS.values())) == 13
