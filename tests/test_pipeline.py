"""The real stages under real DVC, at tiny scale: one finished pipeline, and what happens to copies and clones of it."""

import csv
import io
import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nethack_pipe import guard
from tests.helpers import pipeline
from tests.helpers.pipeline import STAGES, TINY, recorded, results, run, stages_run
from tests.helpers.toy import Toy, output_of, wait_for


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The pipeline after its first `dvc repro`, committed; one for all processes of pytest. Never change it."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    project = Toy(base / "pipeline" / "project")
    complete = base / "pipeline" / "complete"
    with guard.lock(base / "pipeline.lock", "another process of pytest", "the pipeline", patience=600):
        if not complete.exists():
            shutil.rmtree(project.root, ignore_errors=True)
            pipeline.create(project.root)
            assert set(stages_run(run(project, "dvc", "repro", NETHACK_PIPE_WORKERS="2"))) == STAGES
            project.commit()
            complete.touch()
    return project


@pytest.fixture
def project(finished: Toy, tmp_path: Path) -> Iterator[Toy]:
    """A copy of the finished pipeline."""
    project = finished.copy(tmp_path / "project")
    yield project
    project.kill_all()


@pytest.fixture
def unfinished(finished: Toy, tmp_path: Path) -> Iterator[Toy]:
    """A clone of the pipeline as it was before its first run."""
    clone = finished.clone(tmp_path / "another folder" / "clone")
    clone.git("checkout", "-q", "HEAD~1")
    yield clone
    clone.kill_all()


def checkpoints(project: Toy) -> list[int]:
    """The numbers of frames after which the unfinished training has saved its state."""
    found = project.root.glob(".scratch/appo-*/checkpoints/frames_*.pt")
    return sorted(int(path.stem.removeprefix("frames_")) for path in found)


@pytest.mark.slow
def test_a_kill_another_folder_day_time_zone_and_number_of_processes_change_no_byte(
    finished: Toy, unfinished: Toy
) -> None:
    faketime = shutil.which("faketime")
    full_moon = [faketime, "-m", "--exclude-monotonic", "2026-10-26 12:00:00"] if faketime else []
    elsewhere = {"TZ": "Asia/Tokyo", "NETHACK_PIPE_WORKERS": "1"}

    repro = unfinished.start(*full_moon, "dvc", "repro", "appo", **elsewhere)
    wait_for(lambda: checkpoints(unfinished) or repro.poll() is not None, 300)
    os.kill(int(unfinished.read(".scratch/appo.lock")), signal.SIGKILL)
    output = output_of(repro)
    assert stages_run(output) == ["rollouts", "counterfactuals", "appo"] and repro.returncode == 255
    assert re.search(r"exited with (-9|137)\b", output), "as the shell puts it that DVC starts the stage with"
    frames = checkpoints(unfinished)[-1]
    assert 0 < frames < TINY["appo"]["train_for_env_steps"]

    output = run(unfinished, *full_moon, "dvc", "repro", **elsewhere)
    assert set(stages_run(output)) == STAGES - {"rollouts", "counterfactuals"}
    bar = re.findall(r"\bappo: .*? (\d+)/768 \[", output)
    assert (int(bar[0]), int(bar[-1])) == (frames, 768), "it goes on from the checkpoint"

    assert recorded(unfinished) == recorded(finished)
    assert results(unfinished) == results(finished)
    assert unfinished.read("dvc.lock") == finished.read("dvc.lock")
    if not faketime:
        pytest.skip("faketime is not installed: that no stage depends on the calendar was not checked, the rest was")


@pytest.mark.slow
def test_one_parameter_runs_what_depends_on_it_and_can_be_compared(project: Toy, finished: Toy) -> None:
    output = run(project, "dvc", "exp", "run", "-S", "appo.batch_size=128", NETHACK_PIPE_WORKERS="1")
    assert stages_run(output) == ["appo", "evaluate"]

    assert json.loads(project.run("dvc", "params", "diff", "--json")) == {
        "params.yaml": {"appo.batch_size": {"old": 64, "new": 128, "diff": 64}}
    }

    metrics = json.loads(project.run("dvc", "metrics", "diff", "--json"))
    assert {"metrics/appo.json"} <= metrics.keys() <= {"metrics/appo.json", "metrics/evaluate.json"}
    old, new = (json.loads(side.read("metrics/appo.json"))["appo"] for side in (finished, project))
    assert old["entropy"] != new["entropy"]
    shown = metrics["metrics/appo.json"]["appo.entropy"]
    assert (shown["old"], shown["new"]) == (old["entropy"], new["entropy"])

    project.run("dvc", "plots", "diff", "HEAD")
    page = project.read("dvc_plots/index.html")
    assert not re.search(r"<(script|link)\b[^>]*\b(src|href)\s*=", page), "it must work without a network"
    points = [json.loads(text) for text in re.findall(r'\{[^{}]*"rev": "[^{}"]*"[^{}]*\}', page)]
    for revision, side in (("HEAD", finished), ("workspace", project)):
        curve = list(csv.DictReader(io.StringIO(side.read("plots/appo_training.csv"))))
        assert curve
        assert [point for point in points if point["rev"] == revision and "frames" in point] == [
            row | {"rev": revision} for row in curve
        ]


def test_a_second_run_and_a_pulled_clone_run_nothing(project: Toy, finished: Toy, tmp_path: Path) -> None:
    assert stages_run(project.run("dvc", "repro")) == []
    assert project.git("status", "--porcelain").stdout == ""

    project.run("dvc", "push")
    clone = project.clone(tmp_path / "clone")  # beside it: the remote of .dvc/config is a folder up from the project
    shutil.rmtree(project.root)
    clone.run("dvc", "pull")
    assert results(clone) == results(finished)
    assert stages_run(clone.run("dvc", "repro")) == []
    assert clone.run("dvc", "status") == "Data and pipelines are up to date.\n"
    assert clone.git("status", "--porcelain").stdout == ""


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        ("rollouts", "num_games", 0, "rollouts.num_games: expected an integer greater than 0, got 0"),
        ("sft", "learning_rate", None, "sft.learning_rate: expected a number greater than 0 and less than 1, got null"),
        ("appo", "gamma", 1.5, "appo.gamma: expected a number greater than 0 and at most 1, got 1.5"),
        (
            "appo",
            "batch_size",
            80,
            "appo.batch_size: expected 64 (num_workers x num_envs_per_worker x rollout) or a multiple of it when "
            "multiplied by num_batches_per_epoch (1); that is 64, 128, 192, ..., got 80",
        ),
        (
            "baselines",
            "tasks",
            ["explore", "fight"],
            "baselines.tasks[1]: expected one of 'explore', 'survive', 'combat', 'descend', 'resource', got 'fight'",
        ),
    ],
)
def test_a_stage_refuses_a_wrong_value_in_one_line(
    project: Toy, section: str, key: str, value: Any, words: str
) -> None:
    before = results(project)
    pipeline.change(project, {section: {key: value}})
    assert project.run("python", "-m", f"stages.{section}", code=2) == f"params.yaml: {words}\n"
    assert results(project) == before


def test_dvc_puts_back_what_it_removed_for_a_wrong_value(project: Toy) -> None:
    before = results(project)
    output = project.run("dvc", "exp", "run", "-S", "appo.batch_size=abc", code=255)
    assert "\nparams.yaml: appo.batch_size: expected an integer greater than 0, got 'abc'\n" in output
    assert "Traceback" not in output
    assert results(project) == before and "appo/policy.safetensors" in before["models"]
    assert project.git("status", "--porcelain").stdout == " M params.yaml\n"
