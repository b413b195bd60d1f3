"""Who plays which game, and what came of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nethack_pipe import seeds
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.rollouts.record import Assignment, record
from nethack_pipe.seeds import Split
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS

Chunk = tuple[Sequence[Assignment], int, RewardWeights]  # games, max_steps, reward weights


def assign(root: int, split: Split, games: int, policies: Mapping[str, float], task: str) -> list[Assignment]:
    """Draws for each game of `split` who plays it (by weight) and, where `task` is ``all``, for which task."""
    names = sorted(policies)
    chances = np.array([policies[name] for name in names], dtype=np.float64)
    chances /= chances.sum()
    assignments = []
    for game in range(games):
        draw = seeds.rng(root, "rollouts", "assignment", split, game)
        policy = names[int(np.searchsorted(np.cumsum(chances), draw.random(), side="right").clip(max=len(names) - 1))]
        chosen = TASKS[int(draw.integers(len(TASKS)))] if task == "all" else task
        spec = GameSpec(
            seeds.game_seed(root, split, "rollouts", game), seeds.integer(root, "rollouts", "policy", split, game)
        )
        assignments.append(Assignment(split, game, spec, policy, chosen))  # type: ignore[arg-type]
    return assignments


def collect(chunk: Chunk) -> pa.Table:
    """Plays one chunk of games; a worker process calls this."""
    assignments, max_steps, weights = chunk
    return record(assignments, max_steps, weights)


def describe(chunk: Chunk) -> str:
    return "the games of seeds " + ", ".join(str(assignment.spec.seed) for assignment in chunk[0])


def summary(table: pa.Table) -> dict[str, Any]:
    """Counts and means of a table of transitions, over all games and by policy."""
    games = table.group_by(["game_seed", "policy"], use_threads=False).aggregate(
        [("step", "count"), ("done", "max"), ("env_reward", "sum"), ("depth", "max")]
        + [(f"reward_{task}", "sum") for task in TASKS]
    )

    def means(rows: pa.Table) -> dict[str, float]:
        def mean(column: str) -> float:
            return float(np.mean(rows[column].to_numpy(zero_copy_only=False)))

        return {
            "games": rows.num_rows,
            "transitions": int(np.sum(rows["step_count"].to_numpy())),
            "deaths": int(np.sum(rows["done_max"].to_numpy(zero_copy_only=False))),
            "env_reward": mean("env_reward_sum"),
            "depth": mean("depth_max"),
            **{f"reward_{task}": mean(f"reward_{task}_sum") for task in TASKS},
        }

    policies = sorted(set(games["policy"].to_pylist()))
    return means(games) | {
        policy: means(games.filter(np.array(games["policy"].to_pylist()) == policy)) for policy in policies
    }
