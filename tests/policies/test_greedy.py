"""task_greedy against brute force: every candidate played in a game of its own, from the seed."""

import pytest

from nethack_pipe import seeds
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.policies.greedy import CANDIDATES, TaskGreedy
from nethack_pipe.policies.scripted import Frontier, WallAvoidance
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS
from tests.helpers.batches import played
from tests.helpers.games import replayed

WEIGHTS = RewardWeights()
COMPASS = ACTION_SETS["compass"]


def brute_force(
    task: str, seed: int, actions: list[str], names: tuple[str, ...], dice: int | None = None
) -> tuple[str, dict[str, str]]:
    """Replays `actions`, tries each candidate, and takes the best: reward, then fewest visits, then order.

    Also what NetHack said to each candidate. `dice`: the candidates are played under this re-drawn stream.
    """
    best = None
    texts: dict[str, str] = {}
    for order, candidate in enumerate(CANDIDATES):
        with Game() as game:
            playthrough = replayed(game, seed, actions, names)
            if candidate not in names or (candidate in ("pickup", "up", "down") and candidate not in playthrough.legal):
                continue
            before = playthrough.scene
            if dice is not None:
                game.reseed(dice)
            after = playthrough.step(candidate)
            texts[candidate] = after.text
            gain = rewards.reward(task, before, candidate, after, WEIGHTS)
            visits = int(playthrough.memory.level.visits[after.y, after.x])
        key = (-gain, visits, order)
        if best is None or key < best[0]:
            best = key, candidate
    assert best is not None
    return best[1], texts


@pytest.mark.parametrize(
    ("task", "names"), [(task, ACTION_SETS["reference"]) for task in TASKS] + [("explore", COMPASS)]
)
def test_the_choice_is_the_best_of_all_outcomes(task, names):
    for seed, walked in ((4, 0), (36, 25), (21, 40)):
        with Game() as game:
            playthrough = Playthrough(game, names)
            playthrough.reset(seed)
            walker, actions = WallAvoidance(), []
            walker.reset(0, seed)
            for _ in range(walked):
                actions.append(walker.act([0], [playthrough])[0])
                playthrough.step(actions[-1])
            policy = TaskGreedy(task, WEIGHTS)
            policy.reset(0, 0)
            assert policy.act([0], [playthrough]) == [brute_force(task, seed, actions, names)[0]], (seed, actions)


def test_looking_ahead_leaves_the_game_as_it_was():
    log = played(TaskGreedy("explore", WEIGHTS), [GameSpec(4, 0)], 10)[0]
    with Game() as game:
        playthrough = Playthrough(game)
        playthrough.reset(4)
        again = []
        for action, *_ in log:
            scene = playthrough.step(action)
            again.append((action, scene.turn, scene.cell, scene.hp))
    assert again == log


def test_where_all_is_equal_it_goes_where_it_was_least():
    # No hostile anywhere: every action is worth nothing to combat. It must not bump north for ever.
    log = played(TaskGreedy("combat", WEIGHTS), [GameSpec(8, 0)], 30)[0]
    actions = [action for action, *_ in log]
    assert max(actions.count(action) for action in set(actions)) <= 18
    assert len({cell for _, _, cell, _ in log}) >= 12


def test_it_goes_down_the_stairs_and_can_change_levels_afterwards():
    with Game() as game:
        playthrough = Playthrough(game, COMPASS)
        playthrough.reset(36)
        walker = Frontier("descend")
        walker.reset(0, 0)
        for _ in range(100):
            if "down" in playthrough.legal:
                break
            playthrough.step(walker.act([0], [playthrough])[0])
        policy = TaskGreedy("descend", WEIGHTS)
        policy.reset(0, 0)
        assert policy.act([0], [playthrough]) == ["down"]
        assert playthrough.step("down").depth == 2
        policy.act([0], [playthrough])  # its branches go up and down again
        assert playthrough.step("up").depth == 1
        assert playthrough.step("down").depth == 2


def test_the_fair_one_does_not_see_the_dice():
    # A moment at which a hostile is adjacent: what it does depends on the dice.
    with Game() as game:
        playthrough = Playthrough(game)
        playthrough.reset(21)
        walker = Frontier("combat")
        walker.reset(0, 0)
        while not playthrough.scene.hostile_adjacent:
            playthrough.step(walker.act([0], [playthrough])[0])
        actions = list(game.actions)
        own = brute_force("combat", 21, actions, playthrough.actions)[1]
        unlike = 0
        for seed in range(4):
            policy = TaskGreedy("combat", WEIGHTS, fair=True)
            policy.reset(0, seed)
            dice = seeds.integer(seed, "task_greedy_fair", len(actions))
            choice, texts = brute_force("combat", 21, actions, playthrough.actions, dice)
            assert policy.act([0], [playthrough]) == [choice]
            unlike += texts != own
        assert unlike > 0
        assert game.actions == actions
        assert playthrough.step("search").text == own["search"]


def test_the_fair_one_is_repeatable():
    specs = [GameSpec(21, 5)]
    first = played(TaskGreedy("survive", WEIGHTS, fair=True), specs, 8)
    assert first == played(TaskGreedy("survive", WEIGHTS, fair=True), specs, 8)
