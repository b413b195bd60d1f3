"""Playing and comparing games in tests."""

import ctypes
import hashlib
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game, Step, _text
from nethack_pipe.tasks.playthrough import Playthrough

WIZARD_KEYS = (
    "glyphs",
    "chars",
    "colors",
    "blstats",
    "message",
    "inv_strs",
    "inv_letters",
    "inv_oclasses",
    "tty_chars",
)


def digest(step: Step) -> str:
    """A hash of everything in a step."""
    sha = hashlib.sha256()
    for key in sorted(step.observation):
        array = step.observation[key]
        sha.update(f"{key}{array.shape}{array.dtype}".encode())
        sha.update(array.tobytes())
    sha.update(repr((step.text, step.took_time, step.done, int(step.end_status), step.score)).encode())
    return sha.hexdigest()


def random_actions(seed: int, count: int, names: Sequence[str] = ACTION_SETS["compass"]) -> list[str]:
    return random.Random(seed).choices(names, k=count)


def replayed(game: Game, seed: int, actions: Sequence[str], names: Sequence[str]) -> Playthrough:
    """The game of `seed` after `actions`, played with the action set `names`."""
    playthrough = Playthrough(game, names)
    playthrough.reset(seed)
    for action in actions:
        playthrough.step(action)
    return playthrough


def play(
    game: Game, seed: int, actions: Sequence[str], before_step: Callable[[Game], object] = lambda game: None
) -> list[str]:
    """The digests of reset and of every step, to the end of the actions or of the game."""
    digests = [digest(game.reset(seed))]
    for action in actions:
        if game.last.done:
            break
        before_step(game)
        digests.append(digest(game.step(action)))
    return digests


def press(game: Game, keys: str) -> Step:
    """Type raw keys that no action gives (wizard mode's commands), then leave every prompt."""
    for key in keys:
        game._press(ord(key))
    texts = [_text(game._message)]
    game._answer_prompts("", None, texts)
    return game._end(texts) if game._is_done() else game._finish(texts, took_time=True)


def go_to_level(game: Game, level: int) -> Step:
    """Teleport to a level of the main dungeon. The game must be in wizard mode."""
    return press(game, f"\x16{level}\r")


def give_up(game: Game) -> Step:
    """Quit the game by NetHack's own command."""
    step = press(game, "\xf1y")
    assert step.done and game.how == "QUIT"
    return step


def monsters(game: Game) -> list[tuple[int, int]]:
    """Place and kind of every monster on the level, whether the hero sees it or not."""
    pointers = game._internals._monsters  # type: ignore[union-attr]
    return [(i, ctypes.c_short.from_address(pointers[i] + 20).value) for i in range(len(pointers)) if pointers[i]]


def tour(game: Game, seed: int, levels: Sequence[int], steps: int = 15) -> list[str]:
    """Visit levels in wizard mode, `steps` random actions on each; the digests of all steps and inhabitants."""
    digests = [digest(game.reset(seed))]
    for i, level in enumerate(levels):
        digests.append(digest(go_to_level(game, level)))
        digests.append(repr(monsters(game)))
        for action in random_actions(1000 * seed + i, steps):
            if game.last.done:
                return digests
            digests.append(digest(game.step(action)))
    return digests


def play_on(game: Game, actions: list[str]) -> list[str]:
    digests = []
    for action in actions:
        if game.last.done:
            break
        digests.append(digest(game.step(action)))
    return digests


def on_level_two(seed: int) -> Game:
    """A wizard's game that has left level 1, whose file is now in the game's folder."""
    game = Game(WIZARD_KEYS, wizard=True)
    game.reset(seed)
    go_to_level(game, 2)
    return game


def way_back(game: Game) -> list[str]:
    return [digest(go_to_level(game, 1)), *play_on(game, ["search", "north", "east", "kick", "search"])]


def files(game: Game) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(game._nethack._vardir).iterdir() if path.is_file()}
