"""Memory on made-up moments: what is found, met, remembered, and paid for once."""

import numpy as np
import pytest

from nethack_pipe.game import tables
from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.memory import FAR
from tests.helpers.scenes import LEFT, TOP, Story, at, monster, pet, thing

ROOM = """
    -------
    |.....|
    |.@...+
    |....>|
    -------
"""
BLIND, HALLUCINATING, LEVITATING = (tables.CONDITIONS[name] for name in ("blind", "hallu", "lev"))


def cell(row: int, column: int) -> int:
    y, x = at(row, column)
    return 79 * y + x


def counts(scene):
    """What the step found: tiles, rooms, ways down, ways up, items, kills."""
    return (
        *(scene.new_tiles, scene.new_rooms, scene.new_down_stairs, scene.new_up_stairs, scene.new_items),
        scene.kills,
    )


# -- Ground and rooms ----------------------------------------------------------------------------------------------


def test_the_first_look_at_a_room():
    story = Story()
    scene = story.show(ROOM)
    # 15 tiles and the door; walls are no tiles to explore. The hero starts on the upstairs, which is no find.
    assert counts(scene) == (16, 1, 1, 0, 0, 0)
    assert (scene.explored, scene.rooms, scene.unique_tiles, scene.rooms_found) == (16, 1, 16, 1)
    assert (scene.y, scene.x, scene.cell) == (TOP + 2, LEFT + 2, 79 * (TOP + 2) + LEFT + 2)
    assert scene.ground == Tile.STAIRS_UP and not scene.moved and not scene.item_here
    assert scene.tile("north") == scene.tile("southeast") == Tile.FLOOR
    assert scene.stairs_down_distance == 3
    tiles = story.memory.level.tiles
    assert [Tile(tiles[at(*place)]) for place in ((0, 0), (1, 0), (1, 1), (2, 6), (3, 5), (2, 7))] == [
        *(Tile.WALL, Tile.WALL, Tile.FLOOR, Tile.CLOSED_DOOR, Tile.STAIRS_DOWN, Tile.UNKNOWN),
    ]


def test_the_same_again_finds_nothing():
    story = Story()
    story.show(ROOM)
    scene = story.show(ROOM, "wait")
    assert counts(scene) == (0, 0, 0, 0, 0, 0)
    assert (scene.explored, scene.rooms, scene.unique_tiles) == (16, 1, 16)


def test_new_tiles_are_those_not_seen_before():
    story = Story()
    story.show("@##")
    assert story.show(".@###", "east", hero=(0, 1)).new_tiles == 2
    # The corridor goes dark behind the hero: what was seen stays known.
    scene = story.show("  @##", "east")
    assert (scene.new_tiles, scene.explored) == (0, 5)
    assert scene.tile("west") == Tile.CORRIDOR


def test_a_corridor_and_three_tiles_of_floor_are_no_room_but_four_are():
    story = Story()
    scene = story.show("""
        .
        .
        .,@####
    """)
    assert (scene.new_rooms, scene.rooms) == (0, 0)
    scene = story.show(
        """
        ..
        .
        .,@####
    """,
        "search",
    )
    assert (scene.new_rooms, scene.rooms, scene.rooms_found) == (1, 1, 1)


def test_a_room_is_found_when_its_fourth_tile_shows():
    story = Story()
    assert story.show("..,@##\n.f").new_rooms == 0  # nobody knows what the kitten stands on
    assert story.show("..,@##\nf.", "wait").new_rooms == 1
    assert story.show("..,@##\n..", "wait").new_rooms == 0


def test_a_doorway_parts_two_rooms():
    story = Story()
    scene = story.show("""
        --------
        |..|...|
        |..,.@.|
        --------
    """)
    assert (scene.new_rooms, scene.rooms) == (2, 2)


def test_a_room_that_grows_or_merges_with_another_is_no_new_room():
    story = Story()
    assert story.show("::@    ::\n::     ::").new_rooms == 2
    assert story.show("::.@   ::\n::     ::", "east").new_rooms == 0
    assert story.show(":: :@  ::\n::  :  ::", "east").new_rooms == 0
    scene = story.show(":: ::.@::\n::     ::", "east")  # the two were one dark room
    assert (scene.new_rooms, scene.rooms_found) == (0, 2)
    scene = story.show(":: ::.@::\n::     ::\n     ::::", "wait")
    assert (scene.new_rooms, scene.rooms_found, scene.rooms) == (0, 2, 2)


def test_rock_is_learnt_from_a_bump():
    story = Story()
    story.show("@##")
    assert story.memory.scene.tile("north") == Tile.UNKNOWN
    scene = story.show("@##", "north", "It's solid stone.", took_time=False)
    assert scene.tile("north") == Tile.WALL and not scene.moved
    assert story.memory.level.tiles[at(-1, 0)] == Tile.WALL
    assert scene.tile("south") == Tile.UNKNOWN
    # It was no tile to explore, and what is seen there later counts.
    assert (scene.new_tiles, scene.explored) == (0, 3)


def test_the_edge_of_the_map_is_wall():
    story = Story()
    scene = story.show("@..", hero=(-TOP, -LEFT), glyphs={(-TOP, -LEFT): monster("monk")})
    assert (scene.y, scene.x) == (0, 0)
    assert {name for name in DIRECTIONS if scene.tile(name) == Tile.WALL} == {
        *("north", "west", "northwest", "northeast", "southwest"),
    }
    story = Story()
    scene = story.show("@", hero=(20 - TOP, 78 - LEFT), glyphs={(20 - TOP, 78 - LEFT): monster("monk")})
    assert scene.tile("south") == scene.tile("east") == scene.tile("northeast") == Tile.WALL
    assert scene.tile("north") == scene.tile("west") == Tile.UNKNOWN


# -- Stairs and levels ---------------------------------------------------------------------------------------------


def test_stairs_are_found_once_however_often_they_are_hidden_and_seen():
    story = Story()
    assert story.show("|.@.>..<|").new_down_stairs == 1
    assert story.memory.scene.new_up_stairs == 1  # not the one under the hero
    assert counts(story.show("|.<@>..<|", "east")) == (0, 0, 0, 0, 0, 0)
    on = story.show("|.<.@..<|", "east")
    assert on.ground == Tile.STAIRS_DOWN and counts(on) == (0, 0, 0, 0, 0, 0)
    assert on.stairs_down_distance == 0
    off = story.show("|.<.>@.<|", "east")
    assert off.ground == Tile.FLOOR and counts(off) == (0, 0, 0, 0, 0, 0)
    assert off.tile("west") == Tile.STAIRS_DOWN
    gone = story.show("|.<.n@.<|", "wait")  # something stands on it
    assert gone.tile("west") == Tile.HOSTILE and gone.stairs_down_distance == 1
    assert counts(story.show("|.<.>@n<|", "wait")) == (0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("first", ["n", "f", ")"])
def test_stairs_under_a_monster_or_an_item_are_found_when_they_show(first):
    story = Story()
    hidden = story.show(f"|.@.{first}.|")
    assert hidden.new_down_stairs == 0 and hidden.stairs_down_distance == FAR
    shown = story.show("|.@.>.|", "wait")
    assert (shown.new_down_stairs, shown.stairs_down_distance) == (1, 2)
    assert story.show("|.@.>.|", "wait").new_down_stairs == 0


def test_stairs_that_the_hero_came_to_stand_on_unawares_are_found_when_he_steps_off():
    story = Story()
    story.show("|@.....|")
    # A trap door lets him fall onto a staircase: nobody tells him.
    fallen = story.show("|..@..|", "east", "A trap door opens up under you!", depth=2)
    assert fallen.ground == Tile.UNKNOWN and fallen.new_down_stairs == 0
    off = story.show("|..>@.|", "east")
    assert (off.new_down_stairs, off.stairs_down_distance) == (1, 1)


def test_what_netHack_says_of_stairs_underfoot_is_believed():
    story = Story()
    story.show("|@.....|")
    text = "There is a staircase down here.  You see here a dagger."
    scene = story.show("|..@..|", "east", text, depth=2)
    assert scene.ground == Tile.STAIRS_DOWN and scene.item_here


def test_every_level_has_its_own_map_and_is_found_again():
    story = Story()
    story.show(ROOM)
    first = story.memory.level
    story.show("""
        -------
        |.....|
        |....)+
        |....@|
        -------
    """, "southeast")  # fmt: skip
    assert (first.visits[at(2, 2)], first.visits[at(3, 5)]) == (1, 1)

    deeper = story.show("|....@.|", "down", depth=2)
    assert deeper.ground == Tile.STAIRS_UP  # where one arrives by stairs
    assert counts(deeper) == (6, 1, 0, 0, 0, 0) and deeper.deeper == 1 and deeper.moved
    assert (deeper.explored, deeper.rooms, deeper.items_in_view) == (6, 1, 0)
    assert (deeper.unique_tiles, deeper.rooms_found) == (22, 2)
    assert deeper.stairs_down_distance == FAR
    assert story.memory.level is not first and sorted(story.memory.levels) == [(0, 1), (0, 2)]
    assert story.memory.level.tiles[at(2, 6)] == Tile.UNKNOWN and story.memory.level.visits.sum() == 1
    assert counts(story.show("|...@<.|", "west")) == (0, 0, 0, 0, 0, 0)

    # The level above shows less than was known: the rest is as he left it.
    back = story.show("""
        -------
        |.
        |....)
        |....@|
        -------
    """, "up", depth=1)  # fmt: skip
    assert counts(back) == (0, 0, 0, 0, 0, 0) and back.deeper == 0
    assert (back.explored, back.rooms, back.items_in_view, back.unique_tiles) == (16, 1, 1, 22)
    assert back.ground == Tile.STAIRS_DOWN and story.memory.level.visits[at(3, 5)] == 2
    again = story.show("|....@.|", "down", depth=2)
    assert counts(again) == (0, 0, 0, 0, 0, 0) and again.deeper == 0


def test_two_levels_of_equal_depth_are_two_levels():
    story = Story()
    story.show("|@...|", depth=3)
    mines = story.show("|@...|", "down", depth=4, dungeon=2, level=2)
    assert mines.level == (2, 2) and mines.new_tiles == 4 and mines.deeper == 1
    main = story.show("|@...|", "down", depth=4, dungeon=0, level=4)
    assert main.level == (0, 4) and main.new_tiles == 4 and main.deeper == 0


def test_monsters_of_another_level_are_forgotten_on_return():
    story = Story()
    story.show("|@..n|")
    assert story.memory.level.monsters == {cell(0, 4): (monster("newt"), 1)}
    story.show("|@...|", "down", depth=2)
    scene = story.show("|@...|", "up", depth=1)
    assert story.memory.level.monsters == {} and scene.monsters.size == 0


# -- Items ---------------------------------------------------------------------------------------------------------


def test_an_item_is_found_once():
    story = Story()
    first = story.show("|@)..|")
    assert (first.new_items, first.items_in_view, first.tile("east")) == (1, 1, Tile.ITEM)
    on = story.show("|.@..|", "east", "You see here a dagger.")
    assert on.item_here and (on.new_items, on.items_in_view) == (0, 1)
    off = story.show("|.)@.|", "east")
    assert not off.item_here and (off.new_items, off.items_in_view) == (0, 1)
    assert story.show("|.f@.|", "wait").items_in_view == 1  # the kitten stands on it
    assert story.show("|.)@.|", "wait").new_items == 0
    assert story.show("|..@.|", "wait").items_in_view == 0  # and has eaten it, so to speak
    assert story.memory.items_found == 1


def test_only_useful_items_are_finds():
    story = Story()
    scene = story.show("|@S0*`..%)$|")
    assert scene.new_items == 3  # apple, dagger, gold
    assert scene.items_in_view == 5  # the body and the rock could be picked up too; statue and boulder could not
    assert scene.tile("east") == Tile.OBSTACLE
    assert story.show("|.@0..|", "east", glyphs={(0, 3): thing("boulder")}).tile("east") == Tile.BOULDER
    assert story.show("|..@$..|", "east").tile("east") == Tile.GOLD


def test_what_was_picked_up_lies_here_no_more_and_what_was_dropped_is_no_find():
    story = Story()
    story.show("|@).|")
    story.show("|.@.|", "east", "You see here a dagger.")
    taken = story.show("|.@.|", "pickup", "b - a dagger.")
    assert taken.picked_up and not taken.item_here and taken.items_in_view == 0
    assert not story.show("|..@|", "east").picked_up
    dropped = story.show("|..@|", "drop", "You drop a dagger.")
    assert dropped.item_here and (dropped.new_items, dropped.items_in_view) == (0, 1)
    off = story.show("|.@)|", "west")
    assert (off.new_items, off.items_in_view) == (0, 1)
    back = story.show("|..@|", "east", "You see here a dagger.")
    assert back.item_here
    assert story.show("|.@)|", "west").new_items == 0
    assert story.memory.items_found == 1


def test_an_item_dropped_by_its_letter_is_no_find():
    story = Story()
    story.show("|@..|")
    assert story.show("|@..|", "drop:b", "You drop a dagger.").item_here
    assert story.show("|)@.|", "east").new_items == 0


def test_an_item_dropped_on_a_body_is_no_find():
    story = Story()
    story.show("|@*.|")
    assert story.show("|.@.|", "east", "You see here a newt corpse.").item_here
    assert story.show("|.@.|", "drop", "You drop a dagger.").item_here
    assert story.show("|.)@|", "east").new_items == 0


def test_what_a_pet_drops_is_no_find():
    story = Story()
    story.show("|@....|")
    story.show("|@.f..|", "wait")
    twin = story.memory.copy()
    dropped = story.show("|@.)f.|", "search")
    assert (dropped.new_items, dropped.items_in_view, dropped.tile("east")) == (0, 1, Tile.FLOOR)
    assert twin.update(story.step, "search").new_items == twin.items_found == story.memory.items_found == 0
    # Taken up again and put down elsewhere, a step further on than it was seen.
    story.show("|@.f..|", "search")
    story.show("|@..f.|", "search", "The kitten picks up a dagger.")
    assert story.show("|@...f|", "search").new_items == 0
    assert story.show("|@.f.)|", "search", "The kitten drops a dagger.").new_items == 0
    assert story.memory.items_found == 0


def test_what_lay_under_a_pet_that_came_first_is_a_find():
    story = Story()
    story.show("|@.f..|")  # nobody has seen what it stands on
    assert story.show("|@.)f.|", "search").new_items == 1


def test_what_appears_far_from_a_pet_or_unsaid_beside_it_is_a_find():
    for after, text in (("|@.f.)|", "The kitten drops a dagger."), ("|@).f.|", "")):
        story = Story()
        story.show("|@....|")
        story.show("|@.f..|", "wait")
        assert story.show(after, "search", text).new_items == 1


def test_what_a_killed_monster_leaves_beside_a_pet_is_a_find():
    story = Story()
    story.show("|@....|")
    story.show("|@nf..|", "wait")
    scene = story.show("|@)f)f|", "east", "You kill the newt!  The kitten drops a dagger.")
    assert (scene.kills, scene.new_items, scene.items_in_view) == (1, 1, 2)


@pytest.mark.parametrize("action", ["kick", "kick:east"])
def test_a_kicked_item_is_found_once(action):
    story = Story()
    assert story.show("|@)...|").new_items == 1
    slid = story.show("|@...)|", action, "The dagger slides.")
    assert (slid.new_items, slid.items_in_view) == (0, 1)
    assert story.show("|.@..)|", "east").new_items == 0
    assert story.memory.items_found == 1


def test_what_was_picked_up_by_walking_over_it_lies_here_no_more():
    story = Story()
    story.show("|@$.|")
    on = story.show("|.@.|", "east", "$ - 12 gold pieces.", gold=12)
    assert not on.item_here and not on.picked_up and (on.gold, on.gold_record, on.items_in_view) == (12, 12, 0)


@pytest.mark.parametrize(
    "text",
    [
        "You see here a dagger.",
        "You feel here a dagger.",
        "There are several objects here.",
        "Things that are here:  a dagger  an apple",
        "You swap places with Kitty.  You see here a dagger.",
        "$ - 3 gold pieces.  You see here a dagger.",
    ],
)
def test_an_item_that_nobody_saw_is_known_from_netHacks_words(text):
    story = Story()
    story.show("|@..|")
    scene = story.show("|.@.|", "east", text)
    assert scene.item_here and (scene.new_items, scene.items_in_view) == (0, 1)
    assert story.show("|.)@|", "east").new_items == 0


@pytest.mark.parametrize(
    "text",
    [
        "c - a dagger.",
        "You have a little trouble lifting c - a dagger.  Your movements are slowed slightly because of your load.",
        "You have much trouble lifting a dagger.  Continue? [ynq] (q)  You have much trouble lifting c - a dagger.",
        "You have extreme difficulty lifting c - a dagger.",
    ],
)
def test_what_was_picked_up_with_trouble_was_picked_up(text):
    story = Story()
    story.show("|@).|")
    story.show("|.@.|", "east", "You see here a dagger.")
    scene = story.show("|.@.|", "pickup", text)
    assert scene.picked_up and not scene.item_here and scene.items_in_view == 0


def test_what_is_too_heavy_goes_on_lying_here():
    story = Story()
    story.show("|@).|")
    story.show("|.@.|", "east", "You see here a large box.")
    text = "There is a large box here, but you cannot carry any more."
    scene = story.show("|.@.|", "pickup", text, took_time=False)
    assert scene.item_here and not scene.picked_up


def test_nothing_here_to_pick_up_is_believed():
    # The kitten on it took or ate it, and swapped places with the hero.
    story = Story()
    story.show("|@%.|")
    story.show("|@f.|", "wait")
    assert story.show("|f@.|", "east", "You swap places with Kitty.").item_here
    scene = story.show("|.@.|", "pickup", "There is nothing here to pick up.", took_time=False)
    assert not scene.item_here and not scene.picked_up


@pytest.mark.parametrize(
    "text",
    [
        "The stairs are solidly fixed to the floor.",
        "You cannot reach the bottom of the pit.",
        "Moving the altar would be a very bad idea.",
        "The plumbing connects it to the floor.",
    ],
)
def test_other_words_for_nothing_here_are_believed(text):
    # dopickup() has words of its own for each kind of furniture.
    story = Story()
    story.show("|@%.|")
    story.show("|@f.|", "wait")
    assert story.show("|f@.|", "east", "You swap places with Kitty.").item_here
    assert not story.show("|f@.|", "pickup", text, took_time=False).item_here


def test_what_falls_down_the_stairs_does_not_lie_here():
    story = Story()
    story.show("|@>.|")
    story.show("|.@.|", "east")
    scene = story.show("|.@.|", "drop", "You drop a puce potion.  The puce potion falls down the stairs.")
    assert not scene.item_here and scene.items_in_view == 0


def test_a_second_item_of_the_same_looks_shows_when_the_hero_steps_off():
    story = Story()
    story.show("|@)..|")
    story.show("|.@..|", "east", "b - a dagger.")  # one of two
    off = story.show("|.)@.|", "east")
    assert (off.items_in_view, off.tile("west"), off.new_items) == (1, Tile.ITEM, 0)


def test_what_somebody_took_behind_the_hero_lies_there_no_more():
    story = Story()
    story.show("|@...|")
    story.show("|.@..|", "east")
    assert story.show("|.@..|", "drop", "You drop a dagger.").item_here
    off = story.show("|..@.|", "east", "The kitten picks up a dagger.")
    assert (off.items_in_view, off.tile("west")) == (0, Tile.FLOOR)


def test_who_floats_over_an_item_still_knows_of_it():
    story = Story()
    story.show("|@%.|", condition=LEVITATING)
    assert story.show("|.@.|", "east").item_here


# -- Altered states ------------------------------------------------------------------------------------------------


def test_hallucinated_items_pay_once_however_they_look():
    story = Story()
    story.show("|@...|", condition=HALLUCINATING)
    found = 0
    for name in ("dagger", "apple", "saddle", "dagger", "boulder", "rock", "tin"):
        scene = story.show("|@...|", "search", glyphs={(0, 3): thing(name)})
        found += scene.new_items
        assert scene.items_in_view == (name != "boulder")
    assert found == 1


def test_hallucinated_monsters_are_no_items_stairs_or_tiles():
    story = Story()
    story.show("|@..|", condition=HALLUCINATING)
    for name in ("newt", "shopkeeper", "balrog", "newt"):
        scene = story.show("|@..|", "search", glyphs={(0, 2): monster(name)})
        assert counts(scene) == (0, 0, 0, 0, 0, 0) and scene.monsters.tolist() == [cell(0, 2)]


def test_a_monster_that_a_blind_hero_feels_shows_him_no_tile():
    story = Story()
    story.show("|@..|     ")
    assert story.show("|@..|    n", "wait", condition=BLIND).new_tiles == 0
    assert story.show("|@..|    n", "wait", condition=0).new_tiles == 0  # it has not moved: the screen is the same
    assert Story().show("|@..|    n").new_tiles == 4  # seen, it does


def test_a_blind_hero_keeps_his_map_and_feels_his_way():
    story = Story()
    story.show(ROOM)
    # The screen shows what is remembered, an "I" where something was felt, and the hero.
    scene = story.show("""
        -------
        |.I...|
        |.@...+
        |....>|
        -------
    """, "north", "Wait!  There's something there you can't see!", condition=BLIND)  # fmt: skip
    assert counts(scene) == (0, 0, 0, 0, 0, 0) and not scene.moved
    assert scene.tile("north") == Tile.HOSTILE and scene.hostile_adjacent
    scene = story.show("""
        -------
        |.I...|
        |..@..+
        |....>|
        -------
    """, "east")  # fmt: skip
    assert (scene.explored, scene.tile("northwest"), scene.tile("west")) == (16, Tile.HOSTILE, Tile.FLOOR)
    # A tile that is felt out in the dark is new.
    story = Story()
    story.show("@", condition=BLIND)
    assert (story.show(" @", "east").new_tiles, story.memory.scene.explored) == (1, 2)


def stomach(story: Story, **kwargs):
    """The screen from inside a monster, around the hero at (2, 2)."""
    around = {
        (2 + dy, 2 + dx): tables.SWALLOW_OFF + 8 * tables.MONSTER_NAMES.index("ochre jelly") + i
        for i, (dy, dx) in enumerate(DIRECTIONS.values())
    }
    return story.show("  \n  \n  @", glyphs=around, hero=(2, 2), **kwargs)


def test_a_swallowed_hero_keeps_his_map_and_has_a_hostile_all_around():
    story = Story()
    before = story.show("""
        -------
        |.f...|
        |.@.n)+
        |....>|
        -------
    """)
    tiles, items = story.memory.level.tiles.copy(), story.memory.level.items.copy()
    assert before.hostiles.tolist() == [cell(2, 4)] and not before.hostile_adjacent
    inside = stomach(story, action="wait", text="The ochre jelly swallows you whole!")
    assert inside.swallowed and inside.hostile_adjacent
    assert counts(inside) == (0, 0, 0, 0, 0, 0)
    assert (inside.explored, inside.rooms, inside.items_in_view) == (16, 1, 1)
    assert np.array_equal(story.memory.level.tiles, tiles) and np.array_equal(story.memory.level.items, items)
    stomach(story, action="north")
    out = story.show("""
        -------
        |.f...|
        |.@.n)+
        |....>|
        -------
    """, "north", "You kill the ochre jelly!")  # fmt: skip
    assert not out.swallowed and counts(out) == (0, 0, 0, 0, 0, 1)
    assert out.tile("north") == Tile.PET and not out.hostile_adjacent and out.hostiles.tolist() == [cell(2, 4)]


def test_nobody_is_in_view_from_inside_a_monster():
    story = Story()
    story.show("|....n|\n|.f...|\n|.@...|")
    inside = stomach(story, action="wait")
    assert inside.monsters.size == inside.hostiles.size == 0
    assert story.memory.level.monsters == {
        cell(1, 2): (pet("kitten"), 1),
        cell(0, 5): (monster("newt"), 1),
    }  # as last seen


def test_a_polymorphed_hero_is_no_monster_and_no_other():
    story = Story()
    scene = story.show("|.n.h|", hero=(0, 2))
    assert scene.x == LEFT + 2 and scene.monsters.tolist() == [cell(0, 4)]
    assert scene.hostiles.tolist() == [cell(0, 4)] and not scene.hostile_adjacent
    # NetHack shows humans as "@" too: the hero is where the statistics say.
    scene = story.show("|..nh|", "east", hero=(0, 3))
    assert scene.hostile_adjacent and scene.tile("east") == Tile.HOSTILE


@pytest.mark.parametrize("glyph", [thing("dagger"), tables.CMAP_OFF + 19, tables.CMAP_OFF + 24])
def test_a_hero_that_the_screen_does_not_show_is_where_the_statistics_say(glyph):
    story = Story()
    story.show("|@...|")
    scene = story.show("|....|", "east", hero=(0, 2), glyphs={(0, 2): glyph})
    assert (scene.y, scene.x) == at(0, 2) and scene.moved and scene.monsters.size == 0
    assert scene.item_here == (glyph == thing("dagger"))
    assert (scene.ground == Tile.STAIRS_DOWN) == (glyph == tables.CMAP_OFF + 24)
    assert (scene.new_tiles, scene.explored) == (0, 4)


# -- Monsters ------------------------------------------------------------------------------------------------------


def test_pets_peacefuls_statues_and_the_hero_are_no_hostiles():
    story = Story()
    scene = story.show("""
        Gf
        S@h
        .I.
    """)
    around = {name: Tile(scene.tile(name)).name for name in DIRECTIONS}
    assert around == {
        **{"north": "PET", "south": "HOSTILE", "east": "HOSTILE", "west": "OBSTACLE"},
        **{"northeast": "UNKNOWN", "northwest": "PEACEFUL", "southeast": "FLOOR", "southwest": "FLOOR"},
    }
    assert scene.monsters.tolist() == [cell(0, 0), cell(0, 1), cell(1, 2), cell(2, 1)]
    assert scene.monster_tiles.tolist() == [Tile.PEACEFUL, Tile.PET, Tile.HOSTILE, Tile.HOSTILE]
    assert scene.hostiles.tolist() == [cell(1, 2), cell(2, 1)]
    assert scene.monster_glyphs.tolist() == [monster("gnome"), pet("kitten"), monster("shopkeeper"), tables.INVIS_OFF]


def test_a_peaceful_monster_that_grows_angry_is_hostile_and_back():
    story = Story()
    assert not story.show("|@G.|").hostile_adjacent
    assert story.show("|@g.|", "wait").hostile_adjacent  # the glyph is the same: only NetHack's word changed
    assert not story.show("|@G.|", "wait").hostile_adjacent
    assert story.memory.scene.tile("east") == Tile.PEACEFUL


@pytest.mark.parametrize("symbol", "nghI5")
def test_a_hostile_is_adjacent_in_each_direction(symbol):
    for name, (dy, dx) in DIRECTIONS.items():
        story = Story()
        rows = [list("....."), list("....."), list("..@.."), list("....."), list(".....")]
        rows[2 + dy][2 + dx] = symbol
        scene = story.show("\n".join("".join(row) for row in rows))
        assert scene.hostile_adjacent and scene.tile(name) == Tile.HOSTILE
        rows[2 + dy][2 + dx] = "."
        rows[2 + 2 * dy][2 + 2 * dx] = symbol
        scene = story.show("\n".join("".join(row) for row in rows), "wait")
        assert not scene.hostile_adjacent and scene.hostiles.tolist() == [cell(2 + 2 * dy, 2 + 2 * dx)]
        assert scene.tile(name) == Tile.FLOOR


def test_monsters_are_remembered_where_they_were_last_seen():
    story = Story()
    story.show("|@..n|")
    assert story.memory.level.monsters == {cell(0, 4): (monster("newt"), 1)}
    scene = story.show("|@.n.|", "wait")
    assert story.memory.level.monsters == {cell(0, 3): (monster("newt"), 2)}
    assert scene.monsters.tolist() == [cell(0, 3)]
    story.show("|@.  |", "wait")  # it is dark there now
    assert story.memory.level.monsters == {cell(0, 3): (monster("newt"), 2)}
    assert story.memory.scene.monsters.size == 0
    story.show("|@...|", "wait")
    assert story.memory.level.monsters == {}


# -- Words, records, repetitions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kills"),
    [
        ("You kill the newt!", 1),
        ("You hit the newt.  You kill the newt!", 1),
        ("You destroy the gnome zombie!", 1),
        ("You kill the jackal!  You kill the jackal!", 2),
        ("You kill it!", 1),
        ("You miss the newt.  You kill Fang the jackal!  Welcome to experience level 2.", 1),
        ("You kill the poor kitten!", 0),
        ("You kill poor Fido!  You hear the shrieks of anguish.", 0),
        ("The kitten kills the newt!", 0),
        ("The newt is killed!", 0),
        ("The newt dies.", 0),
        ("You have a sad feeling for a moment, then it passes.", 0),
        ("You hit the newt.", 0),
        ("You try to kill time.", 0),
        ("", 0),
    ],
)
def test_a_kill_is_what_netHack_calls_one(text, kills):
    story = Story()
    story.show("|@n.|")
    # The pet steps away and the newt goes: only words tell who killed it.
    assert story.show("|@..|", "east", text).kills == kills
    assert story.memory.kills == kills


def test_records_of_depth_and_gold():
    story = Story()
    story.show("@..", gold=5)
    assert (story.memory.max_depth, story.memory.max_gold) == (1, 5)
    seen = [
        (scene.deeper, scene.gold_record)
        for scene in (
            story.show(".@.", "east", gold=25),
            story.show(".@.", "drop:$", gold=0),
            story.show(".@.", "pickup", "$ - 25 gold pieces.", gold=25),
            story.show("..@", "east", gold=28),
            story.show("@..", "down", depth=2),
            story.show("@..", "up", depth=1),
            story.show("@..", "down", depth=2),
            story.show("@..", "east", depth=5),  # a trap door
        )
    ]
    assert seen == [(0, 20), (0, 0), (0, 0), (0, 3), (1, 0), (0, 0), (0, 0), (3, 0)]
    assert (story.memory.max_depth, story.memory.max_gold) == (5, 28)


def test_repeated_states():
    story = Story()
    assert not story.show("@..").repeated_state
    assert story.show("@..", "wait").repeated_state  # another turn is no other state
    assert not story.show("@..", "wait", hp=13).repeated_state
    assert not story.show(".@.", "east").repeated_state
    assert story.show("@..", "west").repeated_state  # hp 13, there
    assert not story.show("@...", "search").repeated_state  # one more tile is known
    assert not story.show("@...", "search", gold=1).repeated_state
    assert not story.show("@...", "search", score=7).repeated_state


def test_a_state_is_repeated_only_within_the_last_eight():
    story = Story()
    story.show("|@..........|")
    for column in range(2, 9):
        assert not story.show("|...........|", "east", hero=(0, column)).repeated_state
    assert story.show("|...........|", "east", hero=(0, 1)).repeated_state  # seven others since
    story = Story()
    story.show("|@..........|")
    for column in range(2, 10):
        story.show("|...........|", "east", hero=(0, column))
    assert not story.show("|...........|", "east", hero=(0, 1)).repeated_state


def test_recent_tiles_are_those_stepped_onto_again():
    story = Story()
    story.show("|@....|")
    assert not story.show("|@....|", "wait").recent_tile  # standing still is no step
    assert not story.show("|.@...|", "east").recent_tile
    back = story.show("|@....|", "west")
    assert back.recent_tile and back.moved
    assert not story.show("|@....|", "down", depth=2).recent_tile  # the same place of another level
    story = Story()
    story.show("|@.........|")
    for column in range(2, 10):
        assert not story.show("|..........|", "east", hero=(0, column)).recent_tile
    assert not story.show("|..........|", "east", hero=(0, 1)).recent_tile  # eight others since
    assert story.show("|..........|", "east", hero=(0, 3)).recent_tile


def test_visits_count_every_step_spent_on_a_tile():
    story = Story()
    story.show("|@..|")
    story.show("|@..|", "north", "Ouch!")
    story.show("|@..|", "wait")
    story.show("|.@.|", "east")
    assert story.memory.level.visits[at(0, 1)] == 3 and story.memory.level.visits[at(0, 2)] == 1


def test_the_last_visit_is_counted_in_steps():
    story = Story()
    story.show("|@..|")
    story.show("|@..|", "north", "Ouch!", took_time=False)
    story.show("|.@.|", "east")
    assert [int(story.memory.level.last_visit[at(0, column)]) for column in (1, 2, 3)] == [2, 3, 0]
    assert story.memory.steps == 3


def test_the_last_four_actions_are_remembered():
    story = Story()
    story.show("@")
    assert story.memory.actions == ()
    for action in ("east", "kick:north", "wait", "search", "eat:f"):
        story.show("@", action)
    assert story.memory.actions == ("eat:f", "search", "wait", "kick:north")


@pytest.mark.parametrize(
    ("symbol", "text", "took_time", "blocked"),
    [
        ("+", "This door is locked.", False, True),
        ("+", "The door resists!", True, False),
        ("+", "The door opens.", True, False),
        ("0", "You try to move the boulder but in vain.", True, True),
        (" ", "", False, True),
        (".", "", False, True),  # something that does not show
        (".", "You cannot escape from the bear trap!", True, False),
        ("f", "You stop. Your kitten is in the way.", True, False),
        ("G", "You stop. You do not want to attack the gnome.", False, False),
        ("n", "You miss the newt.", True, False),
    ],
)
def test_a_step_that_leads_nowhere_is_remembered(symbol, text, took_time, blocked):
    story = Story()
    story.show(f"@{symbol}.")
    story.show(f"@{symbol}.", "east", text, took_time=took_time)
    assert np.argwhere(story.memory.level.blocked).tolist() == ([list(at(0, 1))] if blocked else [])
    y, x = at(0, 0)
    barred = not took_time and symbol != "G"
    assert story.memory.level.barred == ({y * 79 + x + 1: {y * 79 + x}} if barred else {})


def test_a_way_is_free_again_when_it_looks_different():
    story = Story()
    story.show("@+.")
    story.show("@+.", "east", "This door is locked.", took_time=False)
    story.show("@+.", "kick:east", "WHAMM!")
    assert story.memory.level.blocked[at(0, 1)]
    story.show("@,.", "kick:east", "As you kick the door, it crashes open!")
    assert not story.memory.level.blocked.any()


def test_a_diagonal_step_that_leads_nowhere_tells_nothing_about_the_tile():
    for painting in ("@.\n.+", "@.\n.'", "@|\n-."):
        story = Story()
        story.show(painting)
        story.show(painting, "southeast", "You can't move diagonally into a doorway.", took_time=False)
        assert not story.memory.level.blocked.any()
        y, x = at(0, 0)
        assert story.memory.level.barred == {(y + 1) * 79 + x + 1: {y * 79 + x}}  # but not to go there from here again
        twin = story.memory.copy()
        story.show(painting[:-1] + ",", "search")
        assert not story.memory.level.barred and twin.level.barred


def test_a_bump_at_the_edge_of_the_map_or_inside_a_monster_blocks_nothing():
    story = Story()
    for _ in range(2):
        story.show(" ", "west", hero=(-TOP, -LEFT), took_time=False)
    stomach(story, action="wait")
    stomach(story, action="north", took_time=False)
    assert not story.memory.level.blocked.any()


def test_the_end_of_a_game():
    story = Story()
    story.show("|@n.|", hp=3)
    scene = story.show("|@n.|", "north", "You die...", died=True)
    assert (scene.done, scene.alive, scene.hp, scene.depth) == (True, False, 3, 1)


# -- Independence --------------------------------------------------------------------------------------------------


def test_nothing_is_kept_of_arrays_that_netHack_uses_again():
    story = Story()
    before = story.show("|@.)n|", hp=12, gold=3)
    kept = {name: getattr(before, name) for name in ("hp", "gold", "x", "y", "cell", "explored", "item_here")}
    monsters, adjacent = before.monsters.tolist(), before.adjacent.tolist()
    tiles, items = story.memory.level.tiles.copy(), story.memory.level.items.copy()
    for array in story.observation.values():
        array[:] = 1
    assert {name: getattr(before, name) for name in kept} == kept
    assert before.monsters.tolist() == monsters and before.adjacent.tolist() == adjacent
    assert before.monster_glyphs.tolist() == [monster("newt")]
    assert np.array_equal(story.memory.level.tiles, tiles) and np.array_equal(story.memory.level.items, items)
    after = story.show("|.@)n|", "east", hp=10, gold=5)
    assert (after.hp - before.hp, after.gold - before.gold, after.x - before.x) == (-2, 2, 1)


def snapshot(memory):
    return {
        level: {
            name: value.tobytes() if isinstance(value, np.ndarray) else repr(value)
            for name in kept.__slots__
            for value in [getattr(kept, name)]
        }
        for level, kept in memory.levels.items()
    } | {
        "counts": (memory.unique_tiles, memory.rooms_found, memory.items_found, memory.kills, memory.steps),
        "actions": memory.actions,
        "records": (memory.max_depth, memory.max_gold, tuple(memory.states), tuple(memory.positions)),
        "scene": id(memory.scene),
    }


def test_a_copy_goes_its_own_way():
    story = Story()
    story.show(ROOM)
    story.show("|@....|", "down", depth=2)
    original = story.memory
    before = snapshot(original)

    twin = story.memory = original.copy()
    assert snapshot(twin) == before
    scene = story.show("|.@..)n>|", "east", "You kill the newt!", gold=9)
    assert counts(scene) == (2, 0, 1, 0, 1, 1)
    story.show("|..@.....)|", "up", depth=1)  # a level that both know
    story.show("|..@.....)|", "down", depth=3)
    assert snapshot(original) == before
    assert set(twin.levels) == {(0, 1), (0, 2), (0, 3)} and set(original.levels) == {(0, 1), (0, 2)}

    # And the other way round; what the twin found is still to be found.
    changed = snapshot(twin)
    story.memory = original
    scene = story.show("|.@..)n>|", "east", "You kill the newt!", depth=2, gold=9)
    assert counts(scene) == (2, 0, 1, 0, 1, 1)
    story.show("|..@.....)|", "up", depth=1)
    assert snapshot(twin) == changed


def test_a_copy_of_a_memory_that_has_seen_nothing():
    story = Story()
    empty = story.memory
    story.memory = empty.copy()
    assert story.show("|@..|").new_tiles == 3
    assert empty.unique_tiles == 0 and empty.levels == {} and not empty.level.explored.any()
