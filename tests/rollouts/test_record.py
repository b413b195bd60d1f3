"""Recorded games against the same games played once more."""

import numpy as np
import pytest

from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.perception import features, text
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.rollouts.record import Assignment, record
from nethack_pipe.rollouts.schema import SCHEMA
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import SKILLS, TASKS

WEIGHTS = RewardWeights()
ASSIGNMENTS = [
    Assignment("train", 0, GameSpec(4, 1), "wall_avoidance", "explore"),
    Assignment("held_out", 7, GameSpec(3, 2), "frontier", "descend"),  # the hero dies
    Assignment("train", 1, GameSpec(36, 3), "wall_avoidance", "explore"),
]
STEPS = 110


@pytest.fixture(scope="module")
def table():
    return record(ASSIGNMENTS, STEPS, WEIGHTS)


def test_the_table_has_its_schema_and_games_lie_one_after_another(table):
    assert table.schema.equals(SCHEMA, check_metadata=True)
    rows = table.to_pylist()
    games = [[row for row in rows if row["game_seed"] == item.spec.seed] for item in ASSIGNMENTS]
    assert [row for game in games for row in game] == rows
    for item, game in zip(ASSIGNMENTS, games, strict=True):
        assert [row["step"] for row in game] == list(range(len(game)))
        assert {(row["split"], row["game"], row["policy"], row["task"]) for row in game} == {
            (item.split, item.game, item.policy, item.task)
        }
    assert [len(game) for game in games][::2] == [STEPS, STEPS] and len(games[1]) < STEPS
    ends = [(row["done"], row["end_status"]) for row in games[1]]
    assert ends == [(False, 0)] * (len(ends) - 1) + [(True, 1)]
    assert games[1][-1]["hp"] > 0 and "alive:no" in games[1][-1]["target"]
    assert not any(row["done"] for game in games[::2] for row in game)


def test_every_row_is_what_happens_when_the_actions_are_played_again(table):
    rows = table.to_pylist()
    for item in ASSIGNMENTS:
        with Game() as game:
            playthrough = Playthrough(game, ACTION_SETS["reference"])
            scene = playthrough.reset(item.spec.seed)
            score = scene.score
            recorded = [row for row in rows if row["game_seed"] == item.spec.seed]
            total = dict.fromkeys(TASKS, 0.0)
            for row in recorded:
                before = scene
                assert row["state_text"] == text.state_text(before, game.last)
                vector = features.vector(before, SKILLS.index(item.task), playthrough.mask)
                assert np.array_equal(np.float32(row["features"]), vector)
                assert (row["turn"], row["hp"], row["max_hp"], row["gold"], row["depth"], row["x"], row["y"]) == (
                    *(before.turn, before.hp, before.max_hp, before.gold, before.depth, before.x, before.y),
                )
                assert (row["explored"], row["rooms"], row["items"], row["hostiles"]) == (
                    *(before.explored, before.rooms, before.items_in_view, before.hostiles.size),
                )
                assert row["visits"] == playthrough.memory.level.visits[before.y, before.x] >= 1
                scene = playthrough.step(row["action"])
                assert row["target"] == text.target(text.delta(before, scene))
                assert (row["message"], row["took_time"], row["done"]) == (scene.text, scene.took_time, scene.done)
                assert row["env_reward"] == scene.score - before.score
                for task in TASKS:
                    total[task] += rewards.reward(task, before, row["action"], scene, WEIGHTS)
            assert sum(row["env_reward"] for row in recorded) == scene.score - score
            for task in TASKS:
                assert sum(row[f"reward_{task}"] for row in recorded) == pytest.approx(total[task], abs=1e-3)
            assert total["explore"] != 0


def test_targets_are_not_all_alike(table):
    deltas = [text.parse(answer) for answer in table["target"].to_pylist()]
    assert None not in deltas
    moved = sum(delta.dx != 0 or delta.dy != 0 for delta in deltas)
    assert moved > len(deltas) // 2
    assert any(delta.hp < 0 for delta in deltas) and any(delta.explored > 0 for delta in deltas)


def test_a_game_is_recorded_the_same_alone(table):
    alone = [record([item], STEPS, WEIGHTS) for item in ASSIGNMENTS]
    assert [row for part in alone for row in part.to_pylist()] == table.to_pylist()
