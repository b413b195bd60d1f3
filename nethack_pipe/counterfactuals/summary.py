"""What a table of branches amounts to, in figures."""

from typing import Any

import numpy as np
import pyarrow as pa

from nethack_pipe.counterfactuals import estimates
from nethack_pipe.counterfactuals.dataset import moments, returns
from nethack_pipe.counterfactuals.moments import KINDS
from nethack_pipe.tasks.skills import TASKS, Skill


def summary(table: pa.Table, pairs: pa.Table, confidence: float) -> dict[str, Any]:
    """Figures of one split. Rates and means are over rows, shares over moments, as they were drawn (unweighted).

    Returns:
        ``games``, ``moments``, ``rows``, ``branches``;
        ``found``, ``drawn``: moments of each kind in these games, and those among them that are labelled, where a
        moment of several kinds counts once (`moments.DRAWN_AS`); ``kinds``: labelled moments that are of a kind at all;
        ``deaths``, ``level_changes``: of the first step under the game's own random stream;
        ``death_rate``, ``level_change_rate``: of the samples, within the horizon;
        ``outcomes_per_action``: distinct first-step changes over the samples; ``outcomes_of``: the same by action;
        and for each task, see `_of_task`: ``preference_pairs``, ``best_beats_all``, ``best_beats_some``,
        ``one_step_choice_is_not_best``, ``one_step_choice_is_surely_worse``, ``variance_with_common_over_without``.
    """
    rows = list(moments(table))
    first = [moment.start for moment in rows]
    drawn_as = np.array(table["kind"].to_pylist(), dtype=object)[first]
    weights = _column(table, "weight")[first]
    outcomes = np.array([len(found) for found in table["outcomes"].to_pylist()])
    actions = np.array(table["action"].to_pylist(), dtype=object)
    figures: dict[str, Any] = {
        "games": len(set(_column(table, "game_seed").tolist())),
        "moments": len(rows),
        "rows": table.num_rows,
        "branches": int(np.sum(_column(table, "samples") + 1)),
        "found": {kind: round(float(weights[drawn_as == kind].sum())) for kind in KINDS},
        "drawn": {kind: int(np.sum(drawn_as == kind)) for kind in KINDS},
        "kinds": {kind: int(_column(table, f"is_{kind}")[first].sum()) for kind in KINDS},
        "deaths": int(_column(table, "died").sum()),
        "level_changes": int(_column(table, "level_changed").sum()),
        "death_rate": _mean(_column(table, "death_rate")),
        "level_change_rate": _mean(_column(table, "level_change_rate")),
        "outcomes_per_action": _mean(outcomes),
        "outcomes_of": {name: _mean(outcomes[actions == name]) for name in sorted(set(actions))},
    }
    paired = np.array(pairs["task"].to_pylist(), dtype=object)
    by_task = {task: _of_task(table, task, rows, confidence) for task in TASKS}
    figures["preference_pairs"] = {task: int(np.sum(paired == task)) for task in TASKS}
    for name in by_task[TASKS[0]]:
        figures[name] = {task: by_task[task][name] for task in TASKS}
    return figures


def _of_task(table: pa.Table, task: Skill, rows: list[slice], confidence: float) -> dict[str, float | None]:
    """Figures of one task.

    best_beats_all, best_beats_some: share of moments in which an action is surely better than every other one, and
    than at least one.
    one_step_choice_is_not_best, one_step_choice_is_surely_worse: how often whoever takes the action of the highest
    one-step reward (under the game's own random stream) takes one that has not the highest mean return over the
    horizon, and one than which another is surely better. Of several such actions each is taken equally often; moments
    where all one-step rewards are equal are left out, there one step has no opinion.
    variance_with_common_over_without: variance of the differences between two actions' returns under common random
    numbers, over their variance with random streams of each action's own, both summed over all pairs of all moments: by
    how much fewer samples the differences are known as well. None where returns do not vary.
    """
    one_step = _column(table, f"reward_{task}")
    samples, best = returns(table, task), _column(table, f"best_{task}")
    beats_all = beats_some = 0
    not_best, surely_worse = [], []
    variances = np.zeros(2)
    for moment in rows:
        surely = estimates.surely_better(samples[moment], confidence)
        beats_all += bool(np.any(surely.sum(axis=1) == len(surely) - 1))
        beats_some += bool(surely.any())
        greedy = one_step[moment] == one_step[moment].max()
        if not greedy.all():
            not_best.append(_mean(~best[moment][greedy]))
            surely_worse.append(_mean(surely[:, greedy].max(axis=0)))
        if samples.shape[1] > 1:
            variances += estimates.variances_of_differences(samples[moment])
    common, independent = variances.tolist()
    return {
        "best_beats_all": beats_all / max(len(rows), 1),
        "best_beats_some": beats_some / max(len(rows), 1),
        "one_step_choice_is_not_best": _mean(np.array(not_best)),
        "one_step_choice_is_surely_worse": _mean(np.array(surely_worse)),
        "variance_with_common_over_without": common / independent if independent else None,
    }


def _column(table: pa.Table, name: str) -> np.ndarray:
    return table[name].to_numpy()


def _mean(values: np.ndarray) -> float:
    return float(values.mean(dtype=np.float64)) if values.size else 0.0
