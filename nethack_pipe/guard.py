"""Keeps two runs from writing the same files, and a run from going on when the DVC that started it is gone."""

import contextlib
import fcntl
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

LOCK_PATIENCE = 5.0  # seconds that a new run waits for one that is just ending
ORPHAN_PATIENCE = 60.0  # seconds that a run whose DVC is gone has to save its state


class Locked(Exception):
    """Another process holds the lock; the message names it."""


@contextlib.contextmanager
def lock(path: Path, who: str, what: str, patience: float = LOCK_PATIENCE) -> Iterator[None]:
    """Hold the lock file `path` as long as the context lasts.

    Raises Locked, with `who` and `what` in the message, if another process still has it after `patience` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + patience
    while (file := _try_lock(path)) is None:
        if time.monotonic() >= end:
            pid = path.read_text().strip() if path.exists() else "unknown"
            raise Locked(f"{who}, pid {pid}, is writing {what}: wait for it, or stop it with `kill {pid}`")
        time.sleep(0.1)
    with file:
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _try_lock(path: Path) -> IO[str] | None:
    """The locked file, or None if it is held. A POSIX lock: children that a fork leaves behind do not hold it."""
    file = path.open("a+")
    with contextlib.suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(path.stat(), os.fstat(file.fileno())):  # not if the holder before us has just removed it
            file.truncate(0)
            return file
    file.close()
    return None


def take_signals() -> None:
    """Let Ctrl-C raise KeyboardInterrupt and SIGTERM or a closed terminal SystemExit, so that main() can save.

    DVC may have started us with SIGINT ignored; nohup has with SIGHUP, which then stays so.
    """
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _terminate)


def ignore_signals() -> None:
    """For the moments in which stopping half-way would do harm."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    _ignore_termination()
    raise KeyboardInterrupt


def _terminate(signum: int, frame: FrameType | None) -> None:
    _ignore_termination()
    raise SystemExit(128 + signum)


def _ignore_termination() -> None:
    """The first signal leaves main() through its finally clauses. The next would only disturb its saving: DVC ends at a
    Ctrl-C too, which `watch_dvc` answers with SIGTERM. A second Ctrl-C is somebody who insists."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def watch_dvc() -> None:
    """Stop this process when the DVC that started it is gone (kill -9): nobody would record what it makes."""
    stage = os.environ.get("DVC_STAGE")
    if not stage:
        return
    for process in psutil.Process().parents():
        # A shell between DVC and us has DVC_STAGE in its environment too; DVC itself has not.
        with contextlib.suppress(psutil.AccessDenied):
            if process.environ().get("DVC_STAGE") == stage:
                continue
        with contextlib.suppress(ProcessLookupError):
            threading.Thread(target=_stop_after, args=(os.pidfd_open(process.pid),), daemon=True).start()
        return


def _stop_after(pidfd: int) -> None:
    """When the process of `pidfd` has ended, end this one: politely, after ORPHAN_PATIENCE with all its children."""
    select.select([pidfd], [], [])
    os.kill(os.getpid(), signal.SIGTERM)
    with contextlib.suppress(OSError):  # who reads this may be gone as well
        print("the dvc process that started this stage is gone: stopping", file=sys.stderr)
    time.sleep(ORPHAN_PATIENCE)
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os.kill(os.getpid(), signal.SIGKILL)
