"""The stage in a small world of its own: parameters, number of workers, kills, full disks."""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from nethack_pipe import params
from nethack_pipe.artifacts import DiskFull, naming_full_disk, write_bytes
from nethack_pipe.counterfactuals.dataset import load, load_preferences
from nethack_pipe.counterfactuals.label import ContinuationName
from nethack_pipe.counterfactuals.moments import DRAWN_AS
from nethack_pipe.params import ParamError
from nethack_pipe.policies.registry import TASK_BLIND
from nethack_pipe.tasks.skills import TASKS
from stages.counterfactuals import CounterfactualsParams, MomentQuotas
from tests.helpers import branches
from tests.helpers.branches import PARAMS, made, run_stage, workers, write_world
from tests.helpers.chunks import wait_for
from tests.helpers.dask import Dask

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stage has run once, undisturbed, with two workers. Never change it."""
    root = tmp_path_factory.mktemp("world") / "project"
    write_world(root)
    with pytest.MonkeyPatch.context() as monkeypatch, workers(monkeypatch, 2):
        run_stage(root)
    return root


@pytest.fixture
def fresh(world: Path, tmp_path: Path) -> Path:
    """The world before the stage has run."""
    root = tmp_path / "project"
    shutil.copytree(world, root, ignore=shutil.ignore_patterns(".scratch", "counterfactuals*", "preferences"))
    return root


def chunks(scratch: Path) -> dict[str, Path]:
    """The chunks that are finished, by name."""
    return {path.name: path for path in sorted(scratch.glob("**/games/[0-9]*"))}


def test_what_the_stage_makes(world: Path) -> None:
    metrics = json.loads((world / "metrics" / "counterfactuals.json").read_text())["counterfactuals"]
    page = (world / "plots" / "counterfactuals.html").read_text()
    for split, games in (("train", {36, 10, 20}), ("held_out", {3})):
        table, pairs = load(world / "data/counterfactuals", split), load_preferences(world / "data/preferences", split)
        seeds = table["game_seed"].to_pylist()
        assert set(seeds) <= games and set(table["split"].to_pylist()) == {split}
        figures = metrics[split]
        assert (figures["rows"], figures["games"]) == (table.num_rows, len(set(seeds))) and figures["moments"] >= 1
        assert sum(figures["preference_pairs"].values()) == pairs.num_rows > 0
        assert f'<td class="n">{table.num_rows}</td>' in page
        # Sure means sure sample by sample: with three samples no pair may be the wrong way round in two of them.
        rows = {(row["game_seed"], row["step"], row["action"]): row for row in table.to_pylist()}
        for pair in pairs.to_pylist():
            better, worse = (rows[pair["game_seed"], pair["step"], pair[name]] for name in ("chosen", "rejected"))
            returns = f"returns_{pair['task']}"
            differences = [a - b for a, b in zip(better[returns], worse[returns], strict=True)]
            assert pair["margin"] == pytest.approx(sum(differences) / 3, abs=1e-4) and pair["margin"] > 0
            assert sum(difference < 0 for difference in differences) < 2
            assert pair["prompt"].startswith(better["state_text"]) and f"task: {pair['task']}\n" in pair["prompt"]


@pytest.mark.parametrize("count", [1, 4])
def test_any_number_of_workers_gives_the_same_bytes(
    world: Path, fresh: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    with workers(monkeypatch, count):
        run_stage(fresh)
    assert made(fresh) == made(world)


def test_a_cluster_one_of_whose_workers_is_killed_gives_the_same_bytes(
    world: Path, fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("nethack_pipe", "stages"):  # what all machines of a cluster see in the caller's folder
        (fresh / package).symlink_to(REPOSITORY / package)
    dask = Dask(tmp_path)
    try:
        doomed, _ = dask.start_worker(), dask.start_worker()
        dask.wait_for_workers(2)
        monkeypatch.setenv("NETHACK_PIPE_DASK", str(dask.file))
        killer = threading.Thread(target=lambda: wait_for(lambda: chunks(fresh)) and doomed.kill())
        killer.start()
        run_stage(fresh)
        killer.join()
        assert doomed.wait(10) == -signal.SIGKILL
    finally:
        dask.stop()
    assert made(fresh) == made(world)


def test_a_killed_run_goes_on_with_what_is_finished(world: Path, fresh: Path) -> None:
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "stages.counterfactuals"],
            cwd=fresh,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY), "NETHACK_PIPE_WORKERS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )

    with start() as first:
        deadline = time.monotonic() + 60
        while not chunks(fresh) and time.monotonic() < deadline:
            time.sleep(0.01)
        first.kill()
        first.communicate()
    assert first.returncode == -signal.SIGKILL and not (fresh / "data/counterfactuals").exists()
    finished = len(chunks(fresh))
    assert 1 <= finished < 4
    with start() as second:
        _, told = second.communicate(timeout=60)
    assert second.returncode == 0, told
    assert re.findall(r"games: .*? (\d)/4 \[", told)[0] == str(finished), "the bar begins where the first run was"
    assert made(fresh) == made(world) and not chunks(fresh)


def test_a_full_disk_is_named_and_what_is_finished_stays_good(
    world: Path, fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = tmp_path / "small disk"
    small.mkdir()
    sizes = [path.stat().st_size for path in chunks(world).values()]
    mount = ["mount", "-t", "tmpfs", "-o", f"size={sizes[0] + sizes[1] + sizes[2] // 2}", "tmpfs", str(small)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only: what a full one does was not checked")
    try:
        monkeypatch.setenv("NETHACK_PIPE_SCRATCH", str(small))
        with workers(monkeypatch, 1):
            with pytest.raises(DiskFull, match=rf"No space left on device.*{small}/.* has 0\.0 MB free") as full:
                run_stage(fresh)
            assert full.value.errno == 28 and not (fresh / "data/counterfactuals").exists()
            kept = chunks(small)
            assert [name[:5] for name in kept] == ["00000", "00001"]
            assert all(isinstance(pickle.loads(path.read_bytes()), pa.Table) for path in kept.values())
            subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
            run_stage(fresh)
        assert made(fresh) == made(world)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_other_errors_are_not_full_disks(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_bytes(tmp_path / "no such folder" / "file", b"")
    with pytest.raises(ValueError, match="as it is"), naming_full_disk(tmp_path):
        raise ValueError("as it is")


# -- Parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"horizon": 0}, "horizon: expected an integer greater than 0, got 0"),
        ({"samples": 2.0}, "samples: expected an integer greater than 0, got 2.0"),
        ({"discount": 1.5}, "discount: expected a number greater than 0 and at most 1, got 1.5"),
        ({"confidence": 1}, "confidence: expected a number greater than 0.5 and less than 1, got 1"),
        ({"num_games": 0}, "num_games: expected an integer greater than 0 or null, got 0"),
        ({"moments_per_game": 4}, "moments_per_game: expected keys with values, got 4"),
        (
            {"moments_per_game": PARAMS["moments_per_game"] | {"pickup": -1}},
            "moments_per_game.pickup: expected an integer at least 0, got -1",
        ),
        (
            {"moments_per_game": dict.fromkeys(DRAWN_AS, 0)},
            "moments_per_game: expected at least one number greater than 0, got {'survival': 0, 'descent': 0, "
            "'combat': 0, 'pickup': 0, 'threat': 0}",
        ),
        (
            {"policy": "greedy"},
            "policy: expected one of 'acting', 'random', 'wall_avoidance', 'frontier', 'task_greedy', "
            "'task_greedy_fair', 'n_step_greedy', got 'greedy'",
        ),
        ({"policy": "frontier"}, "task: expected a task for policy 'frontier' to play for, got null"),
        (
            {"policy": "random", "task": "combat"},
            "task: expected null where policy is 'random' (it plays for none), got 'combat'",
        ),
        (
            {"policy": "acting", "task": "combat"},
            "task: expected null where policy is 'acting' (it keeps the task of each game), got 'combat'",
        ),
        ({"num_games": 4}, "num_games: expected at most 3 (the train games of the rollouts) or null, got 4"),
        (
            {"num_held_out_games": 2},
            "num_held_out_games: expected at most 1 (the held_out games of the rollouts) or null, got 2",
        ),
    ],
)
def test_a_wrong_value_is_one_line_before_any_work(fresh: Path, changes: dict[str, Any], words: str) -> None:
    document = params.read_yaml(fresh / "params.yaml")
    document["counterfactuals"].update(changes)
    (fresh / "params.yaml").write_text(json.dumps(document))
    with pytest.raises(ParamError) as refused:
        run_stage(fresh)
    assert refused.value.lines == [f"params.yaml: counterfactuals.{words}"]
    assert not chunks(fresh)


def test_who_recorded_the_games_must_be_able_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_world(tmp_path / "project", policy="acting", task=None)
    monkeypatch.setattr("nethack_pipe.policies.registry.POLICY_NAMES", ("random",))
    with pytest.raises(ParamError, match="policy: expected another one, since frontier recorded some of the games"):
        run_stage(tmp_path / "project")


def test_the_parameters_name_what_the_package_knows() -> None:
    fields = CounterfactualsParams.model_fields
    assert get_args(fields["policy"].annotation) == tuple(
        name for names in get_args(ContinuationName) for name in get_args(names)
    )
    assert get_args(get_args(fields["task"].annotation)[0]) == TASKS
    for policy in get_args(fields["policy"].annotation):
        task = None if policy in {"acting", *TASK_BLIND} else "combat"
        CounterfactualsParams(**PARAMS | {"policy": policy, "task": task})
    assert tuple(MomentQuotas.model_fields) == DRAWN_AS
    committed = params.load(REPOSITORY / "params.yaml", branches.MODELS)["counterfactuals"]
    assert list(committed.moments_per_game.model_dump()) == list(DRAWN_AS)
