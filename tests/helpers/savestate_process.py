"""Processes for the tests of savestates."""

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nle import nethack

from nethack_pipe.game.game import Game
from nethack_pipe.game.savestate import library
from nethack_pipe.game.savestate.saver import SaveError
from tests.helpers.games import digest, go_to_level, play_on, press, random_actions, tour
from tests.helpers.key_games import Plan, replayed

ROOT = Path(__file__).resolve().parents[2]
ALL_KEYS = tuple(nethack.OBSERVATION_DESC)


class Process:
    """One of COMMANDS with its arguments, in a process of its own, after the Python statements `first`."""

    def __init__(self, command: str, *arguments: str, first: str = "", **environment: str) -> None:
        code = f"{first}\nfrom tests.helpers.savestate_process import main; main()"
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - a pipe may fill up before it is read
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, command, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def answer(self) -> Any:
        """The JSON that it prints."""
        out, _ = self._process.communicate(timeout=1200)
        assert self._process.returncode == 0, f"it ended with {self._process.returncode}: {self._said()}"
        return json.loads(out)

    def wait(self) -> int:
        self._process.communicate(timeout=60)
        return self._process.returncode

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-3000:]


def plans(chosen: list[Plan]) -> str:
    return json.dumps([dataclasses.asdict(plan) for plan in chosen])


def replays(plans: str) -> dict[str, tuple[str, list[str]]]:
    """What `replayed` gives for each plan, in a process that has never loaded the patched library."""
    result = {str(plan): replayed(plan) for plan in (Plan(**fields) for fields in json.loads(plans))}
    assert "savestate-" not in Path("/proc/self/maps").read_text()
    return result


def branches_and_probes(game: Game, seed: int) -> list[str]:
    """Digests of a game's steps, of its branches and of what its actions would do."""
    digests = [digest(game.reset(seed))]
    for number in range(3):
        digests += play_on(game, random_actions(seed + number, 8))
        digests += game.branch(lambda game, number=number: play_on(game, random_actions(number, 12)))  # type: ignore[misc]
        digests += [digest(step) for step in game.probe(["north", "east", "search", "kick", "drop"])]
    return digests


def fall_back() -> dict[str, object]:
    """A game made with no word of how it is to be branched."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        with Game(ALL_KEYS) as game, Game(ALL_KEYS):
            digests = branches_and_probes(game, 21)
    return {"digests": digests, "warnings": [str(warning.message) for warning in caught]}


def crowd(game: Game) -> str:
    """Gnomes that need some 50 kB of memory."""
    return digest(press(game, "\x07gnome\r" * 200))


def crowded(game: Game, note: Callable[[Game], object]) -> list[str]:
    """Digests of a game in which two branches and then the game itself need much memory; the game may note how it is
    before and after."""
    digests = [digest(game.reset(1))]
    note(game)
    for size in (1, 2):
        digests.append(game.branch(lambda game, size=size: [crowd(game) for _ in range(size)][-1]))  # type: ignore[misc]
        digests += play_on(game, ["search"])
        note(game)
    digests.append(crowd(game))
    note(game)
    for number in range(3):
        digests += game.branch(lambda game, number=number: play_on(game, random_actions(number, 5)))  # type: ignore[misc]
    digests.append(game.branch(lambda game: game.branch(lambda game: digest(go_to_level(game, 2)))))
    digests += [digest(step) for step in game.probe(["north", "search"])]
    digests += [digest(go_to_level(game, level)) for level in (2, 1)]
    digests += [digest(game.reset(2)), game.branch(lambda game: digest(game.step("search")))]
    note(game)
    return digests


def small_arena() -> dict[str, object]:
    """`crowded` in an arena that just about holds a new game."""
    library.ARENA_BYTES = next(size for size in range(128 << 10, 1 << 20, 16 << 10) if _is_enough(size)) + (8 << 10)
    can_be_saved = []
    with warnings.catch_warnings(record=True) as caught, Game(ALL_KEYS, wizard=True, branching="savestate") as game:
        warnings.simplefilter("default")
        digests = crowded(game, lambda game: can_be_saved.append(_can_be_saved(game)))
        # From a game that cannot be saved there is a way back to one that can.
        state = game.save()
        digests.append(crowd(game))
        can_be_saved.append(_can_be_saved(game))
        game.load(state)
        can_be_saved.append(_can_be_saved(game))
        digests.append(digest(game.step("search")))
    return {
        "digests": digests,
        "can be saved": can_be_saved,
        "warnings": [(str(warning.message), warning.category.__name__) for warning in caught],
    }


def tiny_arena() -> dict[str, object]:
    """A game that cannot be saved from its beginning on."""
    library.ARENA_BYTES = 64 << 10
    with warnings.catch_warnings(record=True), Game(ALL_KEYS, wizard=True, branching="savestate") as game:
        digests = crowded(game, lambda game: None)
        return {"digests": digests, "can be saved": _can_be_saved(game)}


def _is_enough(size: int) -> bool:
    child = os.fork()
    if child == 0:
        try:
            library.ARENA_BYTES = size
            with Game(ALL_KEYS, wizard=True, branching="savestate") as game:
                game.reset(1)
                os._exit(0 if _can_be_saved(game) else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _can_be_saved(game: Game) -> bool:
    try:
        game.save()
    except SaveError as error:
        assert "more memory than the arena has" in str(error)
        return False
    return True


def be_killed() -> None:
    """A game that has been on three levels is killed in a branch."""
    game = Game(wizard=True, branching="savestate")
    tour(game, 1, (3, 2, 1), steps=3)

    def die(game: Game) -> None:
        go_to_level(game, 4)
        os.kill(os.getpid(), signal.SIGKILL)

    game.branch(die)


def no_address_space() -> dict[str, object]:
    """Games in a process that may not have 64 MiB more."""
    library.hooks()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGESIZE") + (48 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with warnings.catch_warnings(record=True) as caught, Game(ALL_KEYS, branching="savestate") as game:
        digests = branches_and_probes(game, 21)
    return {"digests": digests, "warnings": [str(warning.message) for warning in caught]}


def lost_library() -> list[str]:
    """A game that begins again after the patched library was deleted."""
    with Game(ALL_KEYS, branching="savestate") as game:
        game.reset(1)
        library.hooks().patched.unlink()
        return branches_and_probes(game, 21)


COMMANDS: Mapping[str, Callable] = {
    "replays": replays,
    "fall_back": fall_back,
    "small_arena": small_arena,
    "tiny_arena": tiny_arena,
    "be_killed": be_killed,
    "no_address_space": no_address_space,
    "lost_library": lost_library,
}


def main() -> None:
    print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
