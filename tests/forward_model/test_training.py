"""Runs that are killed, packed or split over processes end as an undisturbed run of one process does."""

import math
import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch

from nethack_pipe.forward_model import training
from nethack_pipe.forward_model.adapter import load_base
from nethack_pipe.forward_model.batches import Conversations, Packed, collate
from nethack_pipe.forward_model.conversations import encode_examples
from nethack_pipe.stage import StageError
from tests.forward_model.conftest import World
from tests.helpers import tiny_forward


class Killed(BaseException):
    """Stands in for kill -9: nothing catches it."""


def kill_while_saving(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let a run die when all but the mark of the checkpoint of `step` is written."""
    mark = training.MarkWhole.on_save

    def on_save(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == step:
            raise Killed
        mark(self, args, state, control, **kwargs)

    monkeypatch.setattr(training.MarkWhole, "on_save", on_save)


@pytest.mark.parametrize("step", [4, 8])
def test_a_killed_run_ends_with_the_same_bytes(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    shutil.copytree(world.root / "data", tmp_path / "data")
    for run in (tiny_forward.pretrain, tiny_forward.sft):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_while_saving(patch, step)
            run(tmp_path)
        stage = tiny_forward.FolderStage(tmp_path, run.__name__, None)
        # Half-written: the Trainer would choose it, and could not load it.
        (stage.scratch / f"checkpoint-{step}" / "trainer_state.json").write_text("{")
        last = training.last_checkpoint(stage.scratch)
        assert (last.name if last else None) == {4: None, 8: "checkpoint-4"}[step]
        undisturbed = getattr(world, run.__name__)
        again = run(tmp_path)
        assert (again.metrics, again.curve) == (undisturbed.metrics, undisturbed.curve)
    assert tiny_forward.digests(tmp_path) == tiny_forward.digests(world.root)


def test_packed_conversations_have_the_loss_they_have_alone(world: World) -> None:
    model, tokenizer = load_base(world.root / "models/base")
    encoded = encode_examples(tokenizer, tiny_forward.examples(6, 9), 160)
    rows = Conversations(encoded, answer_only=True)
    packed = Packed(rows, 400)
    assert len(packed) < len(rows)
    with torch.no_grad():
        alone = model(**collate([rows[i] for i in range(6)], 0)).loss
        together = model(**collate([packed[i] for i in range(len(packed))], 0), use_cache=False).loss
    assert together.item() == pytest.approx(alone.item(), rel=1e-5)


def test_logits_of_answers_alone_give_the_same_loss(world: World) -> None:
    model, tokenizer = load_base(world.root / "models/base")
    rows = Conversations(encode_examples(tokenizer, tiny_forward.examples(6, 9), 160), answer_only=True)
    assert training.takes_logits_to_keep(model)
    batches = [collate([rows[i] for i in range(6)], 0, logits_to_keep) for logits_to_keep in (False, True)]
    with torch.no_grad():
        whole, part = (model(**batch) for batch in batches)
    assert part.logits.shape[1] < whole.logits.shape[1] / 2
    assert part.loss.item() == pytest.approx(whole.loss.item(), rel=1e-6)


def test_packing_is_refused_where_conversations_would_see_each_other(world: World) -> None:
    model, tokenizer = load_base(world.root / "models/base")
    encoded = encode_examples(tokenizer, tiny_forward.examples(2, 9), 160)
    training.check_packing(model, encoded)
    forward = model.forward

    class Mixing(type(model)):  # type: ignore[misc]
        def forward(self, position_ids: Any = None, **inputs: Any) -> Any:
            return forward(**inputs)

    model.__class__ = Mixing
    with pytest.raises(ValueError, match="Mixing lets packed conversations see each other"):
        training.check_packing(model, encoded)


def test_packing_checkpointing_accumulation_and_epochs(world: World, tmp_path: Path) -> None:
    shutil.copytree(world.root, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".scratch", "sft"))
    packed = {"packing": True, "max_seq_length": 400, "gradient_checkpointing": True, "gradient_accumulation": 2}
    metrics = tiny_forward.sft(tmp_path, max_steps=None, num_epochs=2.0, logging_steps=1, **packed).metrics
    assert (metrics["train_conversations"], metrics["effective_batch"]) == (120, 8)
    tokens_per_row = metrics["train_tokens"] / (metrics["steps"] * 8 / metrics["epochs"])
    assert 300 < tokens_per_row <= 400
    assert metrics["steps"] == math.ceil(2 * metrics["train_tokens"] / tokens_per_row / 8 - 1e-3)
    assert (tmp_path / "models/sft/adapter_model.safetensors").is_file()


def test_a_loss_that_is_no_number_is_an_error(world: World) -> None:
    model, tokenizer = load_base(world.root / "models/base")
    with torch.no_grad():
        model.model.norm.weight.fill_(torch.inf)
    encoded = encode_examples(tokenizer, tiny_forward.examples(8, 9), 160)
    fields = training.Settings.__dataclass_fields__
    given = {name: value for name, value in tiny_forward.SFT.items() if name in fields}
    settings = training.Settings(seed=1, answer_only=True, **given)
    with pytest.raises(training.TrainingError, match="no number at step 2"):
        training.fit(model, 0, encoded, encoded, settings, world.root / ".scratch/nan")


def test_more_processes_are_a_larger_batch(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(training.__file__).parents[2]))
    for folder in ("data", "models"):
        shutil.copytree(world.root / folder, tmp_path / folder)
    alone = tiny_forward.sft(tmp_path, batch_size=4, lora_dropout=0.0)
    shutil.rmtree(tmp_path / "models/sft")
    double = tiny_forward.sft(tmp_path, batch_size=2, num_processes=2, lora_dropout=0.0)
    assert (double.metrics["world_size"], double.metrics["effective_batch"]) == (2, 4)
    assert double.metrics["train_loss"] == pytest.approx(alone.metrics["train_loss"], rel=1e-4)
    assert double.metrics["held_out_loss"] == pytest.approx(alone.metrics["held_out_loss"], rel=1e-4)
    assert (tmp_path / "models/sft/adapter_model.safetensors").is_file()


def test_a_base_model_that_is_not_there_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(StageError, match="sft.base_model: nobody/nothing cannot be loaded"):
        tiny_forward.sft(world.root, base_model="nobody/nothing")
    with pytest.raises(StageError, match="sft.target_modules: LlamaForCausalLM has no c_attn"):
        tiny_forward.sft(world.root, target_modules=["q_proj", "c_attn"])
