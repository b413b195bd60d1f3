"""The guarded fork: a branch in a copy of the process, and the ways in which that could go wrong."""

import os
import signal
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from nethack_pipe.game import fork
from nethack_pipe.game.actions import ACTIONS
from nethack_pipe.game.game import BranchError, Game, replay
from tests.helpers.games import digest, files, give_up, go_to_level, on_level_two, way_back

MOVES = ACTIONS[:4]


@pytest.fixture(autouse=True)
def by_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETHACK_PIPE_BRANCHING", "fork")


def data_file_offsets() -> list[int]:
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    return [
        os.lseek(descriptor, 0, os.SEEK_CUR)
        for descriptor in sorted(descriptors)
        if os.path.exists(f"/proc/self/fd/{descriptor}")
        and os.readlink(f"/proc/self/fd/{descriptor}").endswith("/nhdat")
    ]


def test_trap_1_a_child_that_ends_does_not_take_the_level_files_with_it() -> None:
    with on_level_two(1) as game:
        expected = way_back(game)
    with on_level_two(1) as game:
        kept = files(game)
        assert any(name.endswith(".1") for name in kept)
        assert game.branch(lambda game: give_up(game).done)
        assert files(game) == kept
        assert way_back(game) == expected


def test_trap_3_parent_and_child_do_not_share_the_position_in_the_data_file() -> None:
    def read_further(game: Game) -> list[int]:
        for level in (5, 8, 20):
            go_to_level(game, level)
        return data_file_offsets()

    with on_level_two(2) as game:
        before = data_file_offsets()
        assert before
        assert game.branch(read_further) != before
        assert data_file_offsets() == before


def test_trap_4_no_finalizer_runs_in_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Let every child come to its own end, which may be after its parent has the answer.
    monkeypatch.setattr(fork.os, "kill", lambda pid, signal: None)

    class Owner:
        pass

    owner = Owner()
    mark = tmp_path / "finalized"
    finalizer = weakref.finalize(owner, mark.touch)
    with on_level_two(3) as game:
        folder = Path(game._nethack._vardir)
        game.branch(lambda game: None)
        with pytest.raises(SystemExit):
            game.branch(lambda game: sys.exit(3))
        assert folder.is_dir()
        assert not mark.exists()
        assert go_to_level(game, 1).observation["blstats"][12] == 1
    finalizer.detach()


def test_what_goes_wrong_in_a_branch_is_told() -> None:
    class Odd(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")

    def fail(error: Exception) -> None:
        raise error

    with Game() as game:
        game.reset(11)
        game.step("search")
        with pytest.raises(KeyError, match="no such thing"):
            game.branch(lambda game: fail(KeyError("no such thing")))
        with pytest.raises(RuntimeError, match="Odd: 1 and 2"):
            game.branch(lambda game: fail(Odd(1, 2)))
        with pytest.raises((AttributeError, TypeError), match="pickle"):
            game.branch(lambda game: lambda: None)
        with pytest.raises(BranchError, match="game 11 at step 1 .*SIGKILL") as caught:
            game.branch(lambda game: os.kill(os.getpid(), signal.SIGKILL))
        assert (caught.value.seed, caught.value.step) == (11, 1)
        with pytest.raises(BranchError, match="game 11 at step 1 .*exit status 234"):
            game.branch(lambda game: os._exit(234))
        assert digest(game.step("search")) == digest(replay(11, ["search", "search"]).last)


def test_a_branch_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork, "TIMEOUT", 0.3)
    with Game() as game:
        game.reset(12)
        begun = time.monotonic()
        with pytest.raises(BranchError, match="game 12 at step 0 .*no answer within 0.3 seconds"):
            game.branch(lambda game: time.sleep(30))
        assert time.monotonic() - begun < 5
        monkeypatch.undo()
        assert not game.branch(lambda game: game.step("search").done)


def test_no_child_and_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    children = []

    def counted_fork(fork: Callable[[], int] = os.fork) -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(fork.os, "fork", counted_fork)
    with Game() as game:
        game.reset(1)
        game.probe(MOVES)
        descriptors = os.listdir("/proc/self/fd")
        game.probe(MOVES)
        with pytest.raises(BranchError):
            game.branch(lambda game: os._exit(1))
        assert os.listdir("/proc/self/fd") == descriptors
    assert len(children) == 9
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
