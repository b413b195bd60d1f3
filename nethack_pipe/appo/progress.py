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


def curve(rows: Sequence[Row], skills: Sequence[str]) -> list[dict[str, float | None]]:
    """One point per iteration from the first ended episode on: frames, return and length (means over the last 100
    ended episodes), ``return_<skill>`` (`SkillReturns`), and the learner's statistics of that iteration."""
    returns: deque[float] = deque(maxlen=WINDOW_EPISODES)
    lengths: deque[float] = deque(maxlen=WINDOW_EPISODES)
    of_skills = SkillReturns(skills)
    points = []
    for row in rows:
        returns.extend(row["episodes"].get("reward", ()))
        lengths.extend(row["episodes"].get("len", ()))
        of_skills.add(row["episodes"])
        if returns:
            point = {"frames": row["frames"], "return": _mean(returns), "length": _mean(lengths)}
            points.append(point | of_skills.values() | row["train"])
    return points


def metrics(rows: Sequence[Row], skills: Sequence[str]) -> dict[str, float | None]:
    """The end of training: frames, number of ended episodes, the means of everything known about the last 100 of them
    but actions and reward terms, ``return_<skill>`` (`SkillReturns`), and the learner's statistics as means over the
    last 10 iterations."""
    episodes = join_episodes([row["episodes"] for row in rows])
    summary: dict[str, float | None] = {"frames": rows[-1]["frames"], "episodes": len(episodes.get("reward", ()))}
    for name, values in episodes.items():
        if name not in _INTERNAL and not name.startswith(("action_", "reward_")):
            summary[_NAMES.get(name, name)] = _mean(values[-WINDOW_EPISODES:])
    of_skills = SkillReturns(skills)
    of_skills.add(episodes)
    last = rows[-WINDOW_ITERATIONS:]
    learner = {name: _mean([row["train"][name] for row in last]) for name in last[-1]["train"]}
    return summary | of_skills.values() | learner


class SkillReturns:
    """What a game pays all steps of which are one skill's, by the last 100 episodes that had some of its steps."""

    def __init__(self, skills: Sequence[str]) -> None:
        self._paid = {skill: deque[float](maxlen=WINDOW_EPISODES) for skill in skills}
        self._shares = {skill: deque[float](maxlen=WINDOW_EPISODES) for skill in skills}

    def add(self, episodes: Mapping[str, Sequence[float]]) -> None:
        """Ended episodes: name -> one number per episode; read are ``reward_<skill>_<term>`` and ``skill_<skill>``."""
        for skill in self._paid:
            terms = [values for name, values in episodes.items() if name.startswith(f"reward_{skill}_")]
            for i, share in enumerate(episodes.get(f"skill_{skill}", ())):
                if share:
                    self._shares[skill].append(share)
                    self._paid[skill].append(math.fsum(values[i] for values in terms))

    def values(self) -> dict[str, float | None]:
        """``return_<skill>`` -> the sum of its rewards over that of its shares; None for a skill not yet played."""
        return {
            f"return_{skill}": math.fsum(paid) / math.fsum(self._shares[skill]) if paid else None
            for skill, paid in self._paid.items()
        }


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
