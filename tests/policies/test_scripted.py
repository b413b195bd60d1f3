"""random, wall_avoidance and frontier."""

from collections import Counter

import pytest

from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS
from nethack_pipe.game.game import Game
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.policies.registry import POLICY_NAMES, make
from nethack_pipe.policies.scripted import Frontier, Random, WallAvoidance
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from tests.helpers.batches import played
from tests.helpers.scenes import Painted, playing

COMPASS = ACTION_SETS["compass"]
SPECS = [GameSpec(4, 1), GameSpec(36, 2), GameSpec(3, 3)]  # the last one dies


def go(game: Painted, playthrough: Playthrough, painting: str, action: str, text: str = "", **changes) -> None:
    game.paint(painting, action, text, **changes)
    playthrough.step(action)


def begun(policy, seed: int = 0):
    policy.reset(0, seed)
    return policy


def choice(policy, playthrough: Playthrough) -> str:
    return policy.act([0], [playthrough])[0]


# -- All of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_game_is_the_same_game_in_any_batch(name):
    steps, actions = (4, ACTION_SETS["reference"]) if "greedy" in name else (60, COMPASS)
    together = played(make(name, "descend", RewardWeights()), SPECS, steps, actions)
    alone = [played(make(name, "descend", RewardWeights()), [spec], steps, actions)[0] for spec in SPECS]
    assert together == alone
    assert together[0] != together[1] and all(together)


@pytest.mark.parametrize("name", ["random", "wall_avoidance"])
def test_draws_come_from_the_policys_own_seed(name):
    policy = make(name, "explore", RewardWeights())
    first, other, again = (played(policy, [GameSpec(4, seed)], 40)[0] for seed in (1, 2, 1))
    assert first == again != other


# -- random ------------------------------------------------------------------------------------------------------------


def test_random_draws_evenly_from_what_is_legal():
    _, playthrough = playing("|-|\n.@.\n|-|")
    policy = begun(Random(), 7)
    counts = Counter(choice(policy, playthrough) for _ in range(4000))
    assert set(counts) == {"east", "west", "wait", "search"}
    assert all(900 < count < 1100 for count in counts.values())


# -- wall_avoidance ----------------------------------------------------------------------------------------------------


def test_wall_avoidance_walks_in_free_directions_and_never_bumps():
    solid = {Tile.WALL, Tile.OBSTACLE, Tile.LIQUID, Tile.PEACEFUL, Tile.UNKNOWN, Tile.BOULDER}
    tried, moved = [], []

    def watch(slot, game):
        if game.before is not None and game.scene.action in DIRECTIONS:
            tried.append(game.before.tile(game.scene.action))
            moved.append(game.scene.moved)

    logs = played(WallAvoidance(), [GameSpec(seed, seed) for seed in range(4)], 120, COMPASS, watch)
    assert len(tried) > 400 and not solid & set(tried)
    assert sum(moved) / len(moved) > 0.9
    assert {action for log in logs for action, *_ in log} <= {*DIRECTIONS, "search"}


def test_wall_avoidance_goes_on_where_it_can_and_turns_back_last():
    game, playthrough = playing("-----\n|@..|\n-----")
    policy = begun(WallAvoidance())
    assert choice(policy, playthrough) == "east"
    go(game, playthrough, "-----\n|.@.|\n-----", "east")
    assert choice(policy, playthrough) == "east"
    go(game, playthrough, "-----\n|..@|\n-----", "east")
    assert choice(policy, playthrough) == "west"


def test_wall_avoidance_searches_where_nothing_is_free():
    _, playthrough = playing("|-|\n|@|\n|0|")
    assert choice(begun(WallAvoidance()), playthrough) == "search"


# -- frontier ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "painting", "action"),
    [
        ("explore", "-------\n|.....|\n|.@...#\n-------", "east"),  # the corridor is the edge
        ("explore", "---+---\n|...@.|\n|.....|\n-------", "west"),  # a door, no diagonal
        ("combat", "-------\n|...n.|\n|..@..|\n-------", "northeast"),
        ("combat", "-------\n|fG..@#\n-------", "east"),  # no hostile: explores
        ("descend", "-------\n|.....|\n|>.@.)#\n-------", "west"),
        ("descend", "-------\n|<....|\n|..@.)#\n-------", "east"),  # the way up is none
        ("resource", "-------\n|.)...|\n|>.@..#\n-------", "northwest"),
        ("resource", "-------\n|S...@#\n-------", "east"),
        ("survive", "-------\n|....n|\n|.@...#\n-------", "east"),
    ],
)
def test_frontier_walks_to_what_its_task_is_after(task, painting, action):
    _, playthrough = playing(painting)
    assert choice(begun(Frontier(task)), playthrough) == action


def test_frontier_walks_the_shortest_way():
    painting = """
        ---------
        |@......|
        |.-----.|
        |..>..).|
        ---------
    """
    _, playthrough = playing(painting, ACTION_SETS["reference"])
    policy = begun(Frontier("descend"))
    assert choice(policy, playthrough) == "south"
    policy = begun(Frontier("resource"))
    assert choice(policy, playthrough) == "south"
    _, playthrough = playing(painting.replace("@......", ".....@."), ACTION_SETS["reference"])
    assert choice(policy, playthrough) == "east"


def test_frontier_takes_the_stairs_and_the_items_it_stands_on():
    game, playthrough = playing("----\n|@>|\n----")
    go(game, playthrough, "----\n|<@|\n----", "east")
    assert choice(begun(Frontier("descend")), playthrough) == "down"
    assert choice(begun(Frontier("explore")), playthrough) == "down"  # nothing is left to explore
    game, playthrough = playing("----\n|@)#\n----")
    go(game, playthrough, "----\n|.@#\n----", "east", "You see here a dagger.")
    assert choice(begun(Frontier("resource")), playthrough) == "pickup"
    assert choice(begun(Frontier("explore")), playthrough) == "east"


@pytest.mark.parametrize("text", ["There is a large box here, but you cannot carry any more.", "You cannot reach."])
def test_frontier_does_not_press_pickup_for_ever(text):
    game, playthrough = playing("----\n|@)#\n----")
    go(game, playthrough, "----\n|.@#\n----", "east", "You see here a large box.")
    policy = begun(Frontier("resource"))
    assert choice(policy, playthrough) == "pickup"
    go(game, playthrough, "----\n|.@#\n----", "pickup", text, took_time=False)
    assert choice(policy, playthrough) == "east"


def test_frontier_searches_where_there_is_nothing_to_go_to():
    _, playthrough = playing("----\n|@.|\n----")
    assert choice(begun(Frontier("explore")), playthrough) == "search"
    _, playthrough = playing("|-|\n|@|\n|-|")
    assert choice(begun(Frontier("combat")), playthrough) == "search"


def test_frontier_does_not_try_a_locked_door_again():
    painting = "-+---\n|@..#\n-----"
    game, playthrough = playing(painting, ACTION_SETS["reference"])
    policy = begun(Frontier("explore"))
    assert choice(policy, playthrough) == "north"
    go(game, playthrough, painting, "north", "This door is locked.", took_time=False)
    assert choice(policy, playthrough) == "east"
    # A door that opens is no failure, and another game knows nothing of this one's doors.
    policy.reset(0, 0)
    _, playthrough = playing(painting, ACTION_SETS["reference"])
    assert choice(policy, playthrough) == "north"
    go(game := playthrough.game, playthrough, painting.replace("+", "'"), "north", "The door opens.")
    assert choice(policy, playthrough) == "north"


def test_frontier_tries_again_where_somebody_was_in_the_way():
    painting = "-----\n|@..#\n-----"
    game, playthrough = playing(painting)
    policy = begun(Frontier("explore"))
    assert choice(policy, playthrough) == "east"
    go(game, playthrough, painting, "east", "You stop.  Kitty is in the way.")
    assert choice(policy, playthrough) == "east"


def test_frontier_explores_more_than_wall_avoidance_and_that_more_than_random():
    tiles = {}
    for name in ("frontier", "wall_avoidance", "random"):
        last: dict[int, int] = {}

        def watch(slot, game, last=last):
            last[slot] = game.memory.unique_tiles

        played(make(name, "explore", RewardWeights()), [GameSpec(seed, seed) for seed in range(6)], 150, watch=watch)
        tiles[name] = sum(last.values())
    assert tiles["frontier"] > 1.3 * tiles["wall_avoidance"] > 1.3 * tiles["random"]


def test_frontier_never_freezes_the_game():
    for seed in (118, 124):  # there a pet eats what it stands on, and a chest is heavy
        with Game() as game:
            playthrough = Playthrough(game, COMPASS)
            playthrough.reset(seed)
            policy = begun(Frontier("resource"))
            scenes = [playthrough.step(choice(policy, playthrough)) for _ in range(100)]
        assert sum(not scene.took_time for scene in scenes) < 10 and scenes[-1].turn > 60
