"""`python -m tests.helpers.tiny_forward FOLDER [unfused]`: the stages pretrain and sft on a made-up world, in seconds.

Prints one line of JSON: the SHA-256 of each file of the base model and of the adapter. ``unfused`` takes out one of the
cures by which these are the same on every processor.
"""

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nethack_pipe import artifacts
from nethack_pipe.forward_model.conversations import Example
from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.perception import text

PRETRAIN: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 32,
    "feed_forward_size": 64,
    "num_layers": 1,
    "num_heads": 2,
    "max_seq_length": 160,
    "max_steps": 8,
    "batch_size": 4,
    "learning_rate": 0.01,
    "final_learning_rate": 0.05,
    "warmup": 0.1,
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "logging_steps": 2,
    "eval_steps": 4,
    "held_out_examples": 8,
    "save_steps": 4,
}
SFT: dict[str, Any] = {
    **{name: value for name, value in PRETRAIN.items() if name in ("max_seq_length", "max_steps", "batch_size")},
    **{name: PRETRAIN[name] for name in ("learning_rate", "final_learning_rate", "warmup", "max_grad_norm")},
    **{name: PRETRAIN[name] for name in ("logging_steps", "eval_steps", "held_out_examples", "save_steps")},
    "base_model": "models/base",
    "lora_rank": 4,
    "lora_alpha": 8.0,
    "lora_dropout": 0.05,
    "target_modules": ["all-linear", "embed_tokens"],
    "packing": False,
    "num_epochs": None,
    "gradient_accumulation": 1,
    "num_processes": 1,
    "weight_decay": 0.0,
    "gradient_checkpointing": False,
    "device": "cpu",
    "precision": "float32",
}

SMALL = {"batch_size": 2, "max_steps": 4, "held_out_examples": 2}


def examples(count: int, seed: int, message: str = "You see here a rock.") -> list[Example]:
    """Transitions of a hero who moves unless there is a wall, and sees something when south of here is a corridor."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        tiles = {name: str(rng.choice(list(".|#"))) for name in DIRECTIONS}
        around = " ".join(f"{text.SHORT[name]}={tile}" for name, tile in tiles.items())
        state = (
            f"seen:{rng.integers(90)} rooms:1 depth:1 turn:{rng.integers(99)}\nmsg:\n ...|\n ..@|\nadj: {around} on=.\n"
        )
        action = str(rng.choice(list(DIRECTIONS)))
        dy, dx = DIRECTIONS[action] if tiles[action] != "|" else (0, 0)
        change = text.Delta(dx=dx, dy=dy, message=message if tiles["south"] == "#" else "")
        made.append(Example(state, action, text.target(change), int(rng.integers(4)) * 2))
    return made


def write_table(folder: Path, made: Mapping[str, Sequence[Example]]) -> None:
    """A table as the stages write it, by split; games of the held-out split have odd seeds."""
    folder.mkdir(parents=True)
    for split, rows in made.items():
        columns = {name: [getattr(row, name) for row in rows] for name in ("state_text", "action", "target")}
        seeds = [row.game_seed + (split == "held_out") for row in rows]
        table = pa.table({**columns, "game_seed": seeds, "split": [split] * len(rows)})
        pq.write_table(table, folder / f"{split}-00000.parquet")


class FolderStage:
    """Stands in for `nethack_pipe.stage.Stage`: outputs go where they belong at once, metrics and curves are kept."""

    def __init__(self, root: Path, name: str, params: Any, seed: int = 5) -> None:
        self.root, self.seed, self.params = root, seed, {"base": SimpleNamespace(seed=seed), name: params}
        self.scratch = root / ".scratch" / name
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.metrics: dict[str, Any] = {}
        self.curve: list[Any] = []

    def input(self, path: str) -> Path:
        assert (self.root / path).exists(), path
        return self.root / path

    def output(self, path: str) -> Path:
        (self.root / path).mkdir(parents=True, exist_ok=True)
        return self.root / path

    def write_metrics(self, values: Mapping[str, Any]) -> None:
        self.metrics = artifacts.rounded(values)

    def write_curve(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.curve = artifacts.rounded(list(rows))


def write_world(root: Path, held_out_message: str = "You see here a rock.") -> None:
    """data/rollouts and data/counterfactuals in `root`."""
    for number, table in enumerate(("rollouts", "counterfactuals")):
        held_out = examples(12, 100 + number, held_out_message)
        write_table(root / "data" / table, {"train": examples(60, number), "held_out": held_out})


def pretrain(root: Path, **changes: Any) -> FolderStage:
    """Run the stage's `main` in `root`."""
    from stages import pretrain

    stage = FolderStage(root, "pretrain", pretrain.PretrainParams(**PRETRAIN | changes))
    pretrain.main(stage)  # type: ignore[arg-type]
    return stage


def sft(root: Path, **changes: Any) -> FolderStage:
    """Run the stage's `main` in `root`."""
    from stages import sft

    stage = FolderStage(root, "sft", sft.SftParams(**SFT | changes))
    with contextlib.chdir(root):
        sft.main(stage)  # type: ignore[arg-type]
    return stage


def digests(root: Path) -> dict[str, str]:
    """The SHA-256 of every file of both models."""
    folders = ("models/base", "models/sft")
    return {f"{path}/{name}": sha for path in folders for name, sha in artifacts.hashes(root / path).items()}


def main() -> None:
    root = Path(sys.argv[1])
    if "unfused" in sys.argv:
        import torch

        class Unfused(torch.optim.AdamW):
            def __init__(self, params: Any, **options: Any) -> None:
                super().__init__(params, **options | {"fused": False})

        torch.optim.AdamW = Unfused  # type: ignore[misc]
    with contextlib.redirect_stdout(sys.stderr):
        write_world(root)
        # An emulated processor multiplies at a thousandth of the speed.
        pretrain(root, hidden_size=16, feed_forward_size=32, **SMALL)
        sft(root, **SMALL)
    print(json.dumps(digests(root)))


if __name__ == "__main__":
    main()
