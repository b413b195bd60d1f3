"""Replays recorded games, branches them at decisive moments, and labels every legal action with what it leads to."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from nethack_pipe import seeds
from nethack_pipe.counterfactuals import estimates
from nethack_pipe.counterfactuals.moments import KINDS, Kind, Moment, choose, kinds
from nethack_pipe.counterfactuals.schema import MAP_HEIGHT, MAP_WIDTH, SCHEMA
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.perception import text
from nethack_pipe.policies.protocol import Policy
from nethack_pipe.policies.registry import TASK_BLIND, PolicyName, make
from nethack_pipe.seeds import Split
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS, Skill

ContinuationName = Literal["acting"] | PolicyName
TRANSITIONS = ("game_seed", "split", "game", "policy", "task", "action")  # columns that `recorded_games` reads
DECIMALS = 4  # of a return: what lies below is rounding, and would make a difference of none


@dataclass(frozen=True, slots=True)
class RecordedGame:
    """One game of the rollouts: its seed, everything that was played, by whom and for which task."""

    split: Split
    game: int
    seed: int
    policy: PolicyName
    task: Skill
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Labelling:
    """How to label; the fields are those of ``params.yaml``, section ``counterfactuals``.

    `policy` goes on after the tried action: ``acting`` is the one that recorded the game, for the game's own task; any
    other plays for `task` where it has a notion of one. It plays with the larger action set, and begins anew at the
    moment: of the steps before it remembers what the playthrough does, and nothing else.
    """

    root_seed: int
    moments_per_game: Mapping[Kind, int]
    horizon: int
    samples: int
    policy: ContinuationName
    task: Skill | None
    discount: float
    weights: RewardWeights


@dataclass(frozen=True, slots=True)
class Dice:
    """One set of random streams: a seed for the policy's draws, and one for the game's dice of each step."""

    policy: int
    steps: tuple[int, ...]


@dataclass(slots=True)
class Sampled:
    """One branch under one set of random streams."""

    first: text.Delta  # the first step's change
    died: bool
    left_level: bool
    returns: list[float]  # discounted, by task


def label(recorded: RecordedGame, how: Labelling) -> pa.Table:
    """All rows of one game, in the order of steps and actions.

    Raises:
        RuntimeError: the game does not go as it was recorded.
    """
    with Game() as game:
        chosen = choose(
            _scan(game, recorded),
            how.moments_per_game,
            seeds.rng(how.root_seed, "counterfactuals", "moments", recorded.seed),
        )
        labeller = _Labeller(game, recorded, how)
        rows = [row for moment in chosen for row in labeller.rows(moment)]
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


class _Labeller:
    """Plays one recorded game again, and stops at moments to label them."""

    def __init__(self, game: Game, recorded: RecordedGame, how: Labelling) -> None:
        self.recorded, self.how = recorded, how
        self.playthrough = Playthrough(game, ACTION_SETS["compass"])
        self.playthrough.reset(recorded.seed)
        self.step = 0
        name, task = (recorded.policy, recorded.task) if how.policy == "acting" else (how.policy, how.task)
        self.policy: Policy = make(name, task or TASKS[0], how.weights)
        self.names = {"policy": name, "task": None if name in TASK_BLIND else task}

    def rows(self, moment: Moment) -> list[dict[str, Any]]:
        """The rows of one moment, which must not come before the last one asked for."""
        while self.step < moment.step:
            self.playthrough.step(self.recorded.actions[self.step])
            self.step += 1
        playthrough, how = self.playthrough, self.how
        scene = playthrough.scene
        legal = playthrough.legal
        shared = {
            "game_seed": self.recorded.seed,
            "split": self.recorded.split,
            "game": self.recorded.game,
            "step": moment.step,
            "kind": moment.kind,
            **{f"is_{kind}": kind in moment.kinds for kind in KINDS},
            "weight": moment.weight,
            **self.names,
            "state_text": text.state_text(scene, playthrough.game.last),
            "map": _around(playthrough.game.last.observation["chars"], scene.y, scene.x),
            "samples": how.samples,
            "horizon": how.horizon,
        }
        rows: list[dict[str, Any]] = []
        for action, outcome in zip(legal, playthrough.game.probe(legal), strict=True):
            after = playthrough.memory.copy().update(outcome, action)
            rows.append(
                shared
                | {
                    "played": action == self.recorded.actions[moment.step],
                    "action": action,
                    "target": text.target(text.delta(scene, after)),
                    "died": not after.alive,
                    "level_changed": after.level != scene.level,
                    **{f"reward_{task}": rewards.reward(task, scene, action, after, how.weights) for task in TASKS},
                }
            )
        streams = [self._dice(moment.step, sample) for sample in range(how.samples)]
        sampled = [[self._branch(action, dice) for dice in streams] for action in legal]
        for row, samples in zip(rows, sampled, strict=True):
            outcomes = Counter(sample.first for sample in samples).most_common()
            row["outcomes"] = [text.target(first) for first, _ in outcomes]
            row["outcome_counts"] = [count for _, count in outcomes]
            row["death_rate"] = sum(sample.died for sample in samples) / how.samples
            row["level_change_rate"] = sum(sample.left_level for sample in samples) / how.samples
        # (actions, samples, tasks), as float32 since that is what the table has: whoever reads it finds the same ties.
        returns = np.array([[sample.returns for sample in samples] for samples in sampled]).round(DECIMALS)
        for task, values in zip(TASKS, np.moveaxis(returns.astype(np.float32), 2, 0), strict=True):
            _add_estimates(rows, task, values)
        return rows

    def _dice(self, step: int, sample: int) -> Dice:
        """The random streams of a sample: the same for all actions of a moment, so that their differences vary less.

        The game's dice are re-drawn before every step, not only before the first: an action that uses more of them than
        another would otherwise leave the two with different dice from then on.
        """
        stream = seeds.stream(self.how.root_seed, "counterfactuals", "dice", self.recorded.seed, step, sample)
        policy, *steps = (stream.generate_state(1 + self.how.horizon, np.uint64) >> np.uint64(2)).tolist()
        return Dice(policy, tuple(steps))

    def _branch(self, action: str, dice: Dice) -> Sampled:
        """Plays `action` and then the continuation policy, `horizon` steps in all."""
        how, policy, playthrough = self.how, self.policy, self.playthrough

        def play(game: Game) -> Sampled:
            ahead = playthrough.twin(game, playthrough.memory.copy())
            policy.reset(0, dice.policy)
            returns = [0.0] * len(TASKS)
            scene, name, factor = ahead.scene, action, 1.0
            first, left_level = None, False
            for seed in dice.steps:
                game.reseed(seed)
                if first is not None:
                    name = policy.act([0], [ahead])[0]
                after = ahead.step(name)
                if first is None:
                    first = text.delta(scene, after)
                left_level = left_level or after.level != scene.level
                for i, task in enumerate(TASKS):
                    returns[i] += factor * rewards.reward(task, scene, name, after, how.weights)
                factor *= how.discount
                scene = after
                if scene.done:
                    break
            assert first is not None, "a branch has at least one step"
            return Sampled(first, not scene.alive, left_level, returns)

        return playthrough.game.branch(play)


def _around(chars: np.ndarray, y: int, x: int) -> str:
    """The screen around the hero, who is in the middle; blank beyond the map's edge."""
    rows, columns = MAP_HEIGHT // 2, MAP_WIDTH // 2
    padded = np.pad(chars, ((rows, rows), (columns, columns)), constant_values=ord(" "))
    window = padded[y : y + MAP_HEIGHT, x : x + MAP_WIDTH]
    return "\n".join(bytes(row).decode("latin-1") for row in window)


def _add_estimates(rows: list[dict[str, Any]], task: Skill, returns: np.ndarray) -> None:
    """Adds the columns of one task to the rows of a moment. `returns` is (actions, samples) float32."""
    means = estimates.mean(returns.astype(np.float64))
    errors = estimates.standard_error(returns.astype(np.float64))
    advantages = means - means.mean(dtype=np.float64)
    for i, row in enumerate(rows):
        row[f"returns_{task}"] = returns[i]
        row[f"return_{task}"] = means[i]
        row[f"return_{task}_se"] = None if errors is None else errors[i]
        row[f"advantage_{task}"] = advantages[i]
        row[f"best_{task}"] = bool(means[i] == means.max())


def recorded_games(transitions: pa.Table) -> list[RecordedGame]:
    """The games of a table of transitions, in its order. The table needs the columns `TRANSITIONS`."""
    games: dict[int, tuple[Split, int, PolicyName, Skill, list[str]]] = {}
    columns = (transitions[name].to_pylist() for name in TRANSITIONS)
    for seed, split, number, policy, task, action in zip(*columns, strict=True):
        games.setdefault(seed, (split, number, policy, task, []))[-1].append(action)
    return [
        RecordedGame(split, number, seed, policy, task, tuple(actions))
        for seed, (split, number, policy, task, actions) in games.items()
    ]


Chunk = tuple[RecordedGame, Labelling]


def label_chunk(chunk: Chunk) -> pa.Table:
    """Labels one game; a worker process calls this."""
    return label(*chunk)


def describe(chunk: Chunk) -> str:
    return f"the game of seed {chunk[0].seed}"
