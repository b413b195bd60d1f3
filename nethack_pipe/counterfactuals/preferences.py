"""Which of two actions is better, where the samples leave no doubt."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from nethack_pipe.counterfactuals import estimates
from nethack_pipe.counterfactuals.dataset import moments, returns
from nethack_pipe.counterfactuals.schema import PREFERENCES
from nethack_pipe.tasks.skills import TASKS, Skill


def prompt(state: str, task: Skill, actions: Sequence[str]) -> str:
    """The question to which the answer is an action's name."""
    return f"{state}task: {task}\nactions: {' '.join(actions)}\n=>"


def preferences(table: pa.Table, confidence: float) -> pa.Table:
    """All pairs (chosen, rejected) of actions of one moment of which one is surely better, for each task.

    `estimates.surely_better` says what that is; each pair is judged by itself. In the order of moments, tasks and
    actions.
    """
    columns: dict[str, list[Any]] = {name: [] for name in PREFERENCES.names}
    shared = {name: table[name].to_pylist() for name in ("game_seed", "split", "game", "step")}
    actions, states = table["action"].to_pylist(), table["state_text"].to_pylist()
    samples = {task: returns(table, task) for task in TASKS}
    best = {task: table[f"best_{task}"].to_pylist() for task in TASKS}
    for rows in moments(table):
        names = actions[rows]
        for task in TASKS:
            pairs = np.argwhere(estimates.surely_better(samples[task][rows], confidence)).tolist()
            if not pairs:
                continue
            differences = estimates.differences(samples[task][rows])
            margin, error = estimates.mean(differences), estimates.standard_error(differences)
            assert error is not None, "a single sample makes nothing sure"
            question = prompt(states[rows.start], task, names)
            for better, worse in pairs:
                for name, values in shared.items():
                    columns[name].append(values[rows.start])
                columns["task"].append(task)
                columns["prompt"].append(question)
                columns["chosen"].append(names[better])
                columns["rejected"].append(names[worse])
                columns["margin"].append(margin[better, worse])
                columns["margin_se"].append(error[better, worse])
                columns["chosen_is_best"].append(best[task][rows.start + better])
    return pa.table(columns, schema=PREFERENCES)
