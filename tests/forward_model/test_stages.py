from pathlib import Path
from typing import Any

import pytest
import yaml

from nethack_pipe import params
from stages.pretrain import PretrainParams
from stages.sft import SftParams
from tests.helpers.tiny_forward import PRETRAIN, SFT

MODELS = {"pretrain": PretrainParams, "sft": SftParams}


def message(folder: Path, section: str, **changes: Any) -> str:
    """What a user is told about params.yaml with `changes` in `section`."""
    sections = {"pretrain": PRETRAIN, "sft": SFT}
    sections[section] = sections[section] | changes
    (folder / "params.yaml").write_text(yaml.safe_dump(sections))
    with pytest.raises(params.ParamError) as error:
        params.load(folder / "params.yaml", MODELS)
    [line] = error.value.lines
    return line


@pytest.mark.parametrize(
    ("section", "changes", "text"),
    [
        ("pretrain", {"hidden_size": 30}, "pretrain.hidden_size: expected a multiple of 2 x num_heads (4), got 30"),
        ("pretrain", {"vocab_size": 100}, "pretrain.vocab_size: expected an integer at least 512"),
        ("pretrain", {"max_steps": 0}, "pretrain.max_steps: expected an integer greater than 0, got 0"),
        ("pretrain", {"learning_rate": "abc"}, "pretrain.learning_rate: expected a number greater than 0"),
        ("pretrain", {"save_steps": 3}, "pretrain.save_steps: expected a multiple of logging_steps (2), got 3"),
        ("sft", {"num_epochs": 1.0}, "sft.max_steps: expected exactly one of max_steps and num_epochs"),
        ("sft", {"max_steps": None}, "sft.max_steps: expected exactly one of max_steps and num_epochs"),
        ("sft", {"max_steps": -1}, "sft.max_steps: expected an integer greater than 0 or null, got -1"),
        ("sft", {"logging_steps": 12, "eval_steps": 12}, "sft.logging_steps: expected at most max_steps (8), got 12"),
        ("sft", {"lora_dropout": 1.0}, "sft.lora_dropout: expected a number at least 0 and less than 1, got 1.0"),
        ("sft", {"target_modules": []}, "sft.target_modules: expected a list of at least 1, each a string, got []"),
        ("sft", {"precision": "bfloat16"}, "sft.precision: expected 'float32' where device is 'cpu', got 'bfloat16'"),
        ("sft", {"device": "gpu"}, "sft.device: expected one of 'cpu', 'cuda', got 'gpu'"),
        ("sft", {"base_model": ""}, "sft.base_model: expected a non-empty string, got ''"),
        ("sft", {"lora_alpa": 3.0}, "sft.lora_alpa: unknown key; did you mean lora_alpha?"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, section: str, changes: dict[str, Any], text: str) -> None:
    assert text in message(tmp_path, section, **changes)
