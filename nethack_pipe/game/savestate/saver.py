"""Save and load NLE's games in memory, exactly.

`Saver` works with every game that NLE has made on the patched library: by a `Game` or, inside `with patched():`, by
``gymnasium.make`` or ``nle.nethack.Nethack``. docs/savestates.md shows how.

How long a savestate lasts: in the process that made it, until its game is reset or closed. Across processes a seed
and the actions since are the way.
"""

import copy
import ctypes
import functools
import os
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from nethack_pipe.game.savestate.library import Hooks, Region, Unavailable, View, hooks

# One row per key of `Saver.probe`. status: 0 NetHack awaits a command, 1 it asks something, 2 the game is over;
# turn and movement: the clock, see `Internals.clock`.
OUTCOME = np.dtype([("status", np.int32), ("movement", np.int32), ("turn", np.int64)])
AWAITS_COMMAND, ASKS, OVER = range(3)

_ENDED = b"ended"
_MODES = ("savestate", "fork")


class SaveError(Exception):
    """A game cannot be saved, or a savestate cannot be loaded; the text says why."""


def available() -> Hooks | None:
    """The hooks where savestates can be had; None, after one warning, where branches must be forked.

    NETHACK_PIPE_BRANCHING in the environment decides otherwise: `fork` never uses savestates, `savestate` raises
    Unavailable where there can be none.
    """
    mode = os.environ.get("NETHACK_PIPE_BRANCHING", "")
    if mode not in ("", *_MODES):
        raise ValueError(f"NETHACK_PIPE_BRANCHING: expected {' or '.join(_MODES)} (or nothing), got {mode!r}")
    if mode == "fork":
        return None
    return hooks() if mode else _hooks_or_warning()


@functools.cache
def _hooks_or_warning() -> Hooks | None:
    try:
        return hooks()
    except Unavailable as error:
        warnings.warn(
            f"no savestates: {error}\nGames are branched by fork instead: the results are the same, a branch takes "
            "some fifty times as long",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


@contextmanager
def patched() -> Iterator[None]:
    """What NLE makes inside this block, as ``gymnasium.make("NetHackScore-v0")``, can be saved. Raises Unavailable."""
    with hooks().in_use():
        yield


class SaveState:
    """A game at one moment. It lasts until the game's next reset or close; its memory is given back with it."""

    __slots__ = ("_free", "_pid", "_python", "nbytes", "owner", "pointer")

    def __init__(self, owner: "Saver", pointer: int, library: Hooks, python: list[tuple[dict, dict]]) -> None:
        self.owner, self.pointer = owner, pointer
        self.nbytes: int = library.state_size(pointer)
        self._free, self._pid, self._python = library.free_state, os.getpid(), python

    def __del__(self) -> None:
        self._free(self.pointer)

    def __reduce__(self) -> Any:
        raise TypeError("a savestate holds in its own process only: send the seed and the actions instead")


class Saver:
    """Saves and loads one game.

    Args:
        game: an ``nle.nethack.Nethack``, or a Gymnasium environment around one: of its wrappers every attribute that
            is a number, a text, None or a plain collection is saved too (step counts, flags, what was explored);
            what else a wrapper keeps is its owner's.
        arrays: memory beside NLE's observation arrays that belongs to the state, by name; contiguous.

    Raises:
        SaveError: the game does not run on the patched library, writes a ttyrec, or renders pixels.
    """

    def __init__(self, game: Any, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        self._wrappers = list(_wrappers(game))
        for wrapper in self._wrappers:
            if getattr(wrapper, "render_mode", None) == "pixel":
                raise SaveError("render_mode is 'pixel': games that draw pixels cannot be saved; use another or None")
        self._nethack = nethack = self._wrappers[-1].nethack if self._wrappers else game
        self._refuse_recording()
        self._library = hooks()
        self._arrays = dict(arrays or {})
        self._watched = self._arrays or nethack._obs_buffers
        self._regions = _regions(self._watched.values())
        self._row = sum(array.nbytes for array in self._watched.values())
        self._instance, self._id = 0, ctypes.c_uint64()
        self._why = ctypes.c_char_p()

    def save(self) -> SaveState:
        """The game as it is now. Raises SaveError."""
        self._refuse_recording()
        pointer = self._save()
        if self._why.value == _ENDED:
            self._find()
            pointer = self._save()
        if not pointer:
            raise SaveError(f"the game cannot be saved: {(self._why.value or b'').decode()}")
        python = [(vars(wrapper), _kept(vars(wrapper))) for wrapper in self._wrappers]
        return SaveState(self, pointer, self._library, python)

    def load(self, state: SaveState) -> None:
        """Make the game what it was in `state`. Raises SaveError when that is of another game, process or reset."""
        self._check(state)
        self._refuse(self._library.load(state.pointer))
        for attributes, scalars in state._python:
            attributes.update(_kept(scalars))

    def probe(self, state: SaveState, keys: Sequence[int], view: View | None = None) -> tuple[np.ndarray, np.ndarray]:
        """What each of `keys` (NLE's key codes) leads to from `state`, in which the game must be now and is afterwards.

        Returns:
            (n, bytes) uint8, the arrays after each key, one after the other as they lie in memory; (n,) of OUTCOME.
        """
        self._check(state)
        rows = np.empty((len(keys), self._row), dtype=np.uint8)
        outcomes = np.empty(len(keys), dtype=OUTCOME)
        self._refuse(
            self._library.probe(
                *(state.pointer, len(keys), (ctypes.c_int32 * len(keys))(*keys), view),
                *(self._regions, len(self._regions), rows.ctypes.data, self._row, outcomes.ctypes.data),
            )
        )
        return rows, outcomes

    def observations(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The rows of `probe` as arrays by name, (n, ...) each; views."""
        arrays, start = {}, 0
        for name, array in self._watched.items():
            columns = rows[:, start : start + array.nbytes]
            arrays[name] = columns.view(array.dtype).reshape(len(rows), *array.shape)
            start += array.nbytes
        return arrays

    def _refuse_recording(self) -> None:  # also one that began with a later reset
        if self._nethack._ttyrec is not None:
            raise SaveError(
                f"the game writes {self._nethack._ttyrec}: a recording cannot be taken back; "
                "make the game with ttyrec=None (save_ttyrec_every=0 in gymnasium.make)"
            )

    def _save(self) -> int | None:
        if not self._instance:
            self._why.value = _ENDED
            return None
        return self._library.save(self._instance, self._id.value, self._why)

    def _find(self) -> None:
        found = self._library.find(self._nethack.dlpath.encode(), self._id)
        if not found:
            raise SaveError(
                "the game has not begun, or does not run on the patched library: make it inside `with patched():`"
            )
        self._instance = found
        for name, array in self._arrays.items():
            if self._library.add_region(found, array.ctypes.data, array.nbytes):
                self._instance = 0
                raise SaveError(
                    f"{name} cannot become a part of this game's states: it has been saved without, or has too many"
                )

    def _check(self, state: SaveState) -> None:
        if not isinstance(state, SaveState):
            raise TypeError(f"expected a savestate, got {type(state).__name__}")
        if state._pid != os.getpid():
            raise SaveError(f"the savestate is of another process ({state._pid}): it holds in that one only")
        if state.owner is not self:
            raise SaveError("the savestate is of another game")

    @staticmethod
    def _refuse(why: bytes | None) -> None:
        if why == _ENDED:
            raise SaveError("the savestate is of an earlier game: the game was reset or closed since")
        if why:
            raise SaveError(f"not possible: {why.decode()}")


def _wrappers(game: Any) -> Iterator[Any]:
    """The environment, what it wraps, and so on to the innermost; nothing for a bare Nethack."""
    while hasattr(game, "unwrapped"):
        yield game
        if game is game.unwrapped:
            return
        game = game.env


def _kept(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What a wrapper counts or collects (NetHackScout: what it has explored, a dictionary); collections are copied."""
    plain, collections = (int, float, str, bool, type(None), np.number, np.bool_), (dict, list, set, deque)
    return {
        name: copy.copy(value) if isinstance(value, collections) else value
        for name, value in attributes.items()
        if isinstance(value, (*plain, *collections))
    }


def _regions(arrays: Any) -> Any:
    arrays = list(arrays)
    for array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError("an array that is saved must be contiguous")
    return (Region * len(arrays))(*(Region(array.ctypes.data, array.nbytes) for array in arrays))
