"""Closed loop: the same games for everybody, episodes as played, scores side by side."""

import numpy as np
import pytest

from nethack_pipe import seeds
from nethack_pipe.evaluation.closed_loop import REPORTED, Match, held_out_specs, play_match, score
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.rollouts.record import Assignment, record
from nethack_pipe.tasks.rewards import RewardWeights

WEIGHTS = RewardWeights()


def row(policy, seed, reward, task="explore", **values):
    return {
        **{"policy": policy, "task": task, "game_seed": seed, "task_reward": reward},
        **{name: 0.0 for name in REPORTED},
        **values,
    }


def test_everybody_plays_the_same_held_out_games_with_dice_of_his_own():
    specs = held_out_specs(1, 5, "frontier", "explore")
    games = [spec.seed for spec in specs]
    assert games == [seeds.game_seed(1, "held_out", "evaluate", i) for i in range(5)]
    assert all(seed % 2 == 1 for seed in games) and len(set(games)) == 5
    others = [held_out_specs(1, 5, "random", "explore"), held_out_specs(1, 5, "frontier", "combat")]
    assert all([spec.seed for spec in other] == games for other in others)
    assert all(not {s.policy_seed for s in other} & {s.policy_seed for s in specs} for other in others)
    assert held_out_specs(1, 5, "frontier", "explore") == specs
    assert [spec.seed for spec in held_out_specs(2, 5, "frontier", "explore")] != games


def test_a_match_is_the_games_that_recording_them_shows():
    specs = (GameSpec(4, 1), GameSpec(3, 2))
    rows = play_match(Match("frontier", "descend", specs, 60, WEIGHTS, "reference", None))
    table = record(
        [Assignment("held_out", i, spec, "frontier", "descend") for i, spec in enumerate(specs)], 60, WEIGHTS
    ).to_pylist()
    assert [(row["policy"], row["task"], row["game_seed"]) for row in rows] == [
        ("frontier", "descend", 4),
        ("frontier", "descend", 3),
    ]
    for summary in rows:
        game = [transition for transition in table if transition["game_seed"] == summary["game_seed"]]
        assert summary["length"] == len(game)
        assert summary["task_reward"] == pytest.approx(sum(step["reward_descend"] for step in game), abs=1e-3)
        assert summary["env_reward"] == sum(step["env_reward"] for step in game)
        assert summary["alive"] == float(not game[-1]["done"])


def test_score_pairs_games_by_their_seed():
    rows = [
        row("frontier", 5, 10.0, depth=2.0, alive=1.0),
        row("frontier", 3, 110.0, depth=1.0, alive=0.0),
        row("task_greedy", 3, 100.0),
        row("task_greedy", 5, 0.0),
        row("frontier", 3, 7.0, task="combat"),
    ]
    metrics = score(rows, root=1)
    assert set(metrics) == {"explore", "combat"} and set(metrics["explore"]) == {"frontier", "task_greedy"}
    frontier = metrics["explore"]["frontier"]
    assert frontier["task_reward"] == {"mean": 60.0, "low": 10.0, "high": 110.0}
    assert frontier["minus_task_greedy"] == {"mean": 10.0, "low": 10.0, "high": 10.0}
    assert [frontier[name]["mean"] for name in ("depth", "alive", "senseless_rate")] == [1.5, 0.5, 0.0]
    assert "minus_task_greedy" not in metrics["explore"]["task_greedy"]
    assert "minus_task_greedy" not in metrics["combat"]["frontier"]
    assert set(frontier) == {"task_reward", "minus_task_greedy", *REPORTED}


def test_score_does_not_depend_on_the_order_of_the_rows():
    draws = np.random.default_rng(0)
    rows = [row(policy, seed, float(draws.normal())) for policy in ("random", "task_greedy") for seed in range(12)]
    expected = score(rows, root=3)
    shuffled = [rows[i] for i in draws.permutation(len(rows))]
    assert score(shuffled, root=3) == expected
    assert score(rows, root=4) != expected  # another bootstrap


def test_different_games_are_not_paired():
    rows = [row("frontier", 3, 1.0), row("frontier", 5, 2.0), row("task_greedy", 3, 1.0), row("task_greedy", 7, 2.0)]
    with pytest.raises(ValueError, match="explore: frontier and task_greedy did not play the same games"):
        score(rows, root=1)
