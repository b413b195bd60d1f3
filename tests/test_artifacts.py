"""Manifests and files written whole."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from nethack_pipe import artifacts
from nethack_pipe.artifacts import ArtifactError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "toy"
    (folder / "part").mkdir(parents=True)
    (folder / "model.bin").write_bytes(b"weights")
    (folder / "part" / "config.json").write_text("{}")
    artifacts.write_manifest(folder, stage="toy", inputs={"data/rows": "ab"}, params={"toy": {"steps": 3}}, seed=7)
    return folder


def test_a_manifest_says_what_is_there_and_what_it_is_from(folder: Path) -> None:
    manifest = artifacts.read_manifest(folder)
    assert manifest["outputs"] == {
        "model.bin": hashlib.sha256(b"weights").hexdigest(),
        "part/config.json": hashlib.sha256(b"{}").hexdigest(),
    }
    assert {key: manifest[key] for key in ("stage", "inputs", "params", "seed")} == {
        "stage": "toy",
        "inputs": {"data/rows": "ab"},
        "params": {"toy": {"steps": 3}},
        "seed": 7,
    }
    assert manifest["packages"]["torch"] == "2.13.0" and manifest["packages"]["nle"] == "1.3.0"
    assert str(folder) not in (folder / "manifest.json").read_text()


def test_a_manifest_written_again_is_the_same_bytes(folder: Path) -> None:
    first = (folder / "manifest.json").read_bytes()
    artifacts.write_manifest(folder, stage="toy", inputs={"data/rows": "ab"}, params={"toy": {"steps": 3}}, seed=7)
    assert (folder / "manifest.json").read_bytes() == first


def test_damage_is_named(folder: Path) -> None:
    (folder / "model.bin").write_bytes(b"weighty")
    with pytest.raises(ArtifactError, match=r"models/toy/model.bin: damaged or edited"):
        artifacts.read_manifest(folder)
    (folder / "model.bin").unlink()
    with pytest.raises(ArtifactError, match=r"models/toy/model.bin: missing"):
        artifacts.read_manifest(folder)
    (folder / "model.bin").write_bytes(b"weights")
    (folder / "part" / "old.bin").touch()
    with pytest.raises(ArtifactError, match=r"models/toy/part/old.bin: a stray file"):
        artifacts.read_manifest(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"outputs": 3}', "{"])
def test_a_manifest_that_is_none(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"manifest.json: not a manifest"):
        artifacts.read_manifest(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(ArtifactError, match=r"manifest.json: there is no such file"):
        artifacts.read_manifest(folder)
    with pytest.raises(ArtifactError, match=r"nowhere: there is no such file or folder"):
        artifacts.read_manifest(folder / "nowhere")


def test_hashes_see_every_file_and_leave_out_bytecode(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").touch()
    before = artifacts.hashes(folder)
    assert list(before) == ["manifest.json", "model.bin", "part/config.json"]
    (folder / "model.bin").rename(folder / "renamed.bin")
    assert artifacts.digest(artifacts.hashes(folder)) != artifacts.digest(before)
    assert artifacts.hashes(folder / "renamed.bin") == {"": hashlib.sha256(b"weights").hexdigest()}
    assert artifacts.digest({"": "ab"}) == "ab"


def test_metrics_are_plain_and_short() -> None:
    metrics = {
        "loss": np.float32(1 / 3),
        "count": np.int64(3),
        "list": [1e-9 / 3, None, True],
        "name": "x",
        1: 2e22 / 3,
    }
    assert artifacts.rounded(metrics) == {
        "loss": 0.333333,
        "count": 3,
        "list": [3.33333e-10, None, True],
        "name": "x",
        "1": 6.66667e21,
    }
    with pytest.raises(ValueError, match=r"appo: reward: 1: nan is no number to record"):
        artifacts.rounded({"appo": {"reward": [0.0, float("nan")]}})


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    artifacts.write_json(path, {"b": 1, "a": "ä"})
    assert path.read_text() == '{\n  "a": "ä",\n  "b": 1\n}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        artifacts.write_json(path, {"a": float("inf")})
    with pytest.raises(TypeError):
        artifacts.write_bytes(path, "text")  # type: ignore[arg-type]
    assert json.loads(path.read_text()) == {"a": "ä", "b": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.json"]
