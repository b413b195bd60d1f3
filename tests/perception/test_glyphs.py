"""The tables of glyphs against NLE's own predicates, for every glyph there is."""

import numpy as np
import pytest
from nle import nethack

from nethack_pipe.game import tables
from nethack_pipe.perception import glyphs
from nethack_pipe.perception.glyphs import Tile
from tests.helpers.scenes import body, cmap, monster, pet, statue, thing

ALL = np.arange(nethack.MAX_GLYPH)
# defsyms[] of NetHack 3.6, by index.
TILES = {
    **dict.fromkeys(range(1, 12), Tile.WALL),
    12: Tile.DOORWAY,
    **{13: Tile.OPEN_DOOR, 14: Tile.OPEN_DOOR, 15: Tile.CLOSED_DOOR, 16: Tile.CLOSED_DOOR},
    **{17: Tile.OBSTACLE, 18: Tile.OBSTACLE, 37: Tile.OBSTACLE, 38: Tile.OBSTACLE},
    **dict.fromkeys((19, 20, 33, 35, 36, 39, 40), Tile.FLOOR),
    **{21: Tile.CORRIDOR, 22: Tile.CORRIDOR},
    **{23: Tile.STAIRS_UP, 25: Tile.STAIRS_UP, 24: Tile.STAIRS_DOWN, 26: Tile.STAIRS_DOWN},
    **dict.fromkeys(range(27, 32), Tile.FIXTURE),
    **dict.fromkeys((32, 34, 41), Tile.LIQUID),
    **dict.fromkeys(range(42, 65), Tile.TRAP),
}


def of(predicate: str) -> np.ndarray:
    return np.array([bool(getattr(nethack, predicate)(int(glyph))) for glyph in ALL])


def test_every_map_symbol_is_the_ground_that_netHack_draws_with_it():
    ground = {index: glyphs.GROUND[cmap(index)] for index in range(nethack.MAXPCHARS)}
    hidden = [index for index in ground if index not in TILES]
    assert {index: Tile(ground[index]) for index in TILES} == TILES
    # Blank stone, beams, explosions, the inside of a monster: they tell nothing of the ground.
    assert hidden == [0, *range(65, nethack.MAXPCHARS)]
    assert [index for index in hidden if ground[index] != glyphs.HIDDEN] == []


def test_only_map_symbols_show_the_ground():
    assert not glyphs.SHOWS_GROUND[:-1][~of("glyph_is_cmap")].any()
    assert np.array_equal(glyphs.SHOWS_GROUND, glyphs.GROUND != glyphs.HIDDEN)


def test_monsters_are_all_that_netHack_calls_so_and_the_unseen():
    monsters = of("glyph_is_monster") | of("glyph_is_invisible") | of("glyph_is_warning")
    assert np.array_equal(glyphs.IS_MONSTER[:-1], monsters)
    tame = of("glyph_is_pet") | of("glyph_is_ridden_monster")
    assert tame.sum() == 2 * nethack.NUMMONS
    assert np.array_equal(glyphs.MONSTER_TILE[:-1] == Tile.PET, tame)
    assert set(glyphs.MONSTER_TILE[:-1][~tame].tolist()) == {Tile.HOSTILE}


@pytest.mark.parametrize(
    ("name", "level", "speed", "damage", "passive", "ranged"),
    [
        ("newt", 0, 6, 2, False, False),
        ("soldier ant", 3, 18, 2 * 4 + 3 * 4, False, False),
        ("gnome lord", 3, 8, 8, False, False),  # what it wields is not seen
        ("floating eye", 2, 1, 0, True, False),
        ("acid blob", 1, 3, 0, True, False),
        ("cockatrice", 5, 6, 3, True, False),
        ("gas spore", 1, 3, 0, False, False),
        ("yellow light", 3, 15, 0, False, False),
        ("winter wolf cub", 5, 12, 8 + 6, False, True),
        ("cobra", 6, 18, 2 * 4, False, True),
        ("kobold shaman", 2, 6, 0, False, True),
        ("long worm tail", 0, 0, 0, False, False),
    ],
)
def test_what_kinds_of_monsters_are_like(name, level, speed, damage, passive, ranged):
    of_glyph = glyphs.MONSTER_LEVEL, glyphs.MONSTER_SPEED, glyphs.MONSTER_DAMAGE
    of_glyph += glyphs.MONSTER_PASSIVE, glyphs.MONSTER_RANGED
    for glyph in (monster(name), pet(name)):
        assert [table[glyph] for table in of_glyph] == [level, speed, damage, passive, ranged]
    assert not any(table[body(name)] or table[statue(name)] for table in of_glyph)
    assert not any(table[tables.INVIS_OFF] or table[tables.NO_GLYPH] for table in of_glyph)


def test_monsters_of_every_letter_count():
    # Humans, demons, eels, dogs, golems, ghosts: letters that are no lower-case letters.
    names = ("shopkeeper", "balrog", "giant eel", "newt", "iron golem", "ghost", "lichen", "Elvenking")
    for name in names:
        assert glyphs.IS_MONSTER[monster(name)] and glyphs.MONSTER_TILE[monster(name)] == Tile.HOSTILE
        assert tables.MONSTER_NAMES[glyphs.MONSTER_OF[pet(name)]] == name
        assert not glyphs.IS_MONSTER[statue(name)] and not glyphs.IS_MONSTER[body(name)]
        assert glyphs.MONSTER_OF[statue(name)] == -1


def test_objects_bodies_statues_and_boulders():
    boulder = np.arange(ALL.size) == thing("boulder")
    lies = of("glyph_is_object") & ~of("glyph_is_statue") & ~boulder
    assert np.array_equal(glyphs.IS_ITEM[:-1], lies)
    assert lies[body("newt")] and lies[thing("dagger")]
    assert set(glyphs.ITEM_TILE[:-1][of("glyph_is_statue")].tolist()) == {Tile.OBSTACLE}
    assert glyphs.ITEM_TILE[thing("boulder")] == Tile.BOULDER
    assert glyphs.ITEM_TILE[thing("gold piece")] == Tile.GOLD
    assert glyphs.ITEM_TILE[body("newt")] == glyphs.ITEM_TILE[thing("dagger")] == Tile.ITEM
    assert np.array_equal(glyphs.FLAGS[:-1] & glyphs.OBJECT != 0, of("glyph_is_object"))


def test_useful_objects_are_the_normal_ones_without_rocks_chains_and_venom():
    useful = of("glyph_is_normal_object")
    names = ("boulder", "statue", "rock", "heavy iron ball", "iron chain", "blinding venom", "acid venom")
    for name in (*names, "strange object"):
        useful[thing(name)] = False
    assert np.array_equal(glyphs.FLAGS[:-1] & glyphs.USEFUL != 0, useful)
    assert useful.sum() == nethack.NUM_OBJECTS - 8


@pytest.mark.parametrize(
    ("flag", "indices"),
    [
        (glyphs.STAIRS, {23, 24, 25, 26}),
        (glyphs.ROOM, {19, 20, *range(23, 32), 33, 35, 36, 39, 40, *range(42, 65)}),
        (glyphs.EXPLORES, {*range(12, 17), *range(19, 37), *range(39, 65)}),
    ],
)
def test_flags_of_map_symbols(flag, indices):
    assert {index for index in range(nethack.MAXPCHARS) if glyphs.FLAGS[cmap(index)] & flag} == indices


def test_what_stands_or_lies_on_ground_shows_that_one_can_stand_there():
    explores = glyphs.FLAGS[:-1] & glyphs.EXPLORES != 0
    seen = of("glyph_is_monster") & ~of("glyph_is_detected_monster")
    assert explores[seen].all() and explores[of("glyph_is_body")].all()
    assert not explores[of("glyph_is_detected_monster")].any()
    for glyph in (thing("boulder"), statue("newt"), nethack.GLYPH_INVIS_OFF, nethack.GLYPH_WARNING_OFF, cmap(0)):
        assert not explores[glyph]


def test_every_glyph_is_classified_once():
    classes = np.stack(
        [
            glyphs.IS_MONSTER,
            glyphs.FLAGS & glyphs.OBJECT != 0,
            glyphs.SHOWS_GROUND,
            glyphs.IS_SWALLOW,
        ]
    )[:, :-1]
    effect = of("glyph_is_cmap") & ~glyphs.SHOWS_GROUND[:-1]
    effect[nethack.GLYPH_EXPLODE_OFF : nethack.GLYPH_SWALLOW_OFF] = True  # explosions and zaps
    assert np.array_equal(classes.sum(axis=0) + effect, np.ones(nethack.MAX_GLYPH, dtype=int))


def test_no_glyph_is_nothing():
    assert glyphs.FLAGS[-1] == 0 and glyphs.GROUND[-1] == glyphs.HIDDEN
    assert not glyphs.IS_MONSTER[-1] and not glyphs.IS_ITEM[-1] and not glyphs.IS_SWALLOW[-1]


def test_the_19_kinds_of_tile_have_19_symbols():
    assert len(Tile) == 19 == len(set(glyphs.TILE_SYMBOLS)) == len(glyphs.TILE_SYMBOLS)
    symbols = {Tile(i).name: symbol for i, symbol in enumerate(glyphs.TILE_SYMBOLS)}
    assert symbols["STAIRS_DOWN"] == ">" and symbols["STAIRS_UP"] == "<" and symbols["HOSTILE"] == "M"
