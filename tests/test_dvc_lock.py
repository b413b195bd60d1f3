"""The committed dvc.lock is of the committed code and parameters: hashes only, nothing is run."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from nethack_pipe.params import read_yaml
from nethack_pipe.stage import CODE

ROOT = Path(__file__).parents[1]
STAGES: dict[str, dict[str, Any]] = read_yaml(ROOT / "dvc.yaml")["stages"]
HINT = "dvc.lock is not of this code and these parameters: `dvc repro`, then commit dvc.lock and metrics"


@pytest.fixture(scope="module")
def lock() -> dict[str, dict[str, Any]]:
    path = ROOT / "dvc.lock"
    assert path.exists(), HINT
    return read_yaml(path)["stages"]


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def recorded(entries: list[dict[str, Any]]) -> dict[str, str]:
    return {entry["path"]: entry["md5"] for entry in entries}


def test_the_same_stages(lock: dict[str, dict[str, Any]]) -> None:
    assert {name: stage["cmd"] for name, stage in lock.items()} == {
        name: stage["cmd"] for name, stage in STAGES.items()
    }, HINT


@pytest.mark.parametrize("name", STAGES)
def test_code(lock: dict[str, dict[str, Any]], name: str) -> None:
    deps = recorded(lock[name]["deps"])
    assert sorted(deps) == sorted(STAGES[name]["deps"]), HINT
    code = {path: value for path, value in deps.items() if path.endswith(CODE)}
    assert code == {path: md5(ROOT / path) for path in code}, HINT


@pytest.mark.parametrize("name", STAGES)
def test_parameters(lock: dict[str, dict[str, Any]], name: str) -> None:
    document = read_yaml(ROOT / "params.yaml")
    assert lock[name]["params"]["params.yaml"] == {section: document[section] for section in STAGES[name]["params"]}, (
        HINT
    )


@pytest.mark.parametrize("name", STAGES)
def test_data_is_what_the_other_stages_made(lock: dict[str, dict[str, Any]], name: str) -> None:
    made = {path: value for other in lock.values() for path, value in recorded(other["outs"]).items()}
    read = {path: value for path, value in recorded(lock[name]["deps"]).items() if not path.endswith(CODE)}
    assert read == {path: made[path] for path in read}, HINT


@pytest.mark.parametrize("name", STAGES)
def test_outputs_and_metrics(lock: dict[str, dict[str, Any]], name: str) -> None:
    outs = recorded(lock[name]["outs"])
    metrics = f"metrics/{name}.json"
    assert sorted(outs) == sorted([*STAGES[name].get("outs", []), metrics]), HINT
    assert outs[metrics] == md5(ROOT / metrics), HINT
