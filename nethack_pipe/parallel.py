"""Maps chunks of work over processes, in order, and survives a worker that dies.

NetHack is C code: a worker may be killed by a signal. Python's own process pool then loses every chunk and cannot say
which one was at fault; here each worker has its own pipe, so that the chunk is known, tried once more in a fresh
process, and named.
"""

import contextlib
import ctypes
import hashlib
import os
import pickle
import signal
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from nethack_pipe.artifacts import write_bytes
from nethack_pipe.params import ParamError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

TRIES = 2  # how often a chunk may cost a worker its life, the last time included
_PR_SET_PDEATHSIG = 1  # prctl(2)


class WorkerDied(Exception):
    """A chunk has killed its worker process twice; the message names the chunk and the signal."""


def worker_count() -> int:
    """NETHACK_PIPE_WORKERS, by default the cores this process may use. Raises ParamError if it is no number above 0."""
    text = os.environ.get("NETHACK_PIPE_WORKERS", "")
    if not text:
        return len(os.sched_getaffinity(0))
    if not text.isdecimal() or int(text) == 0:
        raise ParamError([f"NETHACK_PIPE_WORKERS: expected an integer greater than 0, got {text!r}"])
    return int(text)


def map_chunks(
    fn: Callable[[Chunk], Result],
    chunks: Sequence[Chunk],
    *,
    describe: Callable[[Chunk], str] = str,
    desc: str = "",
    workers: int | None = None,
    cache: Path | None = None,
) -> Iterator[Result]:
    """Yield ``fn(chunk)`` for each of `chunks`, in their order, computed in `workers` processes with a progress bar.

    `fn` is importable by name and its result can be pickled; the result must not depend on which process computes it.
    `describe` names a chunk for people (its seeds). `workers` is `worker_count()` by default; also a single one is a
    process of its own. `cache` is a folder that keeps the result of each finished chunk: after a kill, the same call
    with the same `cache` computes the others only.

    A worker that dies costs its chunk a second try, and is told with the chunk's name on stderr; WorkerDied if it dies
    again. An exception in `fn` is raised here, with the chunk's name and the worker's traceback as a note.
    """
    count = worker_count() if workers is None else workers
    return _results(fn, chunks, describe, desc, count, cache)


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    pidfd: int  # readable once the process is dead, even if a child of its own still has its end of the pipe
    chunk: int

    def give(self, task: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # it has died: pidfd tells
            self.pipe.send_bytes(task)

    def end(self, patience: float = 0) -> int:
        """Kill the process if it still lives after `patience` seconds; its exit code."""
        connection.wait([self.pidfd], patience)
        self.process.kill()
        self.process.join()
        code = self.process.exitcode
        self.process.close()
        self.pipe.close()
        os.close(self.pidfd)
        return code or 0


def _results(
    fn: Callable[[Chunk], Result],
    chunks: Sequence[Chunk],
    describe: Callable[[Chunk], str],
    desc: str,
    count: int,
    cache: Path | None,
) -> Iterator[Result]:
    tasks = [pickle.dumps((fn, chunk)) for chunk in chunks]
    kept = _kept(tasks, cache)
    waiting = deque(index for index, path in enumerate(kept) if path is None or not path.exists())
    finished: dict[int, bytes] = {}  # results that are not in `cache` and not yet due
    left = set(waiting)
    deaths: Counter[int] = Counter()
    workers: list[_Worker] = []
    with tqdm(
        total=len(tasks), initial=len(tasks) - len(left), desc=desc, unit="chunk", mininterval=0.5, disable=not tasks
    ) as bar:
        try:
            for due in range(len(tasks)):
                while due in left:
                    while waiting and len(workers) < count:
                        workers.append(_start(tasks, waiting.popleft()))
                    worker = _first_ready(workers)
                    index = worker.chunk
                    reply = _receive(worker)
                    if reply is None:
                        workers.remove(worker)
                        deaths[index] += 1
                        _report_death(worker.end(patience=5), describe(chunks[index]), deaths[index])
                        waiting.appendleft(index)
                        continue
                    result, error = reply
                    if error is not None:
                        error.add_note(f"while working on {describe(chunks[index])}, in a worker process:\n{result!s}")
                        raise error
                    if waiting:
                        worker.chunk = waiting.popleft()
                        worker.give(tasks[worker.chunk])
                    else:
                        workers.remove(worker)
                        worker.end()
                    path = kept[index]
                    if path is None:
                        finished[index] = result
                    else:
                        write_bytes(path, result)
                    left.remove(index)
                    bar.update()
                path = kept[due]
                yield pickle.loads(finished.pop(due) if path is None else path.read_bytes())
        finally:
            for worker in workers:
                worker.end()


def _kept(tasks: Sequence[bytes], cache: Path | None) -> list[Path | None]:
    """Where the result of each task is kept: a name from the task itself, so that no other task ever finds it."""
    if cache is None:
        return [None] * len(tasks)
    cache.mkdir(parents=True, exist_ok=True)
    return [cache / f"{index:05d}-{hashlib.sha256(task).hexdigest()[:16]}" for index, task in enumerate(tasks)]


def _start(tasks: Sequence[bytes], index: int) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
    process.start()
    theirs.close()
    assert process.pid is not None
    worker = _Worker(process, ours, os.pidfd_open(process.pid), index)
    worker.give(tasks[index])
    return worker


def _first_ready(workers: Sequence[_Worker]) -> _Worker:
    """Wait for a worker that has replied or died."""
    ready = connection.wait([handle for worker in workers for handle in (worker.pipe, worker.pidfd)])
    return next(worker for worker in workers if worker.pipe in ready or worker.pidfd in ready)


def _receive(worker: _Worker) -> tuple[Any, Exception | None] | None:
    """(pickled result, None) or (traceback, exception); None if the worker died without a reply."""
    try:
        return worker.pipe.recv() if worker.pipe.poll() else None
    except (EOFError, ConnectionError):
        return None


def _report_death(code: int, name: str, deaths: int) -> None:
    cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    what = f"a worker process died ({cause}) while working on {name}"
    if deaths >= TRIES:
        raise WorkerDied(f"{what}, for the second time")
    tqdm.write(f"{what}; trying that once more in a fresh process", file=sys.stderr)


def _serve(pipe: Connection, parent: int) -> None:
    """What a worker process does: answer each pickled ``(fn, chunk)``, until its parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole terminal; the parent ends us
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # so does its death, were it by kill -9
    if os.getppid() != parent:
        return
    while True:
        try:
            fn, chunk = pickle.loads(pipe.recv_bytes())
            reply: tuple[Any, Exception | None] = (pickle.dumps(fn(chunk), pickle.HIGHEST_PROTOCOL), None)
        except EOFError:
            return
        except Exception as error:
            reply = (traceback.format_exc(), _picklable(error))
        pipe.send(reply)


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
