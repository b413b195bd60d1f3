"""n_step_greedy against brute force: every branch played in a game of its own, from the seed."""

import pytest

from nethack_pipe import seeds
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.policies.greedy import CANDIDATES
from nethack_pipe.policies.n_step import DISCOUNT, NStep, NStepGreedy
from nethack_pipe.policies.scripted import WallAvoidance
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.rewards import RewardWeights
from tests.helpers.games import replayed

WEIGHTS = RewardWeights()
NAMES = ACTION_SETS["compass"]


def branch(task: str, seed: int, actions: list[str], candidate: str, dice: int, horizon: int) -> tuple[float, int]:
    """The discounted return of a branch, and the visits to the tile on which the candidate ends."""
    with Game() as game:
        playthrough = replayed(game, seed, actions, NAMES)
        game.reseed(dice)
        walker = WallAvoidance()
        walker.reset(0, dice)
        paid, visits = [], 0
        while len(paid) < horizon and not playthrough.scene.done:
            before = playthrough.scene
            name = walker.act([0], [playthrough])[0] if paid else candidate
            after = playthrough.step(name)
            if not paid:
                visits = int(playthrough.memory.level.visits[after.y, after.x])
            paid.append(rewards.reward(task, before, name, after, WEIGHTS))
        return sum(DISCOUNT**i * reward for i, reward in enumerate(paid)), visits


@pytest.mark.parametrize(("task", "seed", "walked"), [("explore", 36, 25), ("descend", 4, 0), ("survive", 21, 40)])
def test_the_choice_has_the_best_mean_return(task, seed, walked):
    with Game() as game:
        playthrough = replayed(game, seed, [], NAMES)
        walker = WallAvoidance()
        walker.reset(0, seed)
        for _ in range(walked):
            playthrough.step(walker.act([0], [playthrough])[0])
        actions = list(game.actions)
        policy = NStepGreedy(task, WEIGHTS, NStep(horizon=4, samples=2))
        policy.reset(0, 9)
        chosen = policy.act([0], [playthrough])[0]
        legal = [name for name in CANDIDATES if name in playthrough.legal]
        assert game.actions == actions
    streams = [seeds.integer(9, "n_step_greedy", len(actions), sample) for sample in range(2)]
    keys = []
    for order, name in enumerate(legal):
        returns, visits = zip(*(branch(task, seed, actions, name, dice, 4) for dice in streams), strict=True)
        keys.append((sum(returns) / 2, -visits[0], -order))
    assert chosen == legal[keys.index(max(keys))]
    assert len({key[0] for key in keys}) > 1


def test_where_all_is_equal_it_goes_where_it_was_least():
    # Nobody to fight: every branch is worth nothing to combat.
    with Game() as game:
        playthrough = replayed(game, 8, [], NAMES)
        policy = NStepGreedy("combat", WEIGHTS, NStep(horizon=2, samples=1))
        policy.reset(0, 0)
        cells = {playthrough.step(policy.act([0], [playthrough])[0]).cell for _ in range(12)}
    assert len(cells) >= 8


def test_it_is_repeatable_and_its_draws_are_its_own():
    def choices(seed: int) -> list[str]:
        with Game() as game:
            playthrough = replayed(game, 21, [], NAMES)
            policy = NStepGreedy("explore", WEIGHTS, NStep(horizon=4, samples=1))
            policy.reset(0, seed)
            return [playthrough.step(policy.act([0], [playthrough])[0]).action or "" for _ in range(12)]

    assert choices(1) == choices(1) != choices(2)
