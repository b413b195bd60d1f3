"""NetHack as an exact, repeatable, branchable simulator: one game, whole commands in, arrays out.

The same seed and actions give the same observations in every process, on every day, in every time zone and whatever
was played before. They do not on another kind of processor: NLE's x86-64 and aarch64 builds play different games from
the same seed, from the first observation on.
"""

import functools
import os
import pickle
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import IntEnum
from types import TracebackType
from typing import Literal, Self, TypeVar

import numpy as np
from nle import nethack

from nethack_pipe.game import fork, tables
from nethack_pipe.game.actions import ACTIONS, ITEM_COMMANDS, KEYS, TARGETED, name_of, targets
from nethack_pipe.game.internals import Internals
from nethack_pipe.game.playground import Playground
from nethack_pipe.game.savestate.library import View, hooks
from nethack_pipe.game.savestate.saver import AWAITS_COMMAND, SaveError, Saver, SaveState, available
from nethack_pipe.game.tables import BL

T = TypeVar("T")

# Reading these costs next to nothing. inv_strs and tty_chars add a third to the time of a key, screen_descriptions add
# four fifths.
DEFAULT_KEYS: tuple[str, ...] = (
    *("glyphs", "chars", "colors", "blstats", "message"),
    *("inv_glyphs", "inv_letters", "inv_oclasses"),
)
RANDOM_HERO = "@"  # a character: role, race, alignment and gender drawn with the game

_NEEDED_KEYS = ("glyphs", "blstats", "message", "inv_letters", "inv_oclasses", "program_state", "internal")
# What we add: name -> (shape, dtype).
_OWN_KEYS: dict[str, tuple[tuple[int, ...], type]] = {
    "peaceful": (tables.MAP_SHAPE, np.bool_),
    "inv_worn": ((tables.INVENTORY_SIZE,), np.bool_),
}

# program_state and internal, by index.
_GAMEOVER, _IN_MOVELOOP = 0, 3
_ASKS_CHOICE, _WAITS = 1, 3

_ESC, _SPACE = 27, 32
_SELECT_ALL = ord(".")
_MAX_PROMPTS = 2000  # after one command; a long disclosure at the end of a game has some tens

_SIMPLE_KEYS = {name: key for name, key in KEYS.items() if name not in TARGETED}
_BY_INDEX = dict(enumerate(ACTIONS))
# Monster glyphs from 0: normal ones, pets, the "I" of unseen ones, detected ones; then comes something else.
_FIRST_PET, _FIRST_DETECTED = tables.PET_OFF, tables.DETECT_OFF
_FIRST_NO_MONSTER = np.array(tables.BODY_OFF, dtype=np.int16)
_COLUMNS = tables.MAP_SHAPE[1]
_X, _Y, _HP, _SCORE = int(BL.X), int(BL.Y), int(BL.HP), int(BL.SCORE)
_HALLUCINATING = tables.CONDITIONS["hallu"]


class EndStatus(IntEnum):
    """How a game stands; NLE's values. DEATH stands for every game that NetHack ended, see `Game.how`."""

    RUNNING = 0
    DEATH = 1
    ABORTED = -1


_RUNNING = EndStatus.RUNNING


class BranchError(Exception):
    """A branch ended without a result. `seed` and `step` (actions since reset) say which game, at which moment."""

    def __init__(self, seed: int, step: int, why: str) -> None:
        super().__init__(seed, step, why)
        self.seed, self.step, self.why = seed, step, why

    def __str__(self) -> str:
        return f"the branch of game {self.seed} at step {self.step} failed: {self.why}"


@dataclass(slots=True)
class Step:
    """What one action (or reset) led to.

    Attributes:
        observation: NLE's arrays by key, RE-USED by the game's next step, `copy` owns its data. After the end they are
            those of the last moment in which the hero lived. Two keys are always added to those asked for:
            "peaceful" (21, 79) bool: a monster is shown there which NetHack's look command would call peaceful;
            "inv_worn" (55,) bool: the item in this inventory slot is worn, wielded, second weapon or in the quiver.
        text: every message that NetHack showed during the command, joined by two spaces.
        took_time: whether the hero used up game time (exact: also when a fast hero acts twice in a turn).
        done: the game is over.
        end_status: RUNNING or DEATH.
        score: NetHack's score, of the last living moment.
    """

    observation: dict[str, np.ndarray]
    text: str
    took_time: bool
    done: bool
    end_status: EndStatus
    score: int

    def copy(self) -> "Step":
        """The same with arrays of its own, which stay as they are."""
        return replace(self, observation={key: array.copy() for key, array in self.observation.items()})


@dataclass(frozen=True, slots=True)
class GameState:
    """A game at one moment, made by `Game.save`. It lasts until that game's next reset or close, in this process."""

    savestate: SaveState
    step: Step
    clock: tuple[int, int]
    peaceful_shown: bool
    worn_of: bytes | None
    actions: list[str]


class Game:
    """One NetHack game at a time, started by `reset`.

    Args:
        observation_keys: NLE's observation keys to return (``nle.nethack.OBSERVATION_DESC`` has shapes and dtypes).
        character: role-race-alignment-gender as NLE writes it.
        options: NetHack options; None for NLE's own.
        wizard: NetHack's debug mode.
        branching: "savestate" or "fork"; None for savestates where they can be had (`savestate.saver.available`). The
            results are the same.
    """

    def __init__(
        self,
        observation_keys: Sequence[str] = DEFAULT_KEYS,
        character: str = "mon-hum-neu-mal",
        options: Iterable[str] | None = None,
        wizard: bool = False,
        branching: Literal["savestate", "fork"] | None = None,
    ) -> None:
        unknown = [key for key in observation_keys if key not in nethack.OBSERVATION_DESC]
        if unknown:
            raise ValueError(f"no observation key {unknown[0]!r}: NLE has {', '.join(nethack.OBSERVATION_DESC)}")
        shapes = {
            key: (nethack.OBSERVATION_DESC[key]["shape"], nethack.OBSERVATION_DESC[key]["dtype"])
            for key in dict.fromkeys((*observation_keys, *_NEEDED_KEYS))
        } | _OWN_KEYS
        self._layout, size = _layout(shapes)
        self._block = np.zeros(size, dtype=np.uint8)
        arrays = _arrays(self._block, self._layout)
        self._last_alive = np.empty_like(self._block)
        self._shown_layout = {key: self._layout[key] for key in (*observation_keys, *_OWN_KEYS)}
        self._observation = {key: arrays[key] for key in self._shown_layout}

        self._glyphs = arrays["glyphs"].reshape(-1)
        self._shown = np.empty(self._glyphs.shape, dtype=bool)
        self._peaceful = arrays["peaceful"]
        self._worn = arrays["inv_worn"]
        self._letters = arrays["inv_letters"]
        self._target_arrays = arrays  # everything that `targets` reads, whatever the caller asked for
        # Single numbers are read through memoryviews, several times faster than through arrays.
        self._blstats = arrays["blstats"].data
        self._message = arrays["message"].data
        self._program_state = arrays["program_state"].data
        self._internal = arrays["internal"].data

        library = available() if branching is None else hooks() if branching == "savestate" else None
        with library.in_use() if library else nullcontext():
            self._nethack = nethack.Nethack(
                observation_keys=("blstats",),
                playername="Agent-" + character,
                ttyrec=None,
                options=options,
                wizard=wizard,
                fix_moon_phase=True,
            )
        self._close_nethack = weakref.finalize(self, self._nethack.close)
        self._nle = self._nethack._pynethack
        self._press, self._is_done = self._nle.step, self._nle.done
        self._nle.set_buffers(**{key: array for key, array in arrays.items() if key not in _OWN_KEYS})
        self._playground = Playground(self._nethack._vardir)
        self._data_file = os.path.realpath(os.path.join(self._nethack._vardir, "nhdat"))

        self._saver = Saver(self._nethack, {"block": self._block}) if library else None
        self._view = View(
            block=self._block.ctypes.data,
            block_size=self._block.nbytes,
            **{key: arrays[key].ctypes.data for key in ("glyphs", "blstats", "peaceful")},
            letters=arrays["inv_letters"].ctypes.data,
            worn=arrays["inv_worn"].ctypes.data,
            first_pet=_FIRST_PET,
            first_detected=_FIRST_DETECTED,
            first_no_monster=int(_FIRST_NO_MONSTER),
            x=_X,
            y=_Y,
            condition=int(BL.CONDITION),
            hallucinating=_HALLUCINATING,
        )
        self._branches = 0  # how many branches deep this game is now

        self._internals: Internals | None = None
        self._last: Step | None = None
        self._clock = (0, 0)
        self._peaceful_shown = False
        self._worn_of: bytes | None = None
        self.seed = -1
        self.actions: list[str] = []

    # -- Playing ---------------------------------------------------------------------------------------------------

    def reset(self, seed: int) -> Step:
        """Start the game that belongs to `seed` (an integer >= 0): its own dungeon, its own dice."""
        if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"the seed of a game must be an integer >= 0, not {seed!r}")
        self._refuse_if_closed()
        if self._branches:
            raise RuntimeError("a branch cannot reset its game: there would be nothing to come back to")
        self._internals = None  # its addresses end with the old game
        self._last = None
        self.seed = int(seed)
        self.actions = []
        core, disp, self._lgen = nethack_seeds(self.seed)
        self._playground.clear()
        self._nle.set_initial_seeds(core, disp, False, self._lgen)
        self._nle.reset()
        for _ in range(_MAX_PROMPTS):
            if self._program_state[_IN_MOVELOOP]:
                break
            # A hero who begins on a scroll that turns to dust is asked for its name before his first turn.
            self._press(_SPACE if self._internal[_WAITS] else _ESC)
        else:
            raise RuntimeError(f"game {self.seed}: NetHack keeps asking before it begins: {_text(self._message)!r}")
        # Not earlier: NetHack may ask for a key before it has made the hero, and then looks at the clock.
        self._internals = Internals(self._nethack.dlpath)
        texts = [_text(self._message)]
        self._answer_prompts("", None, texts)
        self._clock = self._internals.clock()
        self._peaceful_shown = True  # by the game before, perhaps
        self._worn_of = None
        return self._finish(texts, took_time=False)

    def step(self, action: str | int) -> Step:
        """Play one whole command, by name (see `actions`) or by index in ACTIONS.

        Every question, menu and --More-- that it leads to is answered before this returns. Questions are declined:
        peaceful monsters are not attacked, the dungeon is not left. ValueError when there is no such action.
        """
        if self._last is None or self._last.done:
            self._refuse_if_closed()
            raise RuntimeError("the game has not begun or is over: reset it before the next step")
        name = action if isinstance(action, str) else _BY_INDEX.get(action, "")
        key = _SIMPLE_KEYS.get(name)
        answer = None
        if key is None:
            name, _, target = name_of(action).partition(":")
            answer = self._answer_to(name, target)
            self.actions.append(f"{name}:{target}" if target else name)
            if answer is None:
                self._message[0] = 0
                return self._finish([], took_time=False)
            key = KEYS[name]
        else:
            self.actions.append(name)
        return self._command(key, name, answer)

    def reseed(self, seed: int) -> None:
        """Draw the game's dice anew from `seed` from now on. Levels not yet made stay those of the game's own seed."""
        self.last  # noqa: B018 - refuses a game that has not begun
        core, disp = nethack_seeds(seed, 2)
        self._nle.set_seeds(core, disp, False, self._lgen)
        self.actions.append(f"reseed:{int(seed)}")

    @property
    def last(self) -> Step:
        """The latest step."""
        if self._last is None:
            raise RuntimeError("the game has not begun: reset it first")
        return self._last

    @property
    def how(self) -> str | None:
        """How the game ended, by NLE's name (DIED, STARVING, QUIT, ASCENDED, ...); None while it goes on."""
        return self._nle.how_done().name if self._last is not None and self._last.done else None

    def close(self) -> None:
        """Give the game's memory and folder back. May be called again."""
        self._internals = None
        self._last = None
        self._close_nethack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- Branching -------------------------------------------------------------------------------------------------

    def save(self) -> GameState:
        """This moment, for `load`. Raises SaveError where there are no savestates, see `available`."""
        last = self.last
        if self._saver is None:
            raise SaveError("this game is branched by fork: it has branch() and probe(), but no save() and load()")
        return GameState(
            *(self._saver.save(), last, self._clock, self._peaceful_shown, self._worn_of, self.actions.copy()),
        )

    def load(self, state: GameState) -> Step:
        """Go back to a saved moment; its step. Raises SaveError for a state of another game, process or reset."""
        if self._saver is None:
            raise SaveError("this game is branched by fork: it has no savestates")
        if not isinstance(state, GameState):
            raise TypeError(f"expected a state made by Game.save, got {type(state).__name__}")
        self._saver.load(state.savestate)
        self._last, self._clock = state.step, state.clock
        self._peaceful_shown, self._worn_of = state.peaceful_shown, state.worn_of
        self.actions = state.actions.copy()
        return state.step

    def branch(self, continuation: Callable[["Game"], T]) -> T:
        """What `continuation` returns when it plays on from this exact moment; this game is not disturbed.

        The continuation may step, reseed and branch again, but not reset. It must not change anything outside the
        game: by savestates such a change would stay, by fork it would be lost. Its result must be picklable and is a
        copy. Its exceptions are raised here. BranchError when it ends without a result.
        """
        self.last  # noqa: B018 - refuses a game that has not begun
        self._branches += 1
        try:
            if self._saver is not None:
                try:
                    state = self.save()
                except SaveError as error:
                    warnings.warn(f"game {self.seed}: {error}; it is branched by fork", RuntimeWarning, stacklevel=2)
                else:
                    try:
                        return pickle.loads(pickle.dumps(continuation(self), pickle.HIGHEST_PROTOCOL))
                    finally:
                        self.load(state)
            return self._fork(continuation)
        finally:
            self._branches -= 1

    def probe(self, actions: Sequence[str | int]) -> list[Step]:
        """For each action the step that it would lead to now. The steps own their data."""
        names = [name_of(action) for action in actions]
        steps = self._probe_keys([name for name in names if name in _SIMPLE_KEYS])
        return [steps.get(name) or self.branch(lambda game, name=name: game.step(name)) for name in names]  # type: ignore[misc]

    # -- Inside ----------------------------------------------------------------------------------------------------

    def _probe_keys(self, names: Sequence[str]) -> dict[str, Step]:
        """By name the steps of commands that are one key and lead to no question; without savestates none."""
        if self._saver is None or self.last.done or not names:
            return {}
        try:
            state = self._saver.save()
        except SaveError:
            return {}
        rows, outcomes = self._saver.probe(state, [_SIMPLE_KEYS[name] for name in names], self._view)
        steps = {}
        for name, row, (status, movement, turn) in zip(names, rows, outcomes.tolist(), strict=True):
            if status == AWAITS_COMMAND:
                arrays = _arrays(row, self._layout)
                message = _text(arrays["message"].data)
                score = int(arrays["blstats"][_SCORE])
                observation = {key: arrays[key] for key in self._shown_layout}
                steps[name] = Step(observation, message, (turn, movement) != self._clock, False, _RUNNING, score)
        return steps

    def _fork(self, continuation: Callable[["Game"], T]) -> T:
        depth = fork.depth()
        self._playground.remember(depth)
        try:
            return fork.run(lambda: continuation(self), self._data_file)
        except fork.ChildDied as died:
            raise BranchError(self.seed, len(self.actions), str(died)) from None
        finally:
            self._playground.restore(depth)

    def _refuse_if_closed(self) -> None:
        if not self._close_nethack.alive:
            raise RuntimeError("this game was closed")

    def _answer_to(self, name: str, target: str) -> int | None:
        """The key that tells a targeted command what to aim at; None when there is no such thing."""
        aim = target or targets(self._target_arrays)[name]
        if aim is None:
            return None
        if name in ITEM_COMMANDS:
            return ord(aim) if ord(aim) in self._letters.tobytes() else None
        return KEYS[aim]

    def _command(self, key: int, name: str, answer: int | None) -> Step:
        # This is the innermost loop of everything: it avoids what costs more than a few hundred nanoseconds.
        internals = self._internals
        assert internals is not None
        np.copyto(self._last_alive, self._block)
        self._press(key)
        texts = [_text(self._message)] if self._message[0] else []
        if not internals.awaits_command():
            self._answer_prompts(name, answer, texts)
            if self._is_done():
                return self._end(texts)
        clock = internals.clock()
        took_time = clock != self._clock
        self._clock = clock
        return self._finish(texts, took_time)

    def _answer_prompts(self, name: str, answer: int | None, texts: list[str]) -> None:
        """Press keys until NetHack wants a command again (or has ended), noting what it says."""
        internal, internals = self._internal, self._internals
        assert internals is not None
        selected = False
        question = ""
        for _ in range(_MAX_PROMPTS):
            if internals.awaits_command() or self._is_done():
                return
            question = ""
            if internal[_WAITS]:
                # Of a menu that a pickup brings, everything is chosen; --More-- does not mind the extra key.
                selected = name == "pickup" and not selected
                key = _SELECT_ALL if selected else _SPACE
            elif internal[_ASKS_CHOICE]:
                question = _text(self._message)
                if answer is not None and question.startswith(("In what direction?", "What do you want to ")):
                    key, answer = answer, None
                    texts[:] = [text for text in texts if text != question]  # our own, it says nothing about the game
                else:
                    key = _reply(question, name)
            else:
                key = _ESC  # a line of text or a place on the map is asked for
            if not self._program_state[_GAMEOVER] and self._blstats[_HP] > 0:
                np.copyto(self._last_alive, self._block)
            self._press(key)
            text = _text(self._message)
            # An answered question stays on the screen, with the answer behind it.
            if text and texts[-1:] != [text] and not (question and text.startswith(question)):
                texts.append(text)
        raise RuntimeError(f"game {self.seed}, step {len(self.actions)}: NetHack keeps asking: {question!r}")

    def _finish(self, texts: list[str], took_time: bool) -> Step:
        if self._peaceful_shown:
            self._peaceful[:] = False
            self._peaceful_shown = False
        shown = np.less(self._glyphs, _FIRST_NO_MONSTER, self._shown).tobytes()
        hero = self._blstats[_Y] * _COLUMNS + self._blstats[_X]
        if shown.find(1) != hero or shown.rfind(1) != hero:
            self._look_for_peaceful(shown, hero)
        letters = self._letters.tobytes()
        # No action wears anything, and nobody takes worn things off without a word.
        if letters != self._worn_of or (texts and took_time):
            self._worn_of = letters
            self._worn[:] = self._internals.worn(letters.rstrip(b"\0"))  # type: ignore[union-attr]
        text = "  ".join(filter(None, texts)) if texts else ""
        self._last = Step(self._observation, text, took_time, False, _RUNNING, self._blstats[_SCORE])
        return self._last

    def _look_for_peaceful(self, shown: bytes, hero: int) -> None:
        if self._blstats[BL.CONDITION] & _HALLUCINATING:
            return  # NetHack's look command then does not tell either
        glyphs = self._glyphs
        cell = shown.find(1)
        while cell >= 0:
            if cell != hero and not _FIRST_PET <= glyphs.item(cell) < _FIRST_DETECTED:
                row, column = divmod(cell, _COLUMNS)
                if self._internals.is_peaceful(row, column):  # type: ignore[union-attr]
                    self._peaceful[row, column] = True
                    self._peaceful_shown = True
            cell = shown.find(1, cell + 1)

    def _end(self, texts: list[str]) -> Step:
        np.copyto(self._block, self._last_alive)
        text = "  ".join(filter(None, texts))
        self._last = Step(self._observation, text, True, True, EndStatus.DEATH, self._blstats[_SCORE])
        return self._last


def replay(seed: int, actions: Iterable[str | int], **game: object) -> Game:
    """The game of `seed` after `actions` (as in `Game.actions`, reseeds included). `game` goes to `Game`."""
    played = Game(**game)  # type: ignore[arg-type]
    played.reset(seed)
    for action in actions:
        if isinstance(action, str) and action.startswith("reseed:"):
            played.reseed(int(action.removeprefix("reseed:")))
        else:
            played.step(action)
    return played


@functools.lru_cache(maxsize=1024)  # all actions of a moment are branched under the same few streams
def nethack_seeds(seed: int, count: int = 3) -> tuple[int, ...]:
    """The 62-bit numbers core, disp and lgen (dice, display, levels) with which NetHack plays the game of `seed`."""
    return tuple(int(word) >> 2 for word in np.random.SeedSequence(seed).generate_state(count, np.uint64))


_Layout = dict[str, tuple[int, tuple[int, ...], type]]  # by key: where an array begins, its shape and dtype


def _layout(shapes: Mapping[str, tuple[tuple[int, ...], type]]) -> tuple[_Layout, int]:
    """How arrays of these shapes lie in one block of memory, so that all are saved by one copy; the block's size."""
    layout, end = {}, 0
    for key, (shape, dtype) in shapes.items():
        layout[key] = (end, shape, dtype)
        end += -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // 64) * 64
    return layout, end


def _arrays(block: np.ndarray, layout: _Layout) -> dict[str, np.ndarray]:
    """The arrays in a block; views."""
    return {key: np.ndarray(shape, dtype, block, offset) for key, (offset, shape, dtype) in layout.items()}


def _text(message: memoryview) -> str:
    return bytes(message).partition(b"\0")[0].decode("latin-1").replace("\n", " ").strip()


def _reply(question: str, command: str) -> int:
    """The key that answers a question which the command did not plan."""
    if command in ITEM_COMMANDS and " here; " in question:
        return ord("n")  # not that on the floor, but what the command named
    if command == "pickup" and "Continue?" in question:
        return ord("y")  # take it although it is heavy
    if command == "pray" and question.startswith("Are you sure you want to pray?"):
        return ord("y")
    return _ESC
