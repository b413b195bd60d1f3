import pytest

from nethack_pipe.evaluation.closed_loop import Rules, matches, play_match
from nethack_pipe.evaluation.schema import EPISODES, TERMS, episode_table
from nethack_pipe.evaluation.starts import beginnings
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS


def test_every_figure_of_every_task_has_a_column():
    rules = Rules(3, (60,), RewardWeights(), "compass")
    episodes = [
        row for match in matches("random", TASKS, beginnings(3, 1), {}, rules, 1.0) for row in play_match(match)
    ]
    found = episode_table(episodes)
    assert found.schema.equals(EPISODES) and found.num_rows == 5
    assert set(episodes[0]) <= set(EPISODES.names)
    for row in found.to_pylist():
        terms = [row[f"reward_{term}"] for term in TERMS if term.startswith(row["task"])]
        assert sum(terms) == pytest.approx(row["task_reward"])
        assert all(row[f"reward_{term}"] == 0 for term in TERMS if not term.startswith(row["task"]))
        assert sum(row[name] for name in EPISODES.names if name.startswith("action_")) == pytest.approx(1)


def test_a_figure_without_a_column_is_refused():
    with pytest.raises(ValueError, match="no column for luck"):
        episode_table([{"policy": "random", "luck": 1.0}])
