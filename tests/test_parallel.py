"""Chunks over processes: order, deaths, exceptions, interrupts, resuming."""

import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import psutil
import pytest

from nethack_pipe.parallel import WorkerDied, map_chunks, worker_count
from nethack_pipe.params import ParamError
from tests.helpers import chunks
from tests.helpers.chunks import seeds, wait_for


def test_results_come_in_order_from_several_processes() -> None:
    assert list(map_chunks(chunks.square, range(10), workers=3)) == [n * n for n in range(10)]
    pids = set(map_chunks(chunks.whose, range(6), workers=2))
    assert len(pids) == 2 and os.getpid() not in pids
    assert list(map_chunks(chunks.square, [])) == []


def test_one_worker_is_a_process_of_its_own() -> None:
    assert os.getpid() not in set(map_chunks(chunks.whose, range(2), workers=1))


def test_a_worker_that_dies_costs_one_retry_of_its_own_chunk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [(number, tmp_path) for number in range(8)]
    assert list(map_chunks(chunks.die_once, tasks, workers=2, describe=seeds)) == [n * 10 for n in range(8)]
    tries = {number: len(list(tmp_path.glob(f"{number}-*"))) for number in range(8)}
    assert tries == {number: 2 if number == 3 else 1 for number in range(8)}
    told = [line for line in capsys.readouterr().err.splitlines() if "died" in line]
    assert len(told) == 1 and "(signal SIGKILL) while working on seed 3;" in told[0]


def test_a_second_death_is_an_error_with_the_chunks_name_and_keeps_what_is_done(tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    tasks = [(number, tmp_path / "marks") for number in range(6)]
    with pytest.raises(WorkerDied, match=r"\(signal SIGSEGV\) while working on seed 3, for the second time"):
        list(map_chunks(chunks.always_die_at_3, tasks, workers=2, describe=seeds, cache=tmp_path / "cache"))
    kept = sorted(path.name[:5] for path in (tmp_path / "cache").iterdir())
    assert kept == ["00000", "00001", "00002", "00004", "00005"]


def test_a_child_that_a_dead_worker_leaves_behind_does_not_hide_the_death(tmp_path: Path) -> None:
    start = time.monotonic()
    assert list(map_chunks(chunks.die_with_child, [(1, tmp_path)], workers=1)) == [1]
    assert time.monotonic() - start < 10
    os.kill(int(next(tmp_path.iterdir()).name), signal.SIGKILL)


def test_an_early_exit_is_a_death() -> None:
    with pytest.raises(WorkerDied, match=r"\(exit code 7\) while working on 0"):
        list(map_chunks(chunks.leave, [0], workers=1))


@pytest.mark.parametrize(("bad", "kind", "text"), [(2, KeyError, "no such thing"), (5, RuntimeError, "Odd: odd 5 5")])
def test_an_exception_comes_back_with_the_chunks_name(bad: int, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        list(map_chunks(chunks.fail, [1, bad, 1], workers=2, describe=lambda n: f"seed {n}"))
    shown = "".join(traceback.format_exception(caught.value))
    assert f"while working on seed {bad}, in a worker process" in shown
    assert "tests/helpers/chunks.py" in shown and "in fail" in shown


def test_an_abandoned_iterator_leaves_no_process(tmp_path: Path) -> None:
    results = map_chunks(chunks.note_and_sleep, [(n, tmp_path) for n in range(2)], workers=2)
    assert next(results) == 0
    pids = wait_for(lambda: [int(path.name.split("-")[1]) for path in tmp_path.glob("1-*")])
    results.close()  # type: ignore[attr-defined]
    assert not psutil.pid_exists(pids[0])


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path: Path, signum: int) -> None:
    code = (
        "from pathlib import Path; from nethack_pipe.parallel import map_chunks; from tests.helpers import chunks\n"
        f"if __name__ == '__main__': "
        f"list(map_chunks(chunks.note_and_sleep, [(1, Path({str(tmp_path)!r}))], workers=1))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    pids = wait_for(lambda: [int(path.name.split("-")[1]) for path in tmp_path.glob("1-*")])
    parent.send_signal(signum)
    assert parent.wait(10) == -signum
    wait_for(lambda: not psutil.pid_exists(pids[0]) or psutil.Process(pids[0]).status() == psutil.STATUS_ZOMBIE)


def test_finished_chunks_are_not_computed_again(tmp_path: Path) -> None:
    marks, cache = tmp_path / "marks", tmp_path / "cache"
    marks.mkdir()
    tasks = [(number, marks) for number in (0, 2, 4)]
    assert list(map_chunks(chunks.note_and_sleep, tasks, workers=1, cache=cache)) == [0, 2, 4]
    tasks[1] = (3, marks)
    assert list(map_chunks(chunks.note_and_sleep, tasks, workers=1, cache=cache)) == [0, 3, 4]
    assert sorted(path.name.split("-")[0] for path in marks.iterdir()) == ["0", "2", "3", "4"]


def test_the_number_of_workers_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETHACK_PIPE_WORKERS", raising=False)
    assert worker_count() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("NETHACK_PIPE_WORKERS", "7")
    assert worker_count() == 7
    for bad in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("NETHACK_PIPE_WORKERS", bad)
        with pytest.raises(ParamError, match=f"NETHACK_PIPE_WORKERS: expected an integer greater than 0, got '{bad}'"):
            map_chunks(chunks.square, [1])
