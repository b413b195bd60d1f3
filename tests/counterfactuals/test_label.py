"""Labels of recorded games against brute force: games played anew, from the seed, without any branch."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from nethack_pipe import seeds
from nethack_pipe.counterfactuals.label import (
    Labelling,
    RecordedGame,
    label,
    label_chunk,
    preferences,
    recorded_games,
    summary,
)
from nethack_pipe.counterfactuals.moments import KINDS, kinds
from nethack_pipe.counterfactuals.schema import PREFERENCES, SCHEMA
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.perception import text
from nethack_pipe.policies.scripted import WallAvoidance
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.rollouts.record import Assignment, record
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS

WEIGHTS = RewardWeights()
COMPASS = ACTION_SETS["compass"]
HOW = Labelling(
    root_seed=1, moments_per_game=3, horizon=2, samples=2, policy="wall_avoidance", discount=0.5, weights=WEIGHTS
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
    return recorded_games(transitions)


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


def test_games_are_found_in_the_transitions(transitions, games):
    assert [(game.split, game.game, game.seed) for game in games] == [("train", 5, 36), ("held_out", 6, 3)]
    actions = [action for game in games for action in game.actions]
    assert actions == transitions["action"].to_pylist()


def test_moments_are_decisive_and_all_legal_actions_are_tried(games, table):
    assert table.schema.equals(SCHEMA, check_metadata=True)
    rows = table.to_pylist()
    steps = sorted({row["step"] for row in rows})
    assert len(steps) == 3 and [row["step"] for row in rows] == sorted(row["step"] for row in rows)
    for step in steps:
        with Game() as game:
            playthrough = at_step(game, games[0], step)
            found = kinds(playthrough.scene)
            labelled = [row for row in rows if row["step"] == step]
            assert found and [row["action"] for row in labelled] == playthrough.legal
            for row in labelled:
                assert tuple(kind for kind in KINDS if row[f"is_{kind}"]) == found
                assert row["state_text"] == text.state_text(playthrough.scene, game.last)
                assert (row["game_seed"], row["split"], row["game"], row["samples"]) == (36, "train", 5, 2)
        assert [row["action"] for row in labelled if row["played"]] == [games[0].actions[step]]


def test_what_was_played_is_labelled_as_it_was_recorded(transitions, table):
    recorded = {(row["game_seed"], row["step"]): row for row in transitions.to_pylist()}
    played = [row for row in table.to_pylist() if row["played"]]
    assert len(played) == 3
    for row in played:
        then = recorded[row["game_seed"], row["step"]]
        assert (row["action"], row["target"], row["state_text"]) == (
            *(then["action"], then["target"], then["state_text"]),
        )
        assert [row[f"reward_{task}"] for task in TASKS] == [then[f"reward_{task}"] for task in TASKS]


def test_labels_are_what_happens_in_a_game_of_its_own(games, table):
    rows = table.to_pylist()
    for row in rows[:: max(1, len(rows) // 8)]:
        with Game() as game:
            playthrough = at_step(game, games[0], row["step"])
            before = playthrough.scene
            after = playthrough.step(row["action"])
            assert row["target"] == text.target(text.delta(before, after))
            assert (row["died"], row["level_changed"]) == (not after.alive, after.level != before.level)
            for task in TASKS:
                assert row[f"reward_{task}"] == float32(rewards.reward(task, before, row["action"], after, WEIGHTS))


def test_returns_are_means_over_redrawn_dice(games, table):
    rows = table.to_pylist()
    for row in rows[:: max(1, len(rows) // 6)]:
        first, returns, died = [], {task: [] for task in TASKS}, 0
        for sample in range(HOW.samples):
            dice = seeds.integer(HOW.root_seed, "counterfactuals", "dice", 36, row["step"], sample)
            with Game() as game:
                playthrough = at_step(game, games[0], row["step"])
                game.reseed(dice)
                policy = WallAvoidance()
                policy.reset(0, dice)
                total, action = dict.fromkeys(TASKS, 0.0), row["action"]
                for depth in range(HOW.horizon):
                    before = playthrough.scene
                    after = playthrough.step(action)
                    if depth == 0:
                        first.append(text.target(text.delta(before, after)))
                    for task in TASKS:
                        total[task] += 0.5**depth * rewards.reward(task, before, action, after, WEIGHTS)
                    if after.done:
                        break
                    action = policy.act([0], [playthrough])[0]
                died += after.done
            for task in TASKS:
                returns[task].append(total[task])
        assert dict(zip(row["outcomes"], row["outcome_counts"], strict=True)) == {
            outcome: first.count(outcome) for outcome in first
        }
        assert row["death_rate"] == died / 2
        for task in TASKS:
            one, other = returns[task]
            assert row[f"return_{task}"] == pytest.approx((one + other) / 2, abs=1e-5)
            # The standard error of a mean of two is half their difference.
            assert row[f"return_{task}_se"] == pytest.approx(abs(one - other) / 2, abs=1e-5)


def test_advantages_and_the_best_are_taken_within_a_moment(table):
    rows = table.to_pylist()
    for step in {row["step"] for row in rows}:
        actions = [row for row in rows if row["step"] == step]
        for task in TASKS:
            values = [row[f"return_{task}"] for row in actions]
            assert [row[f"best_{task}"] for row in actions] == [value == max(values) for value in values]
            mean = sum(values) / len(values)
            assert [row[f"advantage_{task}"] for row in actions] == pytest.approx([v - mean for v in values], abs=1e-4)
    assert len({row["return_explore"] for row in rows}) > 3


def test_the_same_game_gives_the_same_bytes(games, table):
    small = replace(HOW, moments_per_game=1, samples=1)
    chunks = [label_chunk((games[1], small)) for _ in range(2)]
    written = []
    for chunk in chunks:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, chunk.schema) as writer:
            writer.write_table(chunk)
        written.append(sink.getvalue().to_pybytes())
    assert written[0] == written[1] and chunks[0].num_rows >= 5
    other = label(games[1], replace(small, root_seed=2))
    assert other["return_explore"].to_pylist() != chunks[0]["return_explore"].to_pylist()


def test_a_game_that_does_not_go_as_recorded_is_refused(games):
    dies = games[1]
    with pytest.raises(RuntimeError, match=f"game 3 was over after {len(dies.actions)} actions"):
        label(replace(dies, actions=(*dies.actions, "wait")), HOW)


def test_a_game_without_decisive_moments_has_no_rows(games):
    table = label(replace(games[0], actions=()), HOW)
    assert table.num_rows == 0 and table.schema.equals(SCHEMA)


# -- Preferences and counts --------------------------------------------------------------------------------------------


def rows_of(step: int, **returns: tuple[float, float]) -> list[dict]:
    """One moment: action -> mean and standard error of combat's return; nothing to choose in the other tasks."""
    best = max(mean for mean, _ in returns.values())
    empty = {
        field.name: [] if pa.types.is_list(field.type) else "" if pa.types.is_string(field.type) else 0
        for field in SCHEMA
    }
    empty |= {field.name: False for field in SCHEMA if pa.types.is_boolean(field.type)}
    empty |= {f"best_{task}": True for task in TASKS}
    return [
        {
            **empty,
            **{"game_seed": 8, "split": "train", "step": step, "state_text": f"state {step}", "action": action},
            **{"return_combat": mean, "return_combat_se": error, "best_combat": mean == best, "samples": 4},
            **{"reward_combat": -mean, "is_threat": step == 1, "outcomes": ["a", "b"], "outcome_counts": [3, 1]},
        }
        for action, (mean, error) in returns.items()
    ]


def test_preferences_pair_the_best_with_what_is_surely_worse():
    table = pa.Table.from_pylist(
        [
            *rows_of(1, north=(5.0, 0.5), south=(4.5, 0.5), east=(1.0, 0.5), west=(5.0, 0.0)),
            *rows_of(2, north=(0.0, 0.0), wait=(2.0, 0.0)),
            *rows_of(3, north=(1.0, 0.0), wait=(1.0, 0.0)),
        ],
        SCHEMA,
    )
    pairs = preferences(table)
    assert pairs.schema.equals(PREFERENCES, check_metadata=True)
    common = {"game_seed": 8, "split": "train", "task": "combat"}
    assert pairs.to_pylist() == [
        {**common, "step": 1, "state_text": "state 1", "chosen": "north", "rejected": "east", "margin": 4.0},
        {**common, "step": 2, "state_text": "state 2", "chosen": "wait", "rejected": "north", "margin": 2.0},
    ]
    # The difference must pass its own standard error, which is 1 here.
    for worse, paired in ((3.5, 1), (4.5, 0)):
        table = pa.Table.from_pylist(rows_of(1, north=(5.0, 0.6), south=(worse, 0.8)), SCHEMA)
        assert preferences(table).num_rows == paired


def test_preferences_of_a_real_game(table):
    rows = {(row["step"], row["action"]): row for row in table.to_pylist()}
    pairs = preferences(table).to_pylist()
    assert pairs and {pair["task"] for pair in pairs} <= set(TASKS)
    for pair in pairs:
        better, worse = rows[pair["step"], pair["chosen"]], rows[pair["step"], pair["rejected"]]
        name = f"return_{pair['task']}"
        assert better[f"best_{pair['task']}"] and pair["margin"] == pytest.approx(better[name] - worse[name], abs=1e-4)
        assert pair["margin"] > 0 and pair["state_text"] == better["state_text"]


def test_the_counts_of_a_table():
    table = pa.Table.from_pylist(
        [*rows_of(1, north=(5.0, 0.0), east=(1.0, 0.0)), *rows_of(2, north=(1.0, 0.0), wait=(1.0, 0.0))], SCHEMA
    )
    assert summary(table, preferences(table)) == {
        "games": 1,
        "moments": 2,
        "branches": 4 * 5,
        "rows": 4,
        "kinds": {"combat": 0, "threat": 1, "survival": 0, "descent": 0, "pickup": 0},
        "deaths": 0,
        "level_changes": 0,
        "outcomes_per_action": 2.0,
        "preference_pairs": 1,
        # At the first moment the reward of one step is the wrong way round; at the second it decides nothing.
        "one_step_choice_is_not_best": {**dict.fromkeys(TASKS, 0.0), "combat": 1.0},
    }
