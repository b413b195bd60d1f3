"""Closed loop: every policy plays every task on the same held-out games, from the same starts."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nethack_pipe import seeds
from nethack_pipe.evaluation.starts import Start, StartKind
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.policies.n_step import DEFAULT, NStep
from nethack_pipe.policies.protocol import Policy
from nethack_pipe.policies.registry import TASK_BLIND, make
from nethack_pipe.rollouts.play import GameSpec, play
from nethack_pipe.statistics import mean_interval, paired_difference
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.episode import Episode
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import Skill

REFERENCE = "task_greedy"  # the baseline that learned policies must beat
# What is reported of an episode beside its reward.
REPORTED = (
    *("alive", "env_reward", "unique_tiles", "rooms", "depth", "gold", "kills", "final_hp"),
    *("repeated_state_rate", "repeated_action_rate", "recent_tile_rate", "senseless_rate"),
)
IN_SHORT = ("task_reward", "alive")
GAMES_PER_MATCH = 2  # few, since a game of task_greedy is slow; games of a fast policy do not care


@dataclass(frozen=True, slots=True)
class Rules:
    """What all matches of a stage have in common.

    Attributes:
        root: root seed, ``base.seed``.
        horizons: numbers of actions after which an episode is reported, rising; the last is its end.
        actions: name of the action set.
        samples: how often each game is played, with other draws of the policy.
    """

    root: int
    horizons: tuple[int, ...]
    weights: RewardWeights
    actions: str
    samples: int = 1
    n_step: NStep = DEFAULT


@dataclass(frozen=True, slots=True)
class Match:
    """One policy on some held-out games. It plays for the first of `tasks` and is scored for all of them."""

    policy: str
    tasks: tuple[Skill, ...]
    start: StartKind
    starts: tuple[Start, ...]
    rules: Rules

    def __str__(self) -> str:
        games = ", ".join(str(start.seed) for start in self.starts)
        return f"{self.policy} on {' and '.join(self.tasks)}, games {games}"


def matches(
    policy: str,
    tasks: Sequence[Skill],
    beginnings: Sequence[Start],
    moments: Mapping[Skill, Sequence[Start]],
    rules: Rules,
    share: float = 1.0,
) -> list[Match]:
    """The matches of `policy` on the first `share` (0 to 1) of the beginnings, and of each task's moments.

    Who does not know what he plays for (`TASK_BLIND`) plays a game once, for all tasks.
    """
    played_as = [tuple(tasks)] if policy in TASK_BLIND else [(task,) for task in tasks]
    groups: list[tuple[StartKind, tuple[Skill, ...], Sequence[Start]]] = [
        *(("game", together, beginnings) for together in played_as),
        *(("moment", (task,), moments[task]) for task in tasks if task in moments),
    ]
    return [
        Match(policy, together, kind, tuple(starts[first : min(first + GAMES_PER_MATCH, count)]), rules)
        for kind, together, starts in groups
        for count in [math.ceil(share * len(starts))]
        for first in range(0, count, GAMES_PER_MATCH)
    ]


def play_match(match: Match) -> list[dict[str, Any]]:
    """Plays a match of one of the policies that `policies.registry` makes, as `play_with` does."""
    rules = match.rules
    return play_with(make(match.policy, match.tasks[0], rules.weights, rules.n_step), match)  # type: ignore[arg-type]


def play_with(policy: Policy, match: Match) -> list[dict[str, Any]]:
    """Plays a match; one row per game, sample, task and horizon, with the columns of `schema.EPISODE_COLUMNS`."""
    rules = match.rules
    games = [(start, sample) for start in match.starts for sample in range(rules.samples)]
    episodes: list[dict[Skill, Episode]] = [{} for _ in games]
    rows: list[list[dict[str, Any]]] = [[] for _ in games]

    def take_over(slot: int, game: Playthrough) -> None:
        for action in games[slot][0].actions:
            game.step(action)
        episodes[slot] = {task: Episode(game.scene) for task in match.tasks}

    def after(slot: int, game: Playthrough, action: str) -> None:
        assert game.before is not None
        start, sample = games[slot]
        for task, episode in episodes[slot].items():
            parts = rewards.components(task, game.before, action, game.scene, rules.weights)
            episode.add(task, action, game.before, game.scene, parts)
            for steps in rules.horizons:
                if episode.length == steps or (game.scene.done and episode.length < steps):
                    key = {"policy": match.policy, "task": task, "start": match.start, "max_steps": steps}
                    key |= {"game_seed": start.seed, "start_step": len(start.actions), "sample": sample}
                    rows[slot].append(key | episode.summary())

    play(
        policy,
        [GameSpec(start.seed, _draws(match, start, sample)) for start, sample in games],
        rules.horizons[-1],
        actions=ACTION_SETS[rules.actions],
        start=take_over,
        before=lambda slot, game: None,
        after=after,
    )
    return [row for of_game in rows for row in of_game]


def _draws(match: Match, start: Start, sample: int) -> int:
    """Seed of a policy's own draws: another one for each policy, task, start and sample."""
    names = (match.policy, match.tasks[0], match.start, start.seed, sample)
    return seeds.integer(match.rules.root, "evaluate", "policy", *names)


Games = dict[int, dict[str, float]]  # by seed the figures of a game, means over its samples


def score(
    rows: Iterable[dict[str, Any]], root: int, *, fully: Collection[str], against: Sequence[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Metrics of all episodes: ``{"200_steps": {"explore": {policy: report}, "combat_from_moment": ...}}``.

    A report has ``games`` and, each as ``{mean, low, high}``, `IN_SHORT`; for the policies in `fully` all of `REPORTED`
    and ``minus_<other>``, the paired difference of the task reward to each other policy in `against`, over the games
    that both played. A game's samples count as their mean, so that the games are what an interval re-draws.

    Raises:
        ValueError: two policies that are to be compared did not play the same games: those of one must be among those
            of the other.
    """
    episodes: dict[tuple[int, str], dict[str, dict[int, list[dict[str, Any]]]]] = {}
    for row in rows:
        setting = row["task"] if row["start"] == "game" else f"{row['task']}_from_moment"
        by_policy = episodes.setdefault((row["max_steps"], setting), {})
        by_policy.setdefault(row["policy"], {}).setdefault(row["game_seed"], []).append(row)
    metrics: dict[str, dict[str, dict[str, Any]]] = {}
    for (steps, setting), by_policy in sorted(episodes.items(), key=lambda item: item[0][0]):
        games = {
            policy: {seed: _means(played[seed]) for seed in sorted(played)} for policy, played in by_policy.items()
        }
        metrics.setdefault(f"{steps}_steps", {})[setting] = {
            policy: _report(policy, games, f"{setting} {steps}", root, policy in fully, against) for policy in games
        }
    return metrics


def _means(samples: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in samples])) for name in ("task_reward", *REPORTED)}


def _report(
    policy: str, games: Mapping[str, Games], setting: str, root: int, fully: bool, against: Sequence[str]
) -> dict[str, Any]:
    own = games[policy]

    def rng(*purpose: str) -> np.random.Generator:
        return seeds.rng(root, "evaluate", "bootstrap", setting, policy, *purpose)

    report: dict[str, Any] = {"games": len(own)}
    for name in ("task_reward", *REPORTED) if fully else IN_SHORT:
        report[name] = mean_interval([figures[name] for figures in own.values()], rng(name))
    for other in against if fully else ():
        if other == policy or other not in games:
            continue
        both = own.keys() & games[other].keys()
        if both != own.keys() and both != games[other].keys():
            raise ValueError(f"{setting}: {policy} and {other} did not play the same games")
        mine, others = ([side[seed]["task_reward"] for seed in sorted(both)] for side in (own, games[other]))
        report[f"minus_{other}"] = paired_difference(mine, others, rng("minus", other))
    return report


def bars(metrics: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Rows of the plot: the task reward of each policy in each setting, with its interval."""
    return [
        {
            "match": f"{setting}, {steps.replace('_', ' ')}: {policy}",
            "task": setting,
            "max_steps": int(steps.removesuffix("_steps")),
            "policy": policy,
            **report["task_reward"],
        }
        for steps, settings in metrics.items()
        for setting, policies in settings.items()
        for policy, report in policies.items()
    ]
