"""What happened in each training iteration, in a file that survives a kill, and its summary as curve and metrics."""

import json
import math
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]  # {"frames": int, "train": {name: float}, "episodes": {name: [one float per ended episode]}}

WINDOW_EPISODES = 100
WINDOW_ITERATIONS = 10
_NAMES = {"reward": "return", "len": "length"}  # Sample Factory's words for an episode's, and ours
_INTERNAL = {"min_raw_reward", "max_raw_reward"}


class Progress:
    """The rows so far, one JSON line each in `path`.

    Those after `frames` frames are forgotten: what they tell of is played again.
    """

    def __init__(self, path: Path, frames: int) -> None:
        self.path = path
        self.rows: list[Row] = [row for row in _read(path) if row["frames"] <= frames]
        beside = path.with_suffix(".tmp")
        beside.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")
        os.replace(beside, path)

    def append(self, row: Row) -> None:
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def _read(path: Path) -> Iterable[Row]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return  # the line that a kill cut off; what follows the last checkpoint is played again anyway


def curve(rows: Sequence[Row]) -> list[dict[str, float]]:
    """One point per iteration from the first ended episode on: frames, return and length (means over the last 100
    ended episodes), then the learner's statistics of that iteration."""
    returns: deque[float] = deque(maxlen=WINDOW_EPISODES)
    lengths: deque[float] = deque(maxlen=WINDOW_EPISODES)
    points = []
    for row in rows:
        returns.extend(row["episodes"].get("reward", ()))
        lengths.extend(row["episodes"].get("len", ()))
        if returns:
            point = {"frames": row["frames"], "return": _mean(returns), "length": _mean(lengths)}
            points.append(point | row["train"])
    return points


def metrics(rows: Sequence[Row]) -> dict[str, float]:
    """The end of training: frames, number of ended episodes, the means of everything known about the last 100 of them,
    and the learner's statistics as means over the last 10 iterations."""
    episodes = join_episodes([row["episodes"] for row in rows])
    summary: dict[str, float] = {"frames": rows[-1]["frames"], "episodes": len(episodes.get("reward", ()))}
    for name, values in episodes.items():
        if name not in _INTERNAL:
            summary[_NAMES.get(name, name)] = _mean(values[-WINDOW_EPISODES:])
    last = rows[-WINDOW_ITERATIONS:]
    return summary | {name: _mean([row["train"][name] for row in last]) for name in last[-1]["train"]}


def join_episodes(parts: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Statistics of episodes (name -> one number per episode) one after the other.

    What some episodes do not mention is 0 for them. Every part has at least the name "reward", or no episode at all.
    """
    joined: dict[str, list[float]] = {name: [] for part in parts for name in part}
    for part in parts:
        for name, values in joined.items():
            values.extend(part.get(name) or [0.0] * len(part.get("reward", ())))
    return joined


def _mean(values: Sequence[float] | deque[float]) -> float:
    return math.fsum(values) / len(values)
