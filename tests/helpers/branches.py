"""Made-up tables of branches, and a small real world for the stage that makes them."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from nethack_pipe import artifacts
from nethack_pipe.counterfactuals import estimates
from nethack_pipe.counterfactuals.schema import COLUMNS, SCHEMA
from nethack_pipe.params import Section
from nethack_pipe.perception import text
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.rollouts.record import Assignment, record
from nethack_pipe.rollouts.schema import write_shards
from nethack_pipe.stage import BaseParams, Stage
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS
from stages import counterfactuals

TEXTS = {"kind": "threat", "split": "train", "policy": "random", "state_text": "msg:hello\n"}


def moment(step: int, combat: dict[str, Sequence[float]], **columns: Any) -> list[dict[str, Any]]:
    """The rows of one moment. `combat` has each action's return of combat in each sample; in the other tasks all
    returns are 0. `columns` are the same in all rows, or lists with one value per row."""
    returns = np.array(list(combat.values()), dtype=np.float64)
    rows = []
    for i, action in enumerate(combat):
        row: dict[str, Any] = {}
        for name, kind, _ in COLUMNS:
            row[name] = [] if pa.types.is_list(kind) else "" if pa.types.is_string(kind) else 0
            row[name] = False if pa.types.is_boolean(kind) else row[name]
        row |= TEXTS | {"game_seed": 8, "step": step, "action": action, "samples": returns.shape[1], "weight": 1.0}
        row |= {"horizon": 2, "target": text.target(text.Delta())}
        row |= {"outcomes": ["a"], "outcome_counts": [returns.shape[1]]}
        for task in TASKS:
            values = returns if task == "combat" else np.zeros_like(returns)
            means, errors = estimates.mean(values), estimates.standard_error(values)
            row[f"returns_{task}"] = values[i]
            row[f"return_{task}"], row[f"best_{task}"] = means[i], bool(means[i] == means.max())
            row[f"return_{task}_se"] = None if errors is None else errors[i]
            row[f"advantage_{task}"] = means[i] - means.mean()
        rows.append(row | {name: value[i] if isinstance(value, list) else value for name, value in columns.items()})
    return rows


def table(*moments: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([row for rows in moments for row in rows], schema=SCHEMA)


MODELS: dict[str, type[Section]] = {
    "base": BaseParams,
    "rewards": RewardWeights,
    "counterfactuals": counterfactuals.CounterfactualsParams,
}
PARAMS: dict[str, Any] = {
    "num_games": None,
    "num_held_out_games": None,
    "moments_per_game": {"survival": 1, "descent": 1, "combat": 1, "pickup": 1, "threat": 1},
    "horizon": 3,
    "samples": 3,
    "policy": "wall_avoidance",
    "task": None,
    "discount": 0.9,
    "confidence": 0.9,
}
OUTPUTS = ("data/counterfactuals", "data/preferences", "plots/counterfactuals.html", "metrics/counterfactuals.json")


def write_world(root: Path, **changes: Any) -> None:
    """A folder in which the stage can run: params.yaml, dvc.yaml and recorded games, three to train on."""
    root.mkdir(parents=True)
    weights = RewardWeights()
    sections = {
        "base": {"seed": 3, "portable_math": False},
        "rewards": weights.model_dump(),
        "counterfactuals": PARAMS | changes,
    }
    (root / "params.yaml").write_text(yaml.safe_dump(sections))
    declared = {"deps": ["data/rollouts"], "params": list(MODELS), "outs": list(OUTPUTS)}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"counterfactuals": declared}}))
    folder = root / "data" / "rollouts"
    folder.mkdir(parents=True)
    for split, seeds in (("train", (36, 10, 20)), ("held_out", (3,))):
        players = [
            Assignment(split, i, GameSpec(seed, seed), "frontier", "descend")  # type: ignore[arg-type]
            for i, seed in enumerate(seeds)
        ]
        write_shards(record(players, 50, weights), folder, split)
    artifacts.write_manifest(folder, stage="rollouts", inputs={}, params={}, seed=3)


def run_stage(root: Path) -> Stage:
    """Runs the stage's `main` in `root` as the runner does, without its signals and exit codes."""
    with contextlib.chdir(root):
        stage = Stage("counterfactuals", MODELS, root)
        stage.scratch.mkdir(parents=True, exist_ok=True)
        counterfactuals.main(stage)
        stage.finish()
    return stage


def made(root: Path) -> dict[str, dict[str, str]]:
    """A hash of every file that the stage has made, by output."""
    return {output: artifacts.hashes(root / output) for output in OUTPUTS}


@contextlib.contextmanager
def workers(monkeypatch: Any, count: int) -> Iterator[None]:
    with monkeypatch.context() as context:
        context.setenv("NETHACK_PIPE_WORKERS", str(count))
        yield
