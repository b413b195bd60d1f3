"""Pretraining and fine-tuning give the same bytes again, and on another kind of processor."""

import json
from pathlib import Path

import pytest

from tests.helpers.emulate import needs_qemu, run_python


def train(folder: Path, *options: str, cpu: str = "", portable_math: bool = True) -> dict[str, str]:
    """SHA-256 of each file of the models that a process of its own trains."""
    folder.mkdir()
    arguments = ["-W", "ignore", "-m", "tests.helpers.tiny_forward", str(folder), *options]
    return json.loads(run_python(arguments, cpu=cpu, portable_math=portable_math).splitlines()[-1])


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return train(tmp_path_factory.mktemp("native") / "models")


def test_two_processes_give_the_same_files(native: dict[str, str], tmp_path: Path) -> None:
    assert len(native) == 9
    assert train(tmp_path / "again") == native


@needs_qemu
@pytest.mark.slow  # the imports of torch, transformers and peft take a minute there
def test_forward_model_on_any_processor(native: dict[str, str], tmp_path: Path) -> None:
    assert train(tmp_path / "haswell", cpu="Haswell") == native


@pytest.mark.parametrize("cure", ["environment", "fused"])
def test_without_a_cure_the_bytes_are_others(native: dict[str, str], tmp_path: Path, cure: str) -> None:
    """Another order of summation, or of rounding, does change the bytes: the comparison above can fail."""
    if cure == "environment":
        other = train(tmp_path / "other", portable_math=False)
    else:
        other = train(tmp_path / "other", "unfused")
    assert other["models/base/model.safetensors"] != native["models/base/model.safetensors"]
    assert other["models/base/tokenizer.json"] == native["models/base/tokenizer.json"]
