"""Chunks over a real dask cluster on this machine: the same bytes as without it, deaths, refusals, interrupts."""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nethack_pipe import artifacts, cluster, portable
from nethack_pipe.parallel import WorkerDied, map_chunks
from nethack_pipe.params import ParamError
from tests.helpers import chunks
from tests.helpers.chunks import seeds, wait_for
from tests.helpers.dask import Dask
from tests.helpers.toy import ROOT, kill_group


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    dask = Dask(tmp_path_factory.mktemp("dask"))
    dask.start_worker()
    dask.start_worker(threads=2)
    try:
        dask.wait_for_workers(2)
        yield dask
    finally:
        dask.stop()


@pytest.fixture
def dask(running: Dask, monkeypatch: pytest.MonkeyPatch) -> Dask:
    """The cluster, chosen by the environment."""
    monkeypatch.setenv("NETHACK_PIPE_DASK", str(running.file))
    return running


def test_games_are_the_same_bytes_as_without_it(running: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = list(map_chunks(chunks.play, range(3), workers=2, cache=tmp_path / "here"))
    monkeypatch.setenv("NETHACK_PIPE_DASK", str(running.file))
    there = list(map_chunks(chunks.play, range(3), cache=tmp_path / "there"))
    assert there == here
    assert [(table["game"][0].as_py(), table.num_rows) for table in here] == [(0, 8), (1, 8), (2, 8)]
    files = {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()}
    assert len(files) == 3
    assert {path.name: path.read_bytes() for path in (tmp_path / "there").iterdir()} == files


def test_processes_start_where_the_caller_is_with_its_variables(dask: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # dask sets it for its workers
    ours = {name: os.environ.get(name) for name in portable.ALWAYS | portable.PORTABLE_MATH}
    assert list(map_chunks(chunks.surroundings, range(3))) == [(str(Path.cwd()), ours)] * 3


def test_a_process_that_dies_costs_one_retry_of_its_own_chunk(
    dask: Dask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [(number, tmp_path) for number in range(8)]
    assert list(map_chunks(chunks.die_once, tasks, describe=seeds)) == [n * 10 for n in range(8)]
    tries = {number: len(list(tmp_path.glob(f"{number}-*"))) for number in range(8)}
    assert tries == {number: 2 if number == 3 else 1 for number in range(8)}
    told = [line for line in capsys.readouterr().err.splitlines() if "died" in line]
    assert len(told) == 1 and "a worker process at tcp://127.0.0.1:" in told[0]
    assert "died (signal SIGKILL) while working on seed 3; trying that once more" in told[0]


def test_a_retry_is_at_another_worker_if_one_is_free(dask: Dask, tmp_path: Path) -> None:
    assert list(map_chunks(chunks.die_once, [(3, tmp_path)])) == [30]
    workers = [path.read_text() for path in tmp_path.iterdir()]
    assert len(workers) == 2 and len(set(workers)) == 2


def test_a_second_death_is_an_error_with_the_chunks_name_and_the_next_run_resumes(dask: Dask, tmp_path: Path) -> None:
    marks, cache = tmp_path / "marks", tmp_path / "cache"
    marks.mkdir()
    tasks = [(number, marks) for number in (0, 1, 2, 3)]
    with pytest.raises(WorkerDied, match=r"died \(signal SIGSEGV\) while working on seed 3, for the second time"):
        list(map_chunks(chunks.always_die_at_3, tasks, describe=seeds, cache=cache))
    assert sorted(path.name[:5] for path in cache.iterdir()) == ["00000", "00001", "00002"]
    assert list(map_chunks(chunks.always_die_at_3, tasks[:3], cache=cache)) == [0, 10, 20]
    assert len(list(marks.iterdir())) == 5  # 3 and 2 tries of the last


def test_a_lost_dask_worker_costs_nothing(dask: Dask, tmp_path: Path) -> None:
    tasks = [(number, tmp_path) for number in range(5)]
    results = map_chunks(chunks.linger_once, tasks)
    assert next(results) == 0
    [mark] = wait_for(lambda: list(tmp_path.glob("1-*")))
    at_work = psutil.Process(int(mark.name.split("-")[1]))
    at_work.parent().kill()
    assert list(results) == [10, 20, 30, 40]
    assert len(list(tmp_path.glob("1-*"))) == 2
    wait_for(lambda: not at_work.is_running())


def test_a_chunk_that_dask_workers_do_not_survive_is_named(dask: Dask) -> None:
    dask.wait_for_workers(2)
    with pytest.raises(
        WorkerDied, match=r"2 dask workers, the last at tcp://127.0.0.1:\d+, were lost while working on 7$"
    ):
        list(map_chunks(chunks.kill_parent, [7]))
    dask.wait_for_workers(2)


def test_an_exception_comes_back_with_the_chunks_name(dask: Dask) -> None:
    with pytest.raises(RuntimeError, match="Odd: odd 5 5") as caught:
        list(map_chunks(chunks.fail, [1, 5, 1], describe=lambda n: f"seed {n}"))
    shown = "".join(traceback.format_exception(caught.value))
    assert "while working on seed 5, in a worker process" in shown
    assert "tests/helpers/chunks.py" in shown and "in fail" in shown


def test_ctrl_c_ends_the_processes_of_the_run(dask: Dask, tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    code = (
        "from pathlib import Path; from nethack_pipe.parallel import map_chunks; from tests.helpers import chunks\n"
        "list(map_chunks(chunks.note_and_sleep, [(n, Path('marks').absolute()) for n in (0, 1, 2, 1, 1, 1)]))"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: len(list((tmp_path / "marks").iterdir())) == 5)
    at_work = [psutil.Process(int(path.name.split("-")[1])) for path in (tmp_path / "marks").glob("1-*")]
    assert len(list((tmp_path / ".scratch").iterdir())) == 1
    parent.send_signal(signal.SIGINT)
    assert parent.wait(10) == -signal.SIGINT
    assert len(at_work) == 3 and not psutil.wait_procs(at_work, 5)[1]
    assert not list((tmp_path / ".scratch").iterdir())


@pytest.mark.parametrize(
    ("where", "cause"),
    [
        ("scheduler.json", "there is no such file"),
        ("pyproject.toml", "it is not such a file"),
        ("tcp://127.0.0.1:1", "Timed out trying to connect to tcp://127.0.0.1:1 after 0.5 s"),
        ("carrier-pigeon://127.0.0.1:1", "unknown address scheme 'carrier-pigeon'"),
    ],
)
def test_a_scheduler_that_is_not_there_is_refused(where: str, cause: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT", 0.5)
    monkeypatch.setenv("NETHACK_PIPE_DASK", where)
    with pytest.raises(ParamError) as caught:
        list(map_chunks(chunks.square, [1]))
    [line] = caught.value.lines
    assert line.startswith("NETHACK_PIPE_DASK: expected the address of a running dask scheduler, like tcp://host:8786,")
    assert f"got {where!r}: {cause}" in line


def test_a_cluster_is_asked_only_for_what_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(map_chunks(chunks.square, [3, 4], workers=1, cache=tmp_path)) == [9, 16]
    monkeypatch.setenv("NETHACK_PIPE_DASK", "no such thing")
    assert list(map_chunks(chunks.square, [3, 4], cache=tmp_path)) == [9, 16]


def test_a_worker_with_other_packages_is_refused(dask: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = artifacts.versions()
    monkeypatch.setattr(artifacts, "versions", lambda: ours | {"nle": "0.1"})
    expected = (
        rf"the worker tcp://127.0.0.1:\d+ cannot be used: nle is {ours['nle']} there, 0.1 here; nor can 1 more of 2"
    )
    with pytest.raises(ParamError, match=expected):
        list(map_chunks(chunks.square, [1]))


def test_a_worker_that_does_not_share_the_folder_is_refused(tmp_path: Path) -> None:
    run = cluster._Run(tmp_path / "mark", tmp_path, {}, {})
    assert cluster._faults(run) == f"it does not see {tmp_path} as the caller does; all machines must share that folder"
    run.mark.touch()
    assert cluster._faults(run) == ""


def test_a_worker_with_other_code_is_refused_also_when_it_joins_later(dask: Dask, tmp_path: Path) -> None:
    for path in (ROOT / "nethack_pipe").glob("*.py"):
        copy = tmp_path / "nethack_pipe" / path.name
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(path.read_text() + ("# edited\n" if path.name == "cluster.py" else ""))
    expected = r"the worker tcp://127.0.0.1:\d+ cannot be used: nethack_pipe/cluster.py is \w{12} there, \w{12} here"
    results = map_chunks(chunks.whose, range(1000))
    next(results)
    worker = dask.start_worker(code=tmp_path)
    try:
        with pytest.raises(ParamError, match=expected):
            list(results)
        with pytest.raises(ParamError, match=expected):
            list(map_chunks(chunks.whose, range(1000)))
    finally:
        kill_group(worker)


def test_a_scheduler_without_workers_is_refused_and_one_that_goes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dask = Dask(tmp_path)
    monkeypatch.setenv("NETHACK_PIPE_DASK", str(dask.file))
    try:
        wait_for(dask.file.exists)
        with pytest.raises(ParamError, match=f"the scheduler at {dask.file} has no workers"):
            list(map_chunks(chunks.square, [1]))
        dask.start_worker()
        dask.wait_for_workers(1)
        results = map_chunks(chunks.note_and_sleep, [(0, tmp_path), (1, tmp_path)])
        assert next(results) == 0
        kill_group(dask.scheduler)
        with pytest.raises(ConnectionError, match=f"lost the dask scheduler at {dask.file}; the next run resumes"):
            next(results)
    finally:
        dask.stop()


def test_dask_is_not_imported_where_nobody_asks_for_it() -> None:
    code = "import sys, nethack_pipe.parallel; sys.exit('distributed' in sys.modules or 'dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
