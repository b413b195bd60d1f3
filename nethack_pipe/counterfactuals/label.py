"""Replays recorded games, branches them at decisive moments, and labels every legal action with what it leads to."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from nethack_pipe import seeds
from nethack_pipe.counterfactuals.moments import KINDS, Kind, choose, kinds
from nethack_pipe.counterfactuals.schema import PREFERENCES, SCHEMA
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.perception import text
from nethack_pipe.policies.registry import make
from nethack_pipe.seeds import Split
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS

ContinuationName = Literal["random", "wall_avoidance"]  # policies that do not play for one of the tasks


@dataclass(frozen=True, slots=True)
class RecordedGame:
    """One game of the rollouts: its seed and everything that was played."""

    split: Split
    game: int
    seed: int
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Labelling:
    """How to label; the fields are those of ``params.yaml``, section ``counterfactuals``."""

    root_seed: int
    moments_per_game: int
    horizon: int
    samples: int
    policy: ContinuationName
    discount: float
    weights: RewardWeights


@dataclass(slots=True)
class Sampled:
    """One continuation under one re-drawn random stream."""

    first: str  # the first step's change, as text
    died: bool
    returns: dict[str, float]  # discounted, by task


def label(recorded: RecordedGame, how: Labelling) -> pa.Table:
    """All rows of one game, in the order of steps and actions.

    Raises:
        RuntimeError: the game does not go as it was recorded.
    """
    with Game() as game:
        moments = _scan(game, recorded)
        rng = seeds.rng(how.root_seed, "counterfactuals", "moments", recorded.seed)
        chosen = choose(moments, how.moments_per_game, rng)
        found = dict(moments)
        playthrough = Playthrough(game, ACTION_SETS["compass"])
        playthrough.reset(recorded.seed)
        rows: list[dict[str, Any]] = []
        for step, action in enumerate(recorded.actions):
            if step in chosen:
                rows += _label_moment(playthrough, recorded, step, found[step], how)
            if step >= max(chosen, default=-1):
                break
            playthrough.step(action)
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _scan(game: Game, recorded: RecordedGame) -> list[tuple[int, tuple[Kind, ...]]]:
    """(step, kinds) of every decisive moment, from one pass over the game."""
    playthrough = Playthrough(game, ACTION_SETS["compass"])
    playthrough.reset(recorded.seed)
    moments = []
    for step, action in enumerate(recorded.actions):
        if playthrough.scene.done:
            raise RuntimeError(
                f"game {recorded.seed} was over after {step} actions, recorded were {len(recorded.actions)}"
            )
        if found := kinds(playthrough.scene):
            moments.append((step, found))
        playthrough.step(action)
    return moments


def _label_moment(
    playthrough: Playthrough, recorded: RecordedGame, step: int, found: tuple[Kind, ...], how: Labelling
) -> list[dict[str, Any]]:
    scene, memory = playthrough.scene, playthrough.memory
    state = text.state_text(scene, playthrough.game.last)
    legal = playthrough.legal
    rows: list[dict[str, Any]] = []
    for action, outcome in zip(legal, playthrough.game.probe(legal), strict=True):
        after = memory.copy().update(outcome, action)
        samples = [
            _continue(playthrough, action, _dice(recorded, step, sample, how), how) for sample in range(how.samples)
        ]
        outcomes = Counter(sample.first for sample in samples).most_common()
        returns = {task: np.array([sample.returns[task] for sample in samples]) for task in TASKS}
        rows.append(
            {
                "game_seed": recorded.seed,
                "split": recorded.split,
                "game": recorded.game,
                "step": step,
                **{f"is_{kind}": kind in found for kind in KINDS},
                "played": action == recorded.actions[step],
                "action": action,
                "state_text": state,
                "target": text.target(text.delta(scene, after)),
                "died": not after.alive,
                "level_changed": after.level != scene.level,
                **{f"reward_{task}": rewards.reward(task, scene, action, after, how.weights) for task in TASKS},
                "samples": how.samples,
                "outcomes": [first for first, _ in outcomes],
                "outcome_counts": [count for _, count in outcomes],
                "death_rate": sum(sample.died for sample in samples) / how.samples,
                **{f"return_{task}": float(returns[task].mean()) for task in TASKS},
                **{f"return_{task}_se": _standard_error(returns[task]) for task in TASKS},
            }
        )
    for task in TASKS:
        means = [row[f"return_{task}"] for row in rows]
        for row in rows:
            row[f"advantage_{task}"] = row[f"return_{task}"] - sum(means) / len(means)
            row[f"best_{task}"] = row[f"return_{task}"] == max(means)
    return rows


def _dice(recorded: RecordedGame, step: int, sample: int, how: Labelling) -> int:
    """Seed of one re-drawn stream: the same for all actions of a moment, so that their differences vary less."""
    return seeds.integer(how.root_seed, "counterfactuals", "dice", recorded.seed, step, sample)


def _continue(playthrough: Playthrough, action: str, dice: int, how: Labelling) -> Sampled:
    """Plays `action` and then the continuation policy, `horizon` steps in all, in a branch with re-drawn dice."""
    memory, before = playthrough.memory, playthrough.scene

    def branch(game: Game) -> Sampled:
        game.reseed(dice)
        ahead = playthrough.twin(game, memory.copy())
        policy = make(how.policy, "explore", how.weights)
        policy.reset(0, dice)
        returns: dict[str, float] = dict.fromkeys(TASKS, 0.0)
        first, scene, name = "", before, action
        for depth in range(how.horizon):
            if depth:
                name = policy.act([0], [ahead])[0]
            after = ahead.step(name)
            if not depth:
                first = text.target(text.delta(scene, after))
            for task in TASKS:
                returns[task] += how.discount**depth * rewards.reward(task, scene, name, after, how.weights)
            scene = after
            if scene.done:
                break
        return Sampled(first, not scene.alive, returns)

    return playthrough.game.branch(branch)


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def preferences(table: pa.Table) -> pa.Table:
    """Pairs (better, worse) of actions of one moment, for each task.

    The best action is paired with every action whose mean return is lower by more than the standard error of the
    difference, and by more than nothing where there is but one sample.
    """
    rows = []
    moments: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        moments.setdefault((row["game_seed"], row["step"]), []).append(row)
    for actions in moments.values():
        for task in TASKS:
            best = max(actions, key=lambda row: row[f"return_{task}"])
            for row in actions:
                margin = best[f"return_{task}"] - row[f"return_{task}"]
                if margin > math.hypot(best[f"return_{task}_se"], row[f"return_{task}_se"]):
                    rows.append(
                        {
                            **{name: row[name] for name in ("game_seed", "split", "step", "state_text")},
                            "task": task,
                            "chosen": best["action"],
                            "rejected": row["action"],
                            "margin": margin,
                        }
                    )
    return pa.Table.from_pylist(rows, schema=PREFERENCES)


def recorded_games(transitions: pa.Table) -> list[RecordedGame]:
    """The games of a table of transitions, in its order."""
    games: dict[int, tuple[Split, int, list[str]]] = {}
    columns = (transitions[name].to_pylist() for name in ("game_seed", "split", "game", "action"))
    for seed, split, number, action in zip(*columns, strict=True):
        games.setdefault(seed, (split, number, []))[2].append(action)
    return [RecordedGame(split, number, seed, tuple(actions)) for seed, (split, number, actions) in games.items()]


Chunk = tuple[RecordedGame, Labelling]


def label_chunk(chunk: Chunk) -> pa.Table:
    """Labels one game; a worker process calls this."""
    return label(*chunk)


def describe(chunk: Chunk) -> str:
    return f"the game of seed {chunk[0].seed}"


def summary(table: pa.Table, pairs: pa.Table) -> dict[str, Any]:
    """Counts of moments by kind, of branches and preference pairs, and how often one-step greed is wrong."""
    rows = table.to_pylist()
    moments: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        moments.setdefault((row["game_seed"], row["step"]), []).append(row)
    disagreement = {}
    for task in TASKS:
        # Where one step is worth the same whatever one does, greed has no opinion.
        decided = [actions for actions in moments.values() if len({row[f"reward_{task}"] for row in actions}) > 1]
        wrong = sum(not max(actions, key=lambda row: row[f"reward_{task}"])[f"best_{task}"] for actions in decided)
        disagreement[task] = wrong / len(decided) if decided else 0.0
    return {
        "games": len({seed for seed, _ in moments}),
        "moments": len(moments),
        "branches": sum(1 + row["samples"] for row in rows),
        "rows": len(rows),
        "kinds": {kind: sum(actions[0][f"is_{kind}"] for actions in moments.values()) for kind in KINDS},
        "deaths": sum(row["died"] for row in rows),
        "level_changes": sum(row["level_changed"] for row in rows),
        "outcomes_per_action": sum(len(row["outcomes"]) for row in rows) / len(rows) if rows else 0.0,
        "preference_pairs": pairs.num_rows,
        "one_step_choice_is_not_best": disagreement,
    }
