"""Run a function on a copy of this process, guarded against the ways in which a plain fork goes wrong with NetHack.

1. A child that dies, quits or changes level deletes or overwrites the level files that its parent needs: the caller
   puts them back (`playground.Playground`) while no child is alive.
2. Parent and child share the read position of NetHack's open data file: the child opens its own.
3. A child that ends in the normal way runs the parent's finalizers and removes its game folder: it ends by
   ``os._exit``.
4. A child may crash, exit inside C code or hang: the parent gets a `ChildDied` that says so.
"""

import gc
import os
import pickle
import select
import signal
import struct
import time
import traceback
from collections.abc import Callable
from typing import NoReturn, TypeVar

T = TypeVar("T")

# How long one child may take, in seconds of real time. A hang, not a long continuation, is what this should catch.
TIMEOUT = 60.0

_LENGTH = struct.Struct("<Q")
_depth = 0  # how many forks lie between this process and the one that began
_deadline = float("inf")  # when this process itself will be killed by its parent, by time.monotonic()


class ChildDied(Exception):
    """The child ended without an answer; the text says how."""


def depth() -> int:
    """0 in the process that began, 1 in its children, and so on."""
    return _depth


def run(work: Callable[[], T], data_file: str) -> T:
    """What `work()` returns when it runs in a copy of this process; its exceptions are raised here.

    `data_file` is the real path of the file whose descriptors must not be shared. ChildDied when there is no answer.
    """
    read_end, write_end = os.pipe()
    # A nested child is given up first, so that the error names the one that hangs.
    deadline = min(time.monotonic() + TIMEOUT, _deadline - 1.0)
    pid = os.fork()
    if pid == 0:
        _be_the_child(work, write_end, data_file, deadline)
    os.close(write_end)
    status = None
    try:
        answer = _read_answer(read_end, deadline)
        if answer is None:
            _, status = os.waitpid(pid, 0)
            raise ChildDied(_how_it_ended(status))
    finally:
        os.close(read_end)
        if status is None:
            # It is about to leave by itself, or hangs, or we were interrupted: in no case is it needed any more.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    succeeded, value = pickle.loads(answer)
    if succeeded:
        return value
    raise value


def _be_the_child(work: Callable[[], object], write_end: int, data_file: str, deadline: float) -> NoReturn:
    global _depth, _deadline
    try:
        gc.disable()  # a collection would touch, and so copy, every page that holds objects
        _depth += 1
        _deadline = deadline
        _open_own(data_file)
        try:
            answer = pickle.dumps((True, work()), protocol=pickle.HIGHEST_PROTOCOL)
        except BaseException as error:  # also SystemExit and KeyboardInterrupt: they belong to the caller
            answer = _pickled_error(error)
        rest = memoryview(_LENGTH.pack(len(answer)) + answer)
        while rest:
            rest = rest[os.write(write_end, rest) :]
    finally:
        os._exit(0)


def _open_own(path: str) -> None:
    """Give every descriptor of `path` in this process a file position of its own, at the same place."""
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        try:
            if os.readlink(f"/proc/self/fd/{name}") != path:
                continue
        except FileNotFoundError:  # the descriptor of the listing itself
            continue
        own = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.lseek(own, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(own, descriptor, inheritable=False)
        os.close(own)


def _pickled_error(error: BaseException) -> bytes:
    error.add_note("in a branch:\n" + "".join(traceback.format_exception(error)))
    try:
        answer = pickle.dumps((False, error), protocol=pickle.HIGHEST_PROTOCOL)
        pickle.loads(answer)
        return answer
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            plain.add_note(note)
        return pickle.dumps((False, plain), protocol=pickle.HIGHEST_PROTOCOL)


def _read_answer(read_end: int, deadline: float) -> bytes | None:
    """The child's whole answer; None when it ended before that. ChildDied when the deadline passes."""
    chunks = bytearray()
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    length = None
    # The length tells the end: another child of this process may hold the pipe open as well.
    while length is None or len(chunks) < _LENGTH.size + length:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise ChildDied(f"it gave no answer within {TIMEOUT:g} seconds and was stopped")
        chunk = os.read(read_end, 1 << 20)
        if not chunk:
            return None
        chunks += chunk
        if length is None and len(chunks) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(chunks)
    return bytes(chunks[_LENGTH.size :])


def _how_it_ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"the process was killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"the process left without an answer (exit status {os.WEXITSTATUS(status)})"
