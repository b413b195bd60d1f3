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
