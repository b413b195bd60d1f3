"""Work for the processes of tests/test_parallel.py: a function of a spawned process must be importable."""

import os
import signal
import time
from pathlib import Path


def square(number: int) -> int:
    return number * number


def whose(number: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def die_once(task: tuple[int, Path]) -> int:
    """Chunk 3 kills its process the first time, while the others are at work."""
    number, folder = task
    (folder / f"{number}-{os.getpid()}").touch()
    if number == 3 and len(list(folder.glob("3-*"))) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
    return number * 10


def always_die_at_3(task: tuple[int, Path]) -> int:
    number, folder = task
    (folder / f"{number}-{os.getpid()}").touch()
    if number == 3:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGSEGV)
    return number * 10


class Odd(Exception):
    """An exception that cannot be pickled back."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"odd {a} {b}")


def fail(number: int) -> int:
    if number == 2:
        raise KeyError("no such thing")
    if number == 5:
        raise Odd(5, 5)
    return number


def leave(number: int) -> int:
    raise SystemExit(7)


def note_and_sleep(task: tuple[int, Path]) -> int:
    number, folder = task
    (folder / f"{number}-{os.getpid()}").touch()
    time.sleep(60 if number == 1 else 0)
    return number


def die_with_child(task: tuple[int, Path]) -> int:
    """Dies the first time and leaves a forked child behind that holds all its pipes."""
    number, folder = task
    if not list(folder.iterdir()):
        child = os.fork()
        if child == 0:
            time.sleep(20)
            os._exit(0)
        (folder / str(child)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number
