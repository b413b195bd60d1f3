"""Closed loop: the same games for everybody, episodes as played, scores side by side."""

import numpy as np
import pytest

from nethack_pipe.evaluation import closed_loop
from nethack_pipe.evaluation.closed_loop import REPORTED, Rules, bars, matches, play_match, score
from nethack_pipe.evaluation.starts import Start, beginnings
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.rollouts.record import Assignment, record
from nethack_pipe.tasks.rewards import RewardWeights
from tests.helpers.games import digest

WEIGHTS = RewardWeights()
GAMES = beginnings(42, 3)
# Into a fight, by hand: the hero of game 21 walks, and something bites him.
MOMENT = Start(21, ("west",) * 6)


def rules(*horizons: int, **settings) -> Rules:
    return Rules(42, horizons, WEIGHTS, **{"actions": "reference"} | settings)


def rows_of(policy, tasks, how, games=GAMES, moments=None, share=1.0):
    return [row for match in matches(policy, tasks, games, moments or {}, how, share) for row in play_match(match)]


# -- Who plays what ----------------------------------------------------------------------------------------------------


def test_everybody_plays_the_same_games_with_dice_of_his_own():
    played, drawn = {}, {}
    for policy in ("frontier", "random", "task_greedy"):
        for match in matches(policy, ["explore", "combat"], GAMES, {"combat": [MOMENT]}, rules(5)):
            for start in match.starts:
                for task in match.tasks:
                    played.setdefault(policy, []).append((match.start, task, start))
                draw = closed_loop._draws(match, start, 0)
                assert draw not in drawn, (match, drawn[draw])
                drawn[draw] = match
    expected = [("game", task, start) for task in ("explore", "combat") for start in GAMES]
    expected += [("moment", "combat", MOMENT)]
    assert all(sorted(found, key=str) == sorted(expected, key=str) for found in played.values())
    # Who does not know what he plays for plays a game once.
    assert {match.tasks for match in matches("random", ["explore", "combat"], GAMES, {}, rules(5))} == {
        ("explore", "combat")
    }


def test_a_share_is_the_first_of_the_games_rounded_up():
    def seeds_played(share):
        planned = matches("frontier", ["combat"], GAMES, {"combat": [MOMENT, Start(23)]}, rules(5), share)
        return [(match.start, start.seed) for match in planned for start in match.starts]

    games = [("game", start.seed) for start in GAMES]
    assert seeds_played(1.0) == [*games, ("moment", 21), ("moment", 23)]
    assert seeds_played(0.5) == [*games[:2], ("moment", 21)]
    assert seeds_played(0.01) == [games[0], ("moment", 21)]
    assert seeds_played(0.0) == []


def test_a_moment_is_the_same_game_for_every_policy(monkeypatch):
    taken_over = {}
    play = closed_loop.play

    def watched(policy, specs, max_steps, *, start, **others):
        def note(slot, game):
            start(slot, game)
            scene, memory = game.scene, game.memory
            state = (digest(game.game.last), tuple(game.game.actions), scene.hp, memory.unique_tiles, memory.kills)
            taken_over.setdefault((specs[slot].seed, slot), set()).add((state, memory.level.tiles.tobytes()))

        play(policy, specs, max_steps, start=note, **others)

    monkeypatch.setattr(closed_loop, "play", watched)
    policies = ("random", "wall_avoidance", "frontier", "task_greedy", "task_greedy_fair", "n_step_greedy")
    for policy in policies:
        rows = rows_of(policy, ["combat"], rules(2), [], {"combat": [MOMENT]})
        assert [(row["start"], row["game_seed"], row["start_step"]) for row in rows] == [("moment", 21, 6)]
    assert len(taken_over) == 1 and len(taken_over[21, 0]) == 1


# -- Episodes ----------------------------------------------------------------------------------------------------------


def test_a_match_is_the_games_that_recording_them_shows():
    rows = rows_of("frontier", ["descend"], rules(60))
    specs = [GameSpec(start.seed, 0) for start in GAMES]  # frontier draws nothing
    table = record(
        [Assignment("held_out", i, spec, "frontier", "descend") for i, spec in enumerate(specs)], 60, WEIGHTS
    ).to_pylist()
    assert [(row["policy"], row["task"], row["start"], row["game_seed"]) for row in rows] == [
        ("frontier", "descend", "game", start.seed) for start in GAMES
    ]
    for summary in rows:
        game = [transition for transition in table if transition["game_seed"] == summary["game_seed"]]
        assert summary["length"] == len(game)
        assert summary["task_reward"] == pytest.approx(sum(step["reward_descend"] for step in game), abs=1e-3)
        assert summary["env_reward"] == sum(step["env_reward"] for step in game)
        assert summary["alive"] == float(not game[-1]["done"])


def test_a_short_horizon_is_the_first_part_of_a_long_one():
    both = rows_of("wall_avoidance", ["explore"], rules(20, 50))
    assert [row["max_steps"] for row in both] == [20, 50] * 3
    # The policy's draws do not depend on how long it will play.
    assert both[::2] == rows_of("wall_avoidance", ["explore"], rules(20))
    assert both[1::2] == rows_of("wall_avoidance", ["explore"], rules(50))
    assert all(long["length"] == 50 and long["alive"] for long in both[1::2])


def test_an_episode_that_death_ends_is_reported_for_every_horizon():
    rows = rows_of("frontier", ["descend"], rules(10, 60, 200), [Start(3)])
    assert [row["max_steps"] for row in rows] == [10, 60, 200]
    assert [row["alive"] for row in rows] == [1.0, 0.0, 0.0]
    assert 10 == rows[0]["length"] < rows[1]["length"] == rows[2]["length"] < 60
    assert rows[1]["reward_descend_death"] == -100
    assert rows[1] == rows[2] | {"max_steps": 60}


def test_the_reward_of_an_episode_from_a_moment_is_earned_there():
    [row] = rows_of("frontier", ["explore"], rules(10), [MOMENT])
    [whole] = rows_of("frontier", ["explore"], rules(10), [Start(21)])
    assert row["length"] == 10 and row["start_step"] == 6 and whole["start_step"] == 0
    assert row["unique_tiles"] >= whole["unique_tiles"] - 40  # tiles count for the whole game
    assert row["reward_explore_new_tile"] < row["unique_tiles"]


def test_samples_differ_in_the_draws_and_the_first_is_the_only_one_of_a_single_sample():
    rows = rows_of("random", ["explore"], rules(30, samples=3))
    assert [row["sample"] for row in rows] == [0, 1, 2] * 3
    assert [row["game_seed"] for row in rows] == [start.seed for start in GAMES for _ in range(3)]
    assert len({row["task_reward"] for row in rows[:3]}) > 1
    assert rows[::3] == rows_of("random", ["explore"], rules(30))


def test_playing_once_for_all_tasks_is_playing_for_the_first():
    for_all = rows_of("wall_avoidance", ["explore", "combat"], rules(40))
    alone = rows_of("wall_avoidance", ["explore"], rules(40))
    assert [row for row in for_all if row["task"] == "explore"] == alone
    assert [row["length"] for row in for_all if row["task"] == "combat"] == [row["length"] for row in alone]


# -- Scores ------------------------------------------------------------------------------------------------------------


def row(policy, seed, reward, task="explore", start="game", max_steps=200, sample=0, **values):
    return {
        **{"policy": policy, "task": task, "start": start, "max_steps": max_steps, "game_seed": seed},
        **{"sample": sample, "task_reward": reward},
        **{name: 0.0 for name in REPORTED},
        **values,
    }


def scored(rows, root=1, fully=("frontier", "appo"), against=("task_greedy",)):
    return score(rows, root, fully=fully, against=against)


def test_score_pairs_games_by_their_seed():
    metrics = scored(
        [
            row("frontier", 5, 10.0, depth=2.0, alive=1.0),
            row("frontier", 3, 110.0, depth=1.0, alive=0.0),
            row("task_greedy", 3, 100.0),
            row("task_greedy", 5, 0.0),
            row("frontier", 3, 7.0, task="combat"),
        ]
    )["200_steps"]
    assert set(metrics) == {"explore", "combat"} and set(metrics["explore"]) == {"frontier", "task_greedy"}
    frontier = metrics["explore"]["frontier"]
    assert frontier["games"] == 2
    assert frontier["task_reward"] == {"mean": 60.0, "low": 10.0, "high": 110.0}
    assert frontier["minus_task_greedy"] == {"mean": 10.0, "low": 10.0, "high": 10.0}
    assert [frontier[name]["mean"] for name in ("depth", "alive", "senseless_rate")] == [1.5, 0.5, 0.0]
    assert set(frontier) == {"games", "task_reward", "minus_task_greedy", *REPORTED}
    assert set(metrics["explore"]["task_greedy"]) == {"games", "task_reward", "alive"}
    assert "minus_task_greedy" not in metrics["combat"]["frontier"]


def test_a_games_samples_count_as_one():
    rows = [row("appo", 3, value, sample=i) for i, value in enumerate((0.0, 40.0))]
    rows += [row("appo", 5, value, sample=i, alive=i) for i, value in enumerate((30.0, 30.0))]
    rows += [row("task_greedy", 3, 10.0), row("task_greedy", 5, 20.0)]
    report = scored(rows)["200_steps"]["explore"]["appo"]
    assert report["games"] == 2
    assert report["task_reward"] == {"mean": 25.0, "low": 20.0, "high": 30.0}
    assert report["minus_task_greedy"] == {"mean": 10.0, "low": 10.0, "high": 10.0}
    assert report["alive"] == {"mean": 0.25, "low": 0.0, "high": 0.5}


def test_starts_and_horizons_are_settings_of_their_own():
    rows = [
        row("appo", 3, 1.0, task="combat"),
        row("appo", 3, 2.0, task="combat", max_steps=1000),
        row("appo", 9, 3.0, task="combat", start="moment"),
        row("appo", 9, 4.0, task="combat", start="moment", max_steps=1000),
    ]
    means = {
        (steps, setting): policies["appo"]["task_reward"]["mean"]
        for steps, settings in scored(rows).items()
        for setting, policies in settings.items()
    }
    assert means == {
        ("200_steps", "combat"): 1.0,
        ("1000_steps", "combat"): 2.0,
        ("200_steps", "combat_from_moment"): 3.0,
        ("1000_steps", "combat_from_moment"): 4.0,
    }
    assert list(scored(rows)) == ["200_steps", "1000_steps"]
    drawn = bars(scored(rows))
    assert drawn[-1] == {
        **{"match": "combat_from_moment, 1000 steps: appo", "task": "combat_from_moment", "max_steps": 1000},
        **{"policy": "appo", "mean": 4.0, "low": 4.0, "high": 4.0},
    }
    assert len(drawn) == 4


def test_score_does_not_depend_on_the_order_of_the_rows():
    draws = np.random.default_rng(0)
    rows = [row(policy, seed, float(draws.normal())) for policy in ("frontier", "task_greedy") for seed in range(12)]
    expected = scored(rows, 3)
    shuffled = [rows[i] for i in draws.permutation(len(rows))]
    assert scored(shuffled, 3) == expected
    assert scored(rows, 4) != expected  # another bootstrap


def test_who_played_fewer_games_is_compared_on_these():
    rows = [row("appo", seed, 10.0 * seed) for seed in (3, 5, 7)]
    rows += [row("task_greedy", seed, 1.0) for seed in (3, 5)]
    report = scored(rows)["200_steps"]["explore"]["appo"]
    assert report["games"] == 3 and report["minus_task_greedy"]["mean"] == 39.0


def test_different_games_are_not_paired():
    rows = [row("frontier", 3, 1.0), row("frontier", 5, 2.0), row("task_greedy", 3, 1.0), row("task_greedy", 7, 2.0)]
    with pytest.raises(ValueError, match="explore 200: frontier and task_greedy did not play the same games"):
        scored(rows)
