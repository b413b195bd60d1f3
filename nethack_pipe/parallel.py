"""Maps chunks of work over processes, in order, and survives a process that dies.

NetHack is C code: a process may be killed by a signal. Python's own process pool then loses every chunk and cannot say
which one was at fault; here each process has its own pipe, so that the chunk is known, tried once more in another
process, and named. The processes are those of this machine or, with NETHACK_PIPE_DASK, of a cluster.
"""

import contextlib
import ctypes
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import Pipe, connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol, TypeVar

from tqdm import tqdm

from nethack_pipe.artifacts import write_bytes
from nethack_pipe.params import ParamError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

TRIES = 2  # how often a chunk may cost a process its life, the last time included
_PR_SET_PDEATHSIG = 1  # prctl(2)


class WorkerDied(Exception):
    """A chunk has killed its process twice; the message names the chunk and the signal."""


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
    """Yield ``fn(chunk)`` for each of `chunks`, in their order, computed in several processes with a progress bar.

    `fn` is importable by name and its result can be pickled; the result must not depend on which process computes it.
    `describe` names a chunk for people (its seeds). `workers` is the number of processes, `worker_count()` by default;
    also a single one is a process of its own. Where NETHACK_PIPE_DASK is set the processes are those of that cluster,
    however many they are (`nethack_pipe.cluster`). `cache` is a folder that keeps the result of each finished chunk:
    after a kill, the same call with the same `cache` computes the others only.

    A process that dies costs its chunk a second try, and is told with the chunk's name on stderr; WorkerDied if it dies
    again. An exception in `fn` is raised here, with the chunk's name and the process's traceback as a note. Raises
    ParamError for a wrong environment variable or a cluster that cannot do the work.
    """
    count = worker_count() if workers is None else workers
    return _results(fn, chunks, describe, desc, count, cache)


@dataclass(frozen=True)
class Reply:
    """What came of a chunk: the pickled result, or an exception with its traceback as text, or a death."""

    result: bytes = b""
    error: Exception | None = None
    trace: str = ""
    death: str = ""  # what died and how, for people
    final: bool = False  # whether that death is the last


class Pool(Protocol):
    """Where chunks are worked on, several at a time."""

    def has_room(self) -> bool:
        """Whether to give it another chunk now."""

    def give(self, index: int, task: bytes) -> None:
        """Begin chunk `index`; `task` is the pickled ``(fn, chunk)``."""

    def take(self) -> tuple[int, Reply]:
        """Wait for one of the chunks that were given."""

    def close(self) -> None:
        """Stop what still runs."""


class WorkerProcess:
    """A fresh process that works on one pickled ``(fn, chunk)`` after another.

    It starts in `folder` with the environment variables `variables` (by default those of this process) and imports
    from `path`, as ``sys.path`` has it.
    """

    def __init__(
        self, path: Sequence[str], folder: str | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        self.pipe, theirs = Pipe()
        code = (
            f"import sys; sys.path[:] = {list(path)!r}; "
            f"from nethack_pipe.parallel import serve; serve({theirs.fileno()}, {os.getpid()})"
        )
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=folder,
                env=variables,
            )
        # Readable once the process is dead, even if a child of its own still has its end of the pipe.
        self.pidfd = os.pidfd_open(self._process.pid)

    def give(self, task: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # it has died: `take` tells
            self.pipe.send_bytes(task)

    def take(self) -> bytes | int:
        """Wait for the pickled Reply; the exit code of a process that has died without one."""
        connection.wait([self.pipe, self.pidfd])
        try:
            if self.pipe.poll():
                return self.pipe.recv_bytes()
        except (EOFError, ConnectionError):
            connection.wait([self.pidfd], timeout=5)
        return self.end()

    def kill(self) -> None:
        """Kill the process; safe while another thread is in `take`, which then tells of it."""
        self._process.kill()

    def end(self) -> int:
        """Kill the process if it still lives; its exit code."""
        self.kill()
        code = self._process.wait()
        self.pipe.close()
        os.close(self.pidfd)
        return code


class _Processes:
    """A pool of `count` processes of this machine."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._at_work: dict[WorkerProcess, int] = {}
        self._idle: list[WorkerProcess] = []

    def has_room(self) -> bool:
        return len(self._at_work) < self._count

    def give(self, index: int, task: bytes) -> None:
        worker = self._idle.pop() if self._idle else WorkerProcess(sys.path)
        self._at_work[worker] = index
        worker.give(task)

    def take(self) -> tuple[int, Reply]:
        ready = connection.wait([handle for worker in self._at_work for handle in (worker.pipe, worker.pidfd)])
        worker = next(worker for worker in self._at_work if worker.pipe in ready or worker.pidfd in ready)
        answer = worker.take()
        index = self._at_work.pop(worker)
        if isinstance(answer, int):
            return index, Reply(death=f"a worker process died ({cause_of(answer)})")
        self._idle.append(worker)
        return index, pickle.loads(answer)

    def close(self) -> None:
        for worker in [*self._at_work, *self._idle]:
            worker.end()


def _pool(count: int) -> Pool:
    where = os.environ.get("NETHACK_PIPE_DASK", "")
    if not where:
        return _Processes(count)
    from nethack_pipe.cluster import Cluster  # imports dask.distributed

    return Cluster(where)


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
    with (
        closing(_pool(count) if left else _Processes(0)) as pool,
        tqdm(
            total=len(tasks),
            initial=len(tasks) - len(left),
            desc=desc,
            unit="chunk",
            mininterval=0.5,
            disable=not tasks,
        ) as bar,
    ):
        for due in range(len(tasks)):
            while due in left:
                while waiting and pool.has_room():
                    index = waiting.popleft()
                    pool.give(index, tasks[index])
                index, reply = pool.take()
                if reply.death:
                    deaths[index] += 1
                    _report_death(reply, describe(chunks[index]), deaths[index])
                    waiting.appendleft(index)
                    continue
                if reply.error is not None:
                    name = describe(chunks[index])
                    reply.error.add_note(f"while working on {name}, in a worker process:\n{reply.trace}")
                    raise reply.error
                path = kept[index]
                if path is None:
                    finished[index] = reply.result
                else:
                    write_bytes(path, reply.result)
                left.remove(index)
                bar.update()
            path = kept[due]
            yield pickle.loads(finished.pop(due) if path is None else path.read_bytes())


def _kept(tasks: Sequence[bytes], cache: Path | None) -> list[Path | None]:
    """Where the result of each task is kept: a name from the task itself, so that no other task ever finds it."""
    if cache is None:
        return [None] * len(tasks)
    cache.mkdir(parents=True, exist_ok=True)
    return [cache / f"{index:05d}-{hashlib.sha256(task).hexdigest()[:16]}" for index, task in enumerate(tasks)]


def cause_of(code: int) -> str:
    """What ended a process that left with exit code `code`, which is negative for a signal."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _report_death(reply: Reply, name: str, deaths: int) -> None:
    what = f"{reply.death} while working on {name}"
    if reply.final:
        raise WorkerDied(what)
    if deaths >= TRIES:
        raise WorkerDied(f"{what}, for the second time")
    tqdm.write(f"{what}; trying that once more in another process", file=sys.stderr)


def serve(descriptor: int, parent: int) -> None:
    """What a WorkerProcess does: answer each pickled ``(fn, chunk)`` that comes over the pipe, until `parent` ends it.

    `descriptor` is its end of the pipe, `parent` the id of the process that started it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole terminal; the parent ends us
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # so does its death, were it by kill -9
    if os.getppid() != parent:
        return
    pipe = Connection(descriptor)
    while True:
        try:
            task = pipe.recv_bytes()
        except EOFError:
            return
        try:
            fn, chunk = pickle.loads(task)
            reply = Reply(pickle.dumps(fn(chunk), pickle.HIGHEST_PROTOCOL))
        except Exception as error:
            reply = Reply(error=_picklable(error), trace=traceback.format_exc())
        pipe.send_bytes(pickle.dumps(reply))


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
