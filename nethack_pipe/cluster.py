"""The chunks of `parallel.map_chunks` on a cluster of machines, over dask.distributed.

NETHACK_PIPE_DASK is the address of a running scheduler (``tcp://host:8786``) or the path of its scheduler file. Each
thread of a dask worker hands its chunks to a process of its own, started like those of a single machine: in the
caller's folder, with the caller's code and variables of `nethack_pipe.portable`. The dask worker itself is no place for
NetHack, whose state belongs to the process and which forks; it has an environment of its own, and modules that it
imported before the last edit.

So the caller's folder must be one that all machines see at the same path. That, the versions of the packages and the
code are checked of all workers at the start and of those that join later.

A process that dies is told and tried again as on a single machine, at another worker if one is free. A dask worker that
is lost as a whole is dask's own affair: it gives the chunks to others, as often as
``distributed.scheduler.allowed-failures`` says (3 times), then they count as having killed it.
"""

import contextlib
import gc
import os
import pickle
import platform
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import CancelledError, Client, Future, KilledWorker, as_completed, get_worker

from nethack_pipe import artifacts, parallel, portable
from nethack_pipe.parallel import Reply, WorkerProcess, cause_of
from nethack_pipe.params import ParamError

VARIABLE = "NETHACK_PIPE_DASK"
CONNECT_TIMEOUT = 10.0  # seconds

# The code that runs in a dask worker itself, as it was imported, whatever the files say by now.
_OWN_CODE = {
    f"nethack_pipe/{path.name}": artifacts.sha256(path)[:12] for path in map(Path, (__file__, parallel.__file__))
}


@dataclass(frozen=True)
class _Run:
    """One call of map_chunks: what its processes start with, and what a machine must have for them."""

    mark: Path  # a file in `folder` that is there as long as the call lasts
    folder: Path
    variables: dict[str, str | None]  # None: not set
    versions: dict[str, str]


class Cluster:
    """A `parallel.Pool` of all threads of all workers of the dask cluster at `where`.

    Raises ParamError if it cannot be reached, has no workers, or has one whose results could differ from the caller's.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        folder = Path.cwd()
        names = sorted(portable.ALWAYS.keys() | portable.PORTABLE_MATH.keys())
        self._run = _Run(
            mark=folder / ".scratch" / f"cluster-{uuid.uuid4().hex}",
            folder=folder,
            variables={name: os.environ.get(name) for name in names},
            versions=_versions(folder),
        )
        self._client = _connect(where)
        self._at_work: dict[Future, int] = {}
        self._done = as_completed(loop=self._client.loop)
        self._killed_by: dict[int, str] = {}  # the dask worker at which a process died of that chunk
        try:
            self._run.mark.parent.mkdir(exist_ok=True)
            self._run.mark.touch()
            self._check_workers()
            self._threads = self._count_threads()
        except BaseException:
            self.close()
            raise

    def has_room(self) -> bool:
        return len(self._at_work) < self._threads

    def give(self, index: int, task: bytes) -> None:
        elsewhere: dict[str, Any] = {}
        if index in self._killed_by:
            others = [address for address in self._client.nthreads() if address != self._killed_by[index]]
            elsewhere = {"workers": others, "allow_other_workers": True} if others else {}
        future = self._client.submit(_opener(), pickle.dumps((_work, self._run, task)), pure=False, **elsewhere)
        self._at_work[future] = index
        self._done.add(future)

    def take(self) -> tuple[int, Reply]:
        future = next(self._done)
        index = self._at_work.pop(future)
        try:
            address, answer = future.result()
        except KilledWorker as error:
            lost = f"{error.allowed_failures + 1} dask workers, the last at {error.last_worker.address}, were lost"
            return index, Reply(death=lost, final=True)
        except CancelledError:
            raise ConnectionError(
                f"lost the dask scheduler at {self._where}; the next run resumes where it can"
            ) from None
        self._threads = self._count_threads()  # of workers that have come or gone
        if isinstance(answer, str):
            raise _refusal(address, answer)
        if isinstance(answer, int):
            self._killed_by[index] = address
            return index, Reply(death=f"a worker process at {address} died ({cause_of(answer)})")
        return index, pickle.loads(answer)

    def close(self) -> None:
        self._run.mark.unlink(missing_ok=True)
        if self._client.status == "running":
            with contextlib.suppress(OSError):  # the scheduler has gone, and takes its workers with it
                self._client.cancel(list(self._at_work))
                self._client.run(_end_processes, self._run.mark, on_error="ignore")
        self._client.close()

    def _count_threads(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def _check_workers(self) -> None:
        answers = self._client.run(_faults, self._run, on_error="return")
        if not answers:
            raise ParamError([f"{VARIABLE}: the scheduler at {self._where} has no workers: start at least one"])
        refused = {address: answer for address, answer in answers.items() if answer}
        if refused:
            address, answer = refused.popitem()
            if isinstance(answer, Exception):
                answer = f"{answer!r} (was it started in {self._run.folder}?)"
            also = f"; nor can {len(refused)} more of {len(answers)}" if refused else ""
            raise _refusal(address, answer + also)


def _connect(where: str) -> Client:
    try:
        if Path(where).is_file():
            return Client(scheduler_file=where, timeout=CONNECT_TIMEOUT, set_as_default=False)
        if "://" in where:
            return Client(where, timeout=CONNECT_TIMEOUT, set_as_default=False)
        cause = "there is no such file"
    except Exception as error:  # dask has no common class for all that can be wrong with an address or a file
        cause = str(error) or "it is not such a file"
    gc.collect()  # closes the client that failed: met while the next one starts, it would block that for ever
    raise ParamError(
        [
            f"{VARIABLE}: expected the address of a running dask scheduler, like tcp://host:8786, or the path of its "
            f"scheduler file, got {where!r}: {cause}"
        ]
    )


def _opener() -> Callable[[bytes], Any]:
    """Calls what is pickled. The scheduler reads the function of a task too, and need not have this repository: it can
    read this one, since cloudpickle takes inner functions whole and not by name.
    """

    def chunk(pickled: bytes) -> Any:
        function, *arguments = pickle.loads(pickled)
        return function(*arguments)

    return chunk


def _refusal(worker: str, fault: str) -> ParamError:
    return ParamError([f"{VARIABLE}: the worker {worker} cannot be used: {fault}"])


def _versions(folder: Path) -> dict[str, str]:
    """What must be the same at the caller and at a worker whose processes start in `folder`."""
    inside = folder / "nethack_pipe"
    package = inside if inside.is_dir() else Path(__file__).parent
    sources = {path.relative_to(package).as_posix(): artifacts.sha256(path) for path in package.rglob("*.py")}
    platforms = {"Python": ".".join(platform.python_version_tuple()[:2]), "processor": platform.machine()}
    return artifacts.versions() | platforms | _OWN_CODE | {"nethack_pipe": artifacts.digest(sources)[:12]}


# -- In a dask worker --------------------------------------------------------------------------------------------------

# The process of each thread, with the mark of the run that it belongs to: while it has a chunk, and between two.
_busy: dict[int, tuple[Path, WorkerProcess]] = {}
_idle: dict[int, tuple[Path, WorkerProcess]] = {}


def _faults(run: _Run) -> str:
    """Why results of this machine could differ from the caller's; nothing if they cannot."""
    if not run.mark.exists():
        return f"it does not see {run.folder} as the caller does; all machines must share that folder"
    here = _versions(run.folder)
    different = [
        f"{name} is {here.get(name, 'missing')} there, {version} here"
        for name, version in run.versions.items()
        if here.get(name) != version
    ]
    return "; ".join(different)


def _work(run: _Run, task: bytes) -> tuple[str, bytes | int | str]:
    """The address of this dask worker, and the pickled Reply, or the exit code of a process that died, or `_faults`."""
    thread, address = threading.get_ident(), get_worker().address
    mark, process = _idle.pop(thread, (None, None))
    if process is not None and mark != run.mark:  # of a run that was killed before it could end its processes
        process.end()
        process = None
    if process is None:
        if fault := _faults(run):
            return address, fault
        process = _start(run)
    _busy[thread] = run.mark, process
    process.give(task)
    answer = process.take()
    del _busy[thread]
    if isinstance(answer, bytes):
        _idle[thread] = run.mark, process
    return address, answer


def _start(run: _Run) -> WorkerProcess:
    folder = str(run.folder)
    own = {name: value for name, value in os.environ.items() if name not in run.variables}
    of_caller = {name: value for name, value in run.variables.items() if value is not None}
    return WorkerProcess([folder, *sys.path], folder, own | of_caller)


def _end_processes(mark: Path) -> None:
    """End all processes of the run of `mark`."""
    for owner, process in list(_busy.values()):
        if owner == mark:
            process.kill()  # its thread waits for it
    for thread in [thread for thread, (owner, _) in list(_idle.items()) if owner == mark]:
        _, process = _idle.pop(thread)
        process.end()
