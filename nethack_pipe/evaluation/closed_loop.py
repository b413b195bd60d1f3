"""Closed loop: every policy plays every task on the same held-out games."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nethack_pipe import seeds
from nethack_pipe.evaluation.statistics import mean_interval, paired_difference
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.policies.protocol import Policy
from nethack_pipe.policies.registry import make
from nethack_pipe.rollouts.play import GameSpec, play
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.episode import Episode
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import Skill

REFERENCE = "task_greedy"  # whom the others are compared with, game by game

# What is reported of an episode beside its reward.
REPORTED = (
    *("env_reward", "unique_tiles", "rooms", "depth", "gold", "kills", "final_hp", "alive"),
    *("repeated_state_rate", "repeated_action_rate", "recent_tile_rate", "senseless_rate"),
)


@dataclass(frozen=True, slots=True)
class Match:
    """One policy on one task, on some of the held-out games."""

    policy: str
    task: Skill
    specs: tuple[GameSpec, ...]
    max_steps: int
    weights: RewardWeights
    actions: str
    appo: Path | None  # folder of the trained policy

    def __str__(self) -> str:
        return f"{self.policy} on {self.task}, games {', '.join(str(spec.seed) for spec in self.specs)}"


def held_out_specs(root: int, games: int, policy: str, task: str) -> list[GameSpec]:
    """The same games for every policy and task; each policy's draws are its own."""
    return [
        GameSpec(
            seeds.game_seed(root, "held_out", "evaluate", i), seeds.integer(root, "evaluate", "policy", policy, task, i)
        )
        for i in range(games)
    ]


def play_match(match: Match) -> list[dict[str, Any]]:
    """Plays a match; one row per game: policy, task, game_seed and the episode's summary."""
    episodes: dict[int, Episode] = {}

    def start(slot: int, game: Playthrough) -> None:
        episodes[slot] = Episode(game.scene)

    def after(slot: int, game: Playthrough, action: str) -> None:
        assert game.before is not None
        parts = rewards.components(match.task, game.before, action, game.scene, match.weights)
        episodes[slot].add(match.task, action, game.before, game.scene, parts)

    play(
        _policy(match),
        match.specs,
        match.max_steps,
        actions=ACTION_SETS[match.actions],
        start=start,
        before=lambda slot, game: None,
        after=after,
    )
    return [
        {"policy": match.policy, "task": match.task, "game_seed": spec.seed, **episodes[slot].summary()}
        for slot, spec in enumerate(match.specs)
    ]


def _policy(match: Match) -> Policy:
    if match.policy == "appo":
        from nethack_pipe.policies.trained import TrainedPolicy  # torch is loaded only where a network plays

        assert match.appo is not None
        return TrainedPolicy(match.appo, match.task)
    return make(match.policy, match.task, match.weights)  # type: ignore[arg-type]


def score(rows: Iterable[dict[str, Any]], root: int) -> dict[str, Any]:
    """Metrics of all matches, each with its interval: ``{task: {policy: {task_reward, minus_task_greedy, ...}}}``."""
    by_match: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_match.setdefault((row["task"], row["policy"]), []).append(row)
    metrics: dict[str, Any] = {}
    for (task, policy), games in by_match.items():
        games.sort(key=lambda row: row["game_seed"])
        values = [game["task_reward"] for game in games]
        report: dict[str, Any] = {
            "task_reward": mean_interval(values, seeds.rng(root, "evaluate", "bootstrap", task, policy)),
            **{
                name: mean_interval(
                    [game[name] for game in games], seeds.rng(root, "evaluate", "bootstrap", task, policy, name)
                )
                for name in REPORTED
            },
        }
        reference = by_match.get((task, REFERENCE))
        if reference is not None and policy != REFERENCE:
            reference.sort(key=lambda row: row["game_seed"])
            if [row["game_seed"] for row in reference] != [row["game_seed"] for row in games]:
                raise ValueError(f"{task}: {policy} and {REFERENCE} did not play the same games")
            report[f"minus_{REFERENCE}"] = paired_difference(
                values,
                [game["task_reward"] for game in reference],
                seeds.rng(root, "evaluate", "bootstrap", task, policy, "paired"),
            )
        metrics.setdefault(task, {})[policy] = report
    return metrics
