"""Labels of recorded games against brute force: games played anew, from the seed, without any branch."""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest

from nethack_pipe import seeds
from nethack_pipe.counterfactuals.label import (
    TRANSITIONS,
    ContinuationName,
    Labelling,
    RecordedGame,
    label,
    label_chunk,
    recorded_games,
)
from nethack_pipe.counterfactuals.moments import KINDS, choose, kinds
from nethack_pipe.counterfactuals.schema import SCHEMA
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.perception import text
from nethack_pipe.policies.registry import POLICY_NAMES, make
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.rollouts.record import Assignment, record
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS

WEIGHTS = RewardWeights()
COMPASS = ACTION_SETS["compass"]
ONE_OF_EACH = dict.fromkeys(KINDS, 1)
HOW = Labelling(
    root_seed=1,
    moments_per_game=ONE_OF_EACH,
    horizon=3,
    samples=3,
    policy="wall_avoidance",
    task=None,
    discount=0.5,
    weights=WEIGHTS,
)


@pytest.fixture(scope="module")
def transitions():
    assignments = [
        Assignment("train", 5, GameSpec(36, 1), "frontier", "descend"),
        Assignment("held_out", 6, GameSpec(3, 2), "frontier", "descend"),
    ]
    return record(assignments, 60, WEIGHTS)


@pytest.fixture(scope="module")
def games(transitions):
    return recorded_games(transitions.select(TRANSITIONS))


@pytest.fixture(scope="module")
def table(games):
    return label(games[0], HOW)


def at_step(game: Game, recorded: RecordedGame, step: int) -> Playthrough:
    playthrough = Playthrough(game, COMPASS)
    playthrough.reset(recorded.seed)
    for action in recorded.actions[:step]:
        playthrough.step(action)
    return playthrough


def float32(value: float) -> float:
    return float(np.float32(value))


def check_samples(recorded: RecordedGame, rows: Sequence[dict], how: Labelling, policy_name: str, task: str) -> None:
    """Compares what `rows` say of samples with games of their own, each played from its seed and re-seeded."""
    for row in rows:
        first, died, left, returns = [], 0, 0, {task: [] for task in TASKS}
        for sample in range(how.samples):
            stream = seeds.stream(how.root_seed, "counterfactuals", "dice", recorded.seed, row["step"], sample)
            policy_seed, *dice = (stream.generate_state(1 + how.horizon, np.uint64) >> np.uint64(2)).tolist()
            with Game() as game:
                playthrough = at_step(game, recorded, row["step"])
                policy = make(policy_name, task, how.weights)
                policy.reset(0, policy_seed)
                start, total = playthrough.scene, dict.fromkeys(TASKS, 0.0)
                levels = set()
                for depth in range(how.horizon):
                    game.reseed(dice[depth])
                    action = policy.act([0], [playthrough])[0] if depth else row["action"]
                    before, after = playthrough.scene, playthrough.step(action)
                    if depth == 0:
                        first.append(text.target(text.delta(before, after)))
                    for name in TASKS:
                        reward = rewards.reward(name, before, action, after, how.weights)
                        total[name] += how.discount**depth * reward
                    levels.add(after.level)
                    if after.done:
                        break
            died += not after.alive
            left += levels != {start.level}
            for name in TASKS:
                returns[name].append(total[name])
        assert dict(zip(row["outcomes"], row["outcome_counts"], strict=True)) == {
            one: first.count(one) for one in first
        }
        assert row["outcome_counts"] == sorted(row["outcome_counts"], reverse=True)
        assert row["death_rate"] == float32(died / how.samples)
        assert row["level_change_rate"] == float32(left / how.samples)
        for name in TASKS:
            assert row[f"returns_{name}"] == pytest.approx(returns[name], abs=1e-4)
            assert row[f"return_{name}"] == pytest.approx(np.mean(returns[name]), abs=1e-4)
            error = np.std(returns[name], ddof=1) / np.sqrt(how.samples)
            assert row[f"return_{name}_se"] == pytest.approx(error, abs=1e-4)


def test_games_are_found_in_the_transitions(transitions, games):
    assert [(game.split, game.game, game.seed) for game in games] == [("train", 5, 36), ("held_out", 6, 3)]
    assert {(game.policy, game.task) for game in games} == {("frontier", "descend")}
    actions = [action for game in games for action in game.actions]
    assert actions == transitions["action"].to_pylist()


def test_moments_are_decisive_and_all_legal_actions_are_tried(games, table):
    assert table.schema.equals(SCHEMA, check_metadata=True)
    rows = table.to_pylist()
    steps = sorted({row["step"] for row in rows})
    assert len(steps) >= 3 and [row["step"] for row in rows] == sorted(row["step"] for row in rows)
    with Game() as game:
        playthrough = at_step(game, games[0], 0)
        found = []
        for step, action in enumerate(games[0].actions):
            if kinds(playthrough.scene):
                found.append((step, kinds(playthrough.scene)))
            labelled = [row for row in rows if row["step"] == step]
            assert [row["action"] for row in labelled] == (playthrough.legal if step in steps else [])
            assert [row["action"] for row in labelled if row["played"]] == [action] * (step in steps)
            for row in labelled:
                assert tuple(kind for kind in KINDS if row[f"is_{kind}"]) == kinds(playthrough.scene)
                assert row["state_text"] == text.state_text(playthrough.scene, game.last)
                assert (row["game_seed"], row["split"], row["game"]) == (36, "train", 5)
                assert (row["samples"], row["horizon"], row["policy"], row["task"]) == (3, 3, "wall_avoidance", None)
                lines = row["map"].split("\n")
                assert len(lines) == 11 and {len(line) for line in lines} == {41} and lines[5][20] == "@"
                y, x = playthrough.scene.y, playthrough.scene.x
                line = bytes(game.last.observation["chars"][y]).decode("latin-1")
                assert lines[5].strip() == f"{'':20}{line}{'':20}"[x : x + 41].strip()
            playthrough.step(action)
    chosen = choose(found, ONE_OF_EACH, seeds.rng(1, "counterfactuals", "moments", 36))
    assert [(moment.step, moment.kind) for moment in chosen] == list(
        dict.fromkeys((row["step"], row["kind"]) for row in rows)
    )
    assert {(row["step"], row["weight"]) for row in rows} == {(m.step, float32(m.weight)) for m in chosen}


def test_what_was_played_is_labelled_as_it_was_recorded(transitions, table):
    recorded = {(row["game_seed"], row["step"]): row for row in transitions.to_pylist()}
    played = [row for row in table.to_pylist() if row["played"]]
    assert len(played) >= 3
    for row in played:
        then = recorded[row["game_seed"], row["step"]]
        assert (row["action"], row["target"], row["state_text"]) == (
            *(then["action"], then["target"], then["state_text"]),
        )
        assert [row[f"reward_{task}"] for task in TASKS] == [then[f"reward_{task}"] for task in TASKS]


def test_one_step_is_what_happens_in_a_game_of_its_own(games, table):
    rows = table.to_pylist()
    for row in rows[:: max(1, len(rows) // 10)]:
        with Game() as game:
            playthrough = at_step(game, games[0], row["step"])
            before = playthrough.scene
            after = playthrough.step(row["action"])
            assert row["target"] == text.target(text.delta(before, after))
            assert (row["died"], row["level_changed"]) == (not after.alive, after.level != before.level)
            for task in TASKS:
                assert row[f"reward_{task}"] == float32(rewards.reward(task, before, row["action"], after, WEIGHTS))


def test_samples_are_what_happens_in_games_of_their_own(games, table):
    rows = table.to_pylist()
    some = rows[:: max(1, len(rows) // 12)]
    assert any(len(row["outcomes"]) > 1 for row in some) and len({row["return_explore"] for row in rows}) > 3
    check_samples(games[0], some, HOW, "wall_avoidance", "explore")


@pytest.mark.parametrize(
    ("policy", "task", "who", "for_what"),
    [("acting", None, "frontier", "descend"), ("task_greedy", "combat", "task_greedy", "combat")],
)
def test_other_policies_go_on_for_the_task_they_are_told(games, policy, task, who, for_what):
    how = replace(HOW, policy=policy, task=task, samples=2, moments_per_game=dict.fromkeys(KINDS, 0) | {"survival": 1})
    rows = label(games[1], how).to_pylist()
    assert rows and {(row["policy"], row["task"]) for row in rows} == {(who, for_what)}
    check_samples(games[1], rows[::4], how, who, for_what)


def test_a_death_and_a_new_level_within_the_horizon_are_told(games):
    # Game 3 ends in a death; on the way the hero stands on stairs at half of his hit points.
    how = replace(HOW, horizon=6, samples=4, moments_per_game=dict.fromkeys(KINDS, 0) | {"survival": 8})
    rows = label(games[1], how).to_pylist()
    assert any(0 < row["death_rate"] < 1 for row in rows) and any(row["level_change_rate"] == 1 for row in rows)
    in_danger = next(row for row in rows if 0 < row["death_rate"] < 1)
    on_stairs = next(row for row in rows if row["action"] == "down")
    check_samples(games[1], [in_danger, on_stairs], how, "wall_avoidance", "explore")


def test_advantages_and_the_best_are_taken_within_a_moment(table):
    rows = table.to_pylist()
    for step in {row["step"] for row in rows}:
        actions = [row for row in rows if row["step"] == step]
        for task in TASKS:
            values = [row[f"return_{task}"] for row in actions]
            assert [row[f"best_{task}"] for row in actions] == [value == max(values) for value in values]
            mean = sum(values) / len(values)
            assert [row[f"advantage_{task}"] for row in actions] == pytest.approx([v - mean for v in values], abs=1e-4)


def test_one_sample_has_no_standard_error(games):
    how = replace(HOW, samples=1, moments_per_game=dict.fromkeys(KINDS, 0) | {"threat": 1})
    rows = label(games[0], how).to_pylist()
    assert rows and all(row[f"return_{task}_se"] is None for row in rows for task in TASKS)
    assert all(row["returns_explore"] == [row["return_explore"]] for row in rows)


def test_the_same_game_gives_the_same_bytes(games):
    small = replace(HOW, moments_per_game=dict.fromkeys(KINDS, 0) | {"survival": 1}, samples=1)
    chunks = [label_chunk((games[1], small)) for _ in range(2)]
    written = []
    for chunk in chunks:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, chunk.schema) as writer:
            writer.write_table(chunk)
        written.append(sink.getvalue().to_pybytes())
    assert written[0] == written[1] and chunks[0].num_rows >= 5
    other = label(games[1], replace(small, root_seed=2))
    assert other["returns_explore"].to_pylist() != chunks[0]["returns_explore"].to_pylist()


def test_a_game_that_does_not_go_as_recorded_is_refused(games):
    dies = games[1]
    with pytest.raises(RuntimeError, match=f"game 3 was over after {len(dies.actions)} actions"):
        label(replace(dies, actions=(*dies.actions, "wait")), HOW)


def test_a_game_without_decisive_moments_has_no_rows(games):
    table = label(replace(games[0], actions=()), HOW)
    assert table.num_rows == 0 and table.schema.equals(SCHEMA)


def test_every_policy_can_be_named():
    acting, others = get_args(ContinuationName)
    assert (get_args(acting), get_args(others)) == (("acting",), POLICY_NAMES)
