"""Work for the processes of `map_chunks`: their functions must be importable."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from nethack_pipe import portable

Found = TypeVar("Found")


def wait_for(what: Callable[[], Found]) -> Found:
    """What `what()` returns as soon as that is something."""
    end = time.monotonic() + 15
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def seeds(task: tuple[int, Path]) -> str:
    """Describes a chunk that is a number and a folder."""
    return f"seed {task[0]}"


def square(number: int) -> int:
    return number * number


def whose(number: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def die_once(task: tuple[int, Path]) -> int:
    """Chunk 3 kills its process the first time, while the others are at work; notes its parent."""
    number, folder = task
    (folder / f"{number}-{os.getpid()}").write_text(str(os.getppid()))
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


def linger_once(task: tuple[int, Path]) -> int:
    """Chunk 1 takes for ever, the first time."""
    number, folder = task
    (folder / f"{number}-{os.getpid()}").touch()
    time.sleep(60 if number == 1 and len(list(folder.glob("1-*"))) == 1 else 0)
    return number * 10


def kill_parent(number: int) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def surroundings(number: int) -> tuple[str, dict[str, str | None]]:
    """Where the process is, and the environment variables of `nethack_pipe.portable`."""
    return os.getcwd(), {name: os.environ.get(name) for name in sorted(portable.ALWAYS | portable.PORTABLE_MATH)}


def play(game: int) -> Any:
    """The transitions (an Arrow table) of a short game of a policy that branches it before each step."""
    from nethack_pipe.rollouts.collect import assign, collect
    from nethack_pipe.tasks.rewards import RewardWeights

    assignment = assign(3, "train", game + 1, {"task_greedy": 1.0}, "explore")[game]
    return collect(([assignment], 8, RewardWeights()))
