"""Open loop: the forward model predicts single steps of held-out games, from the recorded state each time."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from nethack_pipe import seeds
from nethack_pipe.forward_model.adapter import load_forward_model
from nethack_pipe.forward_model.conversations import read_examples, sample
from nethack_pipe.forward_model.predict import predict
from nethack_pipe.forward_model.scoring import score

EXAMPLES_PER_CALL = 256  # of `predict`, for the progress bar; batches of like length are made within a call


def score_forward_model(
    adapter: Path, base: str | Path, tables: Sequence[Path], *, examples: int, batch_size: int, seed: int
) -> dict[str, Any]:
    """Metrics (see `scoring.score`) of the model in `adapter` on `examples` held-out transitions from `tables`."""
    torch.set_num_threads(1)
    model, tokenizer = load_forward_model(adapter, base)
    manifest = json.loads((adapter / "manifest.json").read_text(encoding="utf-8"))
    max_length = manifest["params"]["sft"]["max_seq_length"]
    chosen = sample(read_examples(tables, "held_out"), examples, seeds.integer(seed, "evaluate", "open_loop"))
    # Like lengths together: the longest conversation of a batch sets the time of all.
    order = sorted(range(len(chosen)), key=lambda i: (len(chosen[i].prompt), i))
    answers = [""] * len(chosen)
    with tqdm(total=len(chosen), desc="open loop", unit="prediction") as bar:
        for start in range(0, len(order), EXAMPLES_PER_CALL):
            rows = order[start : start + EXAMPLES_PER_CALL]
            prompts = [chosen[row].prompt for row in rows]
            for row, answer in zip(
                rows, predict(model, tokenizer, prompts, batch_size, max_length=max_length), strict=True
            ):
                answers[row] = answer
            bar.update(len(rows))
    return score(chosen, answers, seed)
