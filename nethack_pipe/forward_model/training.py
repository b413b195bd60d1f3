"""One training run with transformers' Trainer: the loop that pretraining and fine-tuning share.

A run can be killed at any moment. Started again with the same arguments it goes on from its last whole checkpoint and
ends with the same bytes as an undisturbed run.
"""

import inspect
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from nethack_pipe.forward_model.batches import Conversations, Packed, batch_order, collate
from nethack_pipe.forward_model.conversations import Encoded
from nethack_pipe.forward_model.products import use_portable_products
from nethack_pipe.seeds import rng

WHOLE = "whole"
"""Name of the empty file that a checkpoint gets when everything else in it has been written."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run does; the names are those of `params.yaml`, where they are explained."""

    seed: int
    answer_only: bool
    max_steps: int | None
    num_epochs: float | None
    batch_size: int
    gradient_accumulation: int
    learning_rate: float
    final_learning_rate: float
    warmup: float
    weight_decay: float
    max_grad_norm: float
    max_seq_length: int
    logging_steps: int
    eval_steps: int
    save_steps: int
    packing: bool = False
    gradient_checkpointing: bool = False
    num_processes: int = 1
    device: str = "cpu"
    precision: str = "float32"

    @property
    def effective_batch(self) -> int:
        """Conversations (rows, when packed) that one step learns from."""
        return self.batch_size * self.gradient_accumulation * self.num_processes

    def steps(self, rows: int) -> int:
        """Optimizer steps of a run over `rows` conversations (packed: rows of them)."""
        if self.max_steps is not None:
            return self.max_steps
        assert self.num_epochs is not None
        return math.ceil(self.num_epochs * rows / self.effective_batch)

    @property
    def max_conversations(self) -> int | None:
        """How many conversations a run of `max_steps` can use; no more need to be read. None: all of them."""
        return None if self.max_steps is None or self.packing else self.max_steps * self.effective_batch


@dataclass(frozen=True, slots=True)
class Fit:
    """What a run did: `metrics` for the metrics file, `curve` with one row per logged step."""

    metrics: dict[str, Any]
    curve: list[dict[str, Any]]


class TrainingError(Exception):
    """A run that cannot go on; the message says why."""


class MarkWhole(transformers.TrainerCallback):
    """Marks a checkpoint once every process has written its part: a kill may come in the middle of writing.

    The last step's checkpoint stays unmarked: the Trainer would train one step more when started on it.
    """

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        if state.is_world_process_zero and state.global_step < state.max_steps:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / WHOLE).touch()


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint in `folder`."""
    whole = [marker.parent for marker in folder.glob(f"checkpoint-*/{WHOLE}")]
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def drop_unfinished_checkpoints(folder: Path) -> None:
    """Delete checkpoints that a killed run had begun to write."""
    for path in folder.glob("checkpoint-*"):
        if not (path / WHOLE).exists():
            shutil.rmtree(path)


def check_packing(model: Any, encoded: Sequence[Encoded]) -> None:
    """Refuse an architecture that lets conversations in one row see each other, by comparing with rows of their own.

    Raises:
        ValueError: the second of two packed conversations gets other logits than alone.
    """
    first, second = encoded[0].input_ids, encoded[-1].input_ids
    ids = torch.tensor([first + second], device=model.device)
    positions = torch.tensor([[*range(len(first)), *range(len(second))]], device=model.device)
    training = model.training
    model.eval()
    with torch.no_grad():
        together = model(input_ids=ids, position_ids=positions, use_cache=False).logits[0, len(first) :]
        alone = model(input_ids=ids[:, len(first) :], use_cache=False).logits[0]
    model.train(training)
    difference = (together - alone).abs().max().item()
    if difference > 0.01 * max(1.0, alone.abs().max().item()):
        raise ValueError(
            f"sft.packing: {type(model).__name__} lets packed conversations see each other (logits differ by "
            f"{difference:.3g}); set sft.packing to false for this base model"
        )


def takes_logits_to_keep(model: Any) -> bool:
    """Whether the model, or the one under a PEFT model, can compute the logits of the last tokens alone."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "logits_to_keep" in inspect.signature(base.forward).parameters


def fit(
    model: Any,
    pad_token_id: int,
    train: Sequence[Encoded],
    held_out: Sequence[Encoded],
    settings: Settings,
    scratch: Path,
) -> Fit:
    """Train `model` in place, by AdamW with a linear warm-up and a cosine decay.

    Args:
        model: a transformers causal language model, or a PEFT model on one.
        pad_token_id: what shorter conversations of a batch are filled up with.
        train: conversations to learn.
        held_out: conversations whose loss is reported during the run; nothing is learned or chosen by them.
        settings: see `Settings`.
        scratch: folder for checkpoints, of this run only; a checkpoint there is gone on from.

    Raises:
        TrainingError: the number of processes is not the one asked for, or the loss is no number.
    """
    use_portable_products()
    cpu = settings.device == "cpu"
    if cpu:
        # Sums are split over threads; one thread gives the same bytes on every machine (and on busy cores the speed).
        torch.set_num_threads(1)
    conversations: Any = Conversations(train, settings.answer_only)
    if settings.packing:
        check_packing(model, train)
        conversations = Packed(conversations, settings.max_seq_length)
    steps = settings.steps(len(conversations))
    lengths = [len(item["input_ids"]) for item in conversations]
    order = batch_order(lengths, settings.effective_batch, steps, rng(settings.seed, "batches"))
    arguments = transformers.TrainingArguments(
        output_dir=str(scratch),
        use_cpu=cpu,
        bf16=settings.precision == "bfloat16",
        ddp_backend="gloo" if cpu and settings.num_processes > 1 else None,
        ddp_find_unused_parameters=False,
        seed=settings.seed,
        data_seed=settings.seed,
        max_steps=steps,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=max(32, settings.batch_size),
        gradient_accumulation_steps=settings.gradient_accumulation,
        train_sampling_strategy="sequential",
        activation_checkpointing=settings.gradient_checkpointing,
        # The other way needs inputs with gradients, which a frozen embedding does not give.
        activation_checkpointing_kwargs={"use_reentrant": False} if settings.gradient_checkpointing else None,
        # The unfused optimizer takes its square root from a library that differs by processor.
        optim="adamw_torch_fused",
        adam_beta2=0.99,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        warmup_steps=settings.warmup,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": settings.final_learning_rate},
        logging_steps=settings.logging_steps,
        logging_nan_inf_filter=False,
        eval_strategy="steps",
        eval_steps=settings.eval_steps,
        prediction_loss_only=True,
        save_steps=settings.save_steps,
        save_total_limit=2,
        save_only_model=False,
        dataloader_pin_memory=not cpu,
        remove_unused_columns=False,
        report_to=[],
    )
    if arguments.world_size != settings.num_processes:
        raise TrainingError(f"num_processes: {settings.num_processes} asked for, {arguments.world_size} run")
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=torch.utils.data.Subset(conversations, order),
        eval_dataset=Conversations(held_out, settings.answer_only),
        data_collator=partial(collate, pad_token_id=pad_token_id, logits_to_keep=takes_logits_to_keep(model)),
        callbacks=[MarkWhole()],
    )
    if trainer.is_world_process_zero():
        drop_unfinished_checkpoints(scratch)
    trainer.accelerator.wait_for_everyone()
    checkpoint = last_checkpoint(scratch)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    curve = curve_rows(trainer.state.log_history)
    if not curve:
        raise TrainingError(f"a run of {steps} steps logs nothing; logging_steps must be at most that")
    bad = [row["step"] for row in curve if not math.isfinite(row["loss"])]
    if bad:
        raise TrainingError(f"the loss is no number at step {bad[0]}; a lower learning_rate may help")
    metrics = {
        "steps": steps,
        "epochs": len(order) / len(conversations),
        "effective_batch": settings.effective_batch,
        "world_size": arguments.world_size,
        "train_conversations": len(train),
        "train_tokens": sum(len(item.input_ids) for item in train),
        "train_answer_tokens": sum(item.answer_length for item in train),
        "truncated_conversations": sum(item.truncated for item in train),
        "held_out_conversations": len(held_out),
        "train_loss": curve[-1]["loss"],
        "held_out_loss": [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry][-1],
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }
    return Fit(metrics, curve)


def curve_rows(history: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Rows of step, loss (mean since the row before), held_out_loss (None if not taken), learning_rate, grad_norm."""
    held_out = {int(entry["step"]): entry["eval_loss"] for entry in history if "eval_loss" in entry}
    return [
        {
            "step": int(entry["step"]),
            "loss": entry["loss"],
            "held_out_loss": held_out.get(int(entry["step"])),
            "learning_rate": entry["learning_rate"],
            "grad_norm": entry["grad_norm"],
        }
        for entry in history
        if "loss" in entry
    ]
