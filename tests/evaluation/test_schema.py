import pytest

from nethack_pipe.evaluation.closed_loop import Match, held_out_specs, play_match
from nethack_pipe.evaluation.schema import SCHEMA, TERMS, table
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS


def test_every_figure_of_every_task_has_a_column():
    episodes = []
    for task in TASKS:
        specs = tuple(held_out_specs(3, 1, "random", task))
        episodes += play_match(Match("random", task, specs, 60, RewardWeights(), "compass", None))
    found = table(episodes)
    assert found.schema.equals(SCHEMA) and found.num_rows == 5
    for row in found.to_pylist():
        terms = [row[f"reward_{term}"] for term in TERMS if term.startswith(row["task"])]
        assert sum(terms) == pytest.approx(row["task_reward"])
        assert all(row[f"reward_{term}"] == 0 for term in TERMS if not term.startswith(row["task"]))
        assert sum(row[name] for name in SCHEMA.names if name.startswith("action_")) == pytest.approx(1)


def test_a_figure_without_a_column_is_refused():
    with pytest.raises(ValueError, match="no column for luck"):
        table([{"policy": "random", "luck": 1.0}])
