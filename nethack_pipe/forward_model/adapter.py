"""The forward model on disk: an ordinary PEFT adapter folder (LoRA) beside the base model that it was made for."""

import contextlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from transformers.pytorch_utils import Conv1D

from nethack_pipe.forward_model.products import use_portable_products

ALL_LINEAR = "all-linear"
CARD = """---
base_model: {base}
library_name: peft
pipeline_tag: text-generation
tags: [nethack, lora]
---
# What an action changes in NetHack

A LoRA adapter. It reads a state and an action as text and answers what the action changes: position, HP, gold, depth,
survival, tiles explored, message.

- Base model: `{base}`{commit}
- Data: {train_conversations} transitions of training games ({data}); loss on the answer and its end token only
- {steps} steps of {effective_batch} conversations (batch x accumulation x processes)
- {trainable_parameters} parameters trained
- Held-out loss {held_out_loss:.4g} a token, on {held_out_conversations} transitions of other games

All parameters are in `manifest.json`, accuracies on held-out games in `metrics/evaluate.json`.

```python
from nethack_pipe.forward_model.adapter import load_forward_model

model, tokenizer = load_forward_model("models/sft", "{base}")
```

`peft.PeftModel.from_pretrained(base_model, "models/sft")` loads it as well. The user's turn is the prompt of
`nethack_pipe.perception.text`, which ends in `=>`; the assistant's turn is the answer.
"""


def load_base(base: str | Path, precision: str = "float32") -> tuple[Any, Any]:
    """Model and tokenizer of a local folder or a hub model, in ``float32`` or ``bfloat16``.

    Raises:
        ValueError: the tokenizer has no end token.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    if tokenizer.eos_token_id is None:
        raise ValueError(f"{base}: the tokenizer has no end token; choose a base model with one")
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=getattr(torch, precision))
    return model, tokenizer


def pad_token_id(tokenizer: Any) -> int:
    """The token that fills up a batch: never attended to, never learned, so that any will do."""
    return tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id


@contextlib.contextmanager
def _tie_is_seen_to() -> Iterator[None]:
    """Silence PEFT's warnings that merging a tied embedding goes wrong: `load_forward_model` unties it first."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Model (has|with) `tie_word_embeddings=True`")
        yield


def expand_targets(model: Any, target_modules: Sequence[str]) -> list[str]:
    """The names of the modules to adapt: `ALL_LINEAR` stands for every linear layer but the output layer.

    Raises:
        ValueError: a name that no module of the model ends in.
    """
    named = [(path, module) for path, module in model.named_modules() if path]
    output = model.get_output_embeddings()
    linear = {
        path.rpartition(".")[2]
        for path, module in named
        if isinstance(module, torch.nn.Linear | Conv1D) and module is not output
    }
    targets = set(target_modules) - {ALL_LINEAR} | (linear if ALL_LINEAR in target_modules else set())
    known = {path.rpartition(".")[2] for path, _ in named}
    unknown = targets - known
    if unknown:
        raise ValueError(f"sft.target_modules: {type(model).__name__} has no {', '.join(sorted(unknown))}")
    return sorted(targets)


def attach_lora(
    model: Any, seed: int, *, rank: int, alpha: float, dropout: float, target_modules: Sequence[str]
) -> peft.PeftModel:
    """`model` with fresh LoRA matrices (Hu et al. 2021, arXiv 2106.09685) of `rank`, scaled by `alpha` / `rank`."""
    torch.manual_seed(seed)
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=expand_targets(model, target_modules),
    )
    with _tie_is_seen_to():
        return peft.get_peft_model(model, config)


def save_adapter(
    model: peft.PeftModel, folder: Path, base: str, data: Sequence[str], metrics: Mapping[str, Any]
) -> None:
    """Write adapter_model.safetensors, adapter_config.json and the model card README.md.

    Args:
        model: the trained model.
        folder: where to; it is made if it is not there.
        base: how the base model is named in the folder: a hub name, or a path in the repository.
        data: what it was trained on, for the card.
        metrics: the figures of `training.Fit`, for the card.
    """
    model.peft_config["default"].base_model_name_or_path = base
    # The base model's own embedding does not change: it is not written, though embed_tokens is adapted.
    model.save_pretrained(folder, save_embedding_layers=False)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    # A set in PEFT: its order differs from process to process.
    config["target_modules"] = sorted(config["target_modules"])
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    commit = getattr(model.get_base_model().config, "_commit_hash", None)
    card = CARD.format(base=base, commit=f" at `{commit}`" if commit else "", data=", ".join(data), **metrics)
    (folder / "README.md").write_text(card, encoding="utf-8")


def load_forward_model(
    adapter: str | Path, base: str | Path, device: str = "cpu", precision: str = "float32"
) -> tuple[Any, Any]:
    """The trained forward model, ready to predict, and its tokenizer.

    Args:
        adapter: the adapter folder, e.g. ``models/sft``.
        base: folder or hub name of the base model that the adapter was trained on.
        device: where torch runs it.
        precision: ``float32`` or ``bfloat16``.
    """
    use_portable_products()
    model, tokenizer = load_base(base, precision)
    output = model.get_output_embeddings()
    if output.weight is model.get_input_embeddings().weight:
        # Merging changes the input embedding only; left tied, the output layer would change with it.
        output.weight = torch.nn.Parameter(output.weight.detach().clone())
        model.config.tie_word_embeddings = False
    with _tie_is_seen_to():
        merged = peft.PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    return merged.to(device).eval(), tokenizer
