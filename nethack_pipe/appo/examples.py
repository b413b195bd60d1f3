"""The labelled moments of `data/counterfactuals`, as the policy that APPO trains would see them.

An *example* is a moment as the policy sees it when it plays one of its skills there, with the mean n-step return of
that skill's task for each action that was tried.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa

from nethack_pipe.counterfactuals.dataset import moments
from nethack_pipe.counterfactuals.schema import SCHEMA
from nethack_pipe.game.game import Game
from nethack_pipe.parallel import map_chunks
from nethack_pipe.perception.observation import ObservationSpec, Observer
from nethack_pipe.rollouts.schema import read
from nethack_pipe.seeds import Split
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.skills import SKILLS, Skill, SkillMask

_SPLIT: Split = "train"  # held-out games are for evaluation alone
_STATE = ("turn", "hp", "depth", "x", "y")  # columns of the transitions, and names in a scene, that a replay must meet


class ExamplesError(RuntimeError):
    """The labelled moments cannot be learned from; the message says why."""


@dataclass(frozen=True)
class Examples:
    """N examples, by game as in the table of branches, then step, then skill.

    Attributes:
        game_seeds, steps: (N,) int64, the moment.
        skills: (N,) int64, index in `SKILLS`.
        obs: (N, D) float32, the policy's observation, as `SkillEnv` makes it in that skill.
        masks: (N, A) float32, 1 for an action that the skill may take.
        returns: (N, A) float32, points; nan for an action that was not tried.
    """

    game_seeds: np.ndarray
    steps: np.ndarray
    skills: np.ndarray
    obs: np.ndarray
    masks: np.ndarray
    returns: np.ndarray

    @property
    def tried(self) -> np.ndarray:
        """(N, A) bool: the actions that are compared, tried and allowed."""
        return (self.masks > 0) & ~np.isnan(self.returns)


@dataclass(frozen=True)
class _Labels:
    """What was tried at a moment, and what came of it."""

    step: int
    actions: tuple[str, ...]
    returns: np.ndarray  # (actions, skills) float32


@dataclass(frozen=True)
class _LabelledGame:
    """A recorded game up to its last labelled moment."""

    seed: int
    actions: tuple[str, ...]
    states: np.ndarray  # (actions, _STATE) before each action
    moments: tuple[_Labels, ...]


_Chunk = tuple[_LabelledGame, ObservationSpec, tuple[Skill, ...], bool]  # the last one is avoid_traps


def read_examples(
    counterfactuals: Path,
    rollouts: Path,
    spec: ObservationSpec,
    skills: Sequence[Skill],
    *,
    avoid_traps: bool,
    workers: int | None = None,
) -> Examples:
    """The labelled moments of the training games, each once for every skill of `skills` in which it teaches something.

    That is where at least two actions were tried that the skill allows, with different returns; `avoid_traps` as in
    `SkillMask`. The games are replayed, in `workers` processes (see `map_chunks`).

    Raises:
        ExamplesError: a game does not go as it was recorded, or no moment teaches anything.
        FileNotFoundError, rollouts.schema.SchemaError: a folder does not have its table.
    """
    columns = ["game_seed", "step", "action", *(f"return_{skill}" for skill in skills)]
    branches = read(counterfactuals, _SPLIT, SCHEMA, columns)
    transitions = read(rollouts, _SPLIT, columns=["game_seed", "action", *_STATE])
    chunks = [(game, spec, tuple(skills), avoid_traps) for game in _labelled_games(branches, transitions, skills)]
    parts = list(map_chunks(_examples_of, chunks, describe=_describe, desc="labelled games", workers=workers))
    if not sum(len(part.steps) for part in parts):
        raise ExamplesError(f"no labelled moment of {counterfactuals} has a better and a worse action for any skill")
    names = [field.name for field in fields(Examples)]
    return Examples(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def _labelled_games(branches: pa.Table, transitions: pa.Table, skills: Sequence[Skill]) -> Iterator[_LabelledGame]:
    game_seeds, steps = (branches[name].to_numpy() for name in ("game_seed", "step"))
    tried = np.array(branches["action"].to_pylist())
    returns = np.stack([branches[f"return_{skill}"].to_numpy() for skill in skills], axis=1)
    labelled: dict[int, list[_Labels]] = {}
    for rows in moments(branches):
        moment = _Labels(int(steps[rows.start]), tuple(tried[rows].tolist()), returns[rows])
        labelled.setdefault(int(game_seeds[rows.start]), []).append(moment)
    recorded = transitions["game_seed"].to_numpy()
    actions = np.array(transitions["action"].to_pylist())
    states = np.stack([transitions[name].to_numpy() for name in _STATE], axis=1)
    for seed, found in labelled.items():
        rows_of_game = np.flatnonzero(recorded == seed)
        last = max(moment.step for moment in found)
        if last >= len(rows_of_game):
            raise ExamplesError(f"game {seed} is labelled at step {last}, of it {len(rows_of_game)} steps are recorded")
        played = rows_of_game[: last + 1]
        yield _LabelledGame(seed, tuple(actions[played].tolist()), states[played], tuple(found))


def _examples_of(chunk: _Chunk) -> Examples:
    """The examples of one game; a worker process calls this."""
    labelled, spec, skills, avoid_traps = chunk
    found = {moment.step: moment for moment in labelled.moments}
    masks = {skill: SkillMask(skill, spec.actions, avoid_traps=avoid_traps) for skill in skills}
    observer = Observer(spec)
    rows: list[tuple[int, int, np.ndarray, np.ndarray, np.ndarray]] = []
    with Game() as simulator:
        game = Playthrough(simulator, spec.actions)
        game.reset(labelled.seed)
        for step, (action, recorded) in enumerate(zip(labelled.actions, labelled.states.tolist(), strict=True)):
            state = [getattr(game.scene, name) for name in _STATE]
            if state != recorded:
                raise ExamplesError(
                    f"game {labelled.seed} does not go as it was recorded: {', '.join(_STATE)} before step {step} are "
                    f"{state}, recorded were {recorded}; make data/rollouts anew on this kind of processor"
                )
            for skill, returns in _by_skill(found.get(step), skills, spec.actions):
                mask = masks[skill].of(game).astype(np.float32)
                compared = returns[(mask > 0) & ~np.isnan(returns)]
                if len(np.unique(compared)) > 1:
                    number = SKILLS.index(skill)
                    obs = observer.observe(game.scene, game.memory, number, mask)
                    rows.append((step, number, obs, mask, returns))
            game.step(action)
    shapes = ((), (), (spec.size,), (len(spec.actions),), (len(spec.actions),))
    types = (np.int64, np.int64, np.float32, np.float32, np.float32)
    columns = [
        np.array([row[i] for row in rows], dtype=kind).reshape(len(rows), *shape)
        for i, (shape, kind) in enumerate(zip(shapes, types, strict=True))
    ]
    return Examples(np.full(len(rows), labelled.seed, dtype=np.int64), *columns)


def _by_skill(
    labels: _Labels | None, skills: Sequence[Skill], actions: Sequence[str]
) -> Iterator[tuple[Skill, np.ndarray]]:
    """Each skill with the returns of its task (actions,) float32, nan where an action was not tried; none of None."""
    if labels is None:
        return
    columns = {name: i for i, name in enumerate(labels.actions)}
    order = [columns.get(name, -1) for name in actions]
    tried = np.array(order) >= 0
    for skill, returns in zip(skills, labels.returns.T, strict=True):
        yield skill, np.where(tried, returns[order], np.float32(np.nan))


def _describe(chunk: _Chunk) -> str:
    return f"the game of seed {chunk[0].seed}"
