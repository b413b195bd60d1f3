"""The few variables inside NetHack's memory that NLE's observations leave out.

Offsets are those of NetHack 3.6's structs (include/monst.h, rm.h, obj.h, flag.h) as every 64-bit build of NLE 1.3.0
lays them out; `Internals` refuses a build where the hero's first movement points are not where they should be.
"""

import ctypes
import struct
from _ctypes import dlclose

import numpy as np

from nethack_pipe.game import tables

MON_MOVEMENT = 24  # short movement
_MON_BURIED = (60, 1 << 5)  # byte and bit of mburied
_MON_PEACEFUL = (65, 1 << 1)  # byte and bit of mpeaceful
_LEVEL_COLUMNS, _LEVEL_ROWS = 80, 21  # COLNO, ROWNO: map columns count from 1 in NetHack
LEVEL_MONSTERS = _LEVEL_COLUMNS * _LEVEL_ROWS * (8 + 8)  # behind locations (8 bytes each) and objects (a pointer each)
_OBJ = struct.Struct("<Q 42x B 29x q")  # nobj, the next item; invlet at 50; owornmask at 80
FLAGS_IN_PARSE = 62  # boolean in_parse of iflags
_NORMAL_SPEED = 12

# The hero's birth time in seconds since the epoch. NetHack takes it from the clock and lets it decide shopkeepers, ant
# holes, prices and T-shirts; here it is the same in every game.
BIRTHDAY = 1_000_000_000


class Internals:
    """A window on the variables of one game, and the calendar's last influence pinned.

    To be made when the game awaits its first command; valid until its next reset or close.
    `dlpath` is the path from which NLE loaded this game's own copy of its library.
    """

    def __init__(self, dlpath: str) -> None:
        library = ctypes.CDLL(dlpath)
        try:
            ctypes.c_long.in_dll(library, "ubirthday").value = BIRTHDAY
            self._moves = ctypes.c_long.from_address(_address(library, "moves"))
            self._movement = ctypes.c_short.from_address(_address(library, "youmonst") + MON_MOVEMENT)
            monsters = _address(library, "level") + LEVEL_MONSTERS
            self._in_parse = ctypes.c_byte.from_address(_address(library, "iflags") + FLAGS_IN_PARSE)
            self._invent = ctypes.c_void_p.from_address(_address(library, "invent"))
        finally:
            # A handle left open would keep NLE's next reset from loading a fresh library.
            dlclose(library._handle)
        pointers = ctypes.c_uint64 * (_LEVEL_COLUMNS * _LEVEL_ROWS)
        self._monsters = memoryview(pointers.from_address(monsters)).cast("B").cast("Q")
        if self.clock() != (1, _NORMAL_SPEED):
            raise RuntimeError(
                "this build of NLE lays out NetHack's structs in another way: turn and movement points are "
                f"{self.clock()} at the start of a game instead of (1, {_NORMAL_SPEED}); nle 1.3.0 from its 64-bit "
                "wheels is needed"
            )

    def awaits_command(self) -> bool:
        """Whether the key that NetHack waits for begins a command.

        False in every question, menu, --More-- or choice of a place, also those that no flag of NLE's tells, and after
        the end.
        """
        return self._in_parse.value != 0

    def clock(self) -> tuple[int, int]:
        """The turn and the hero's movement points. They stay as they are exactly when an action took no time.

        A command that takes time costs 12 points; when fewer are left a new turn begins.
        """
        return self._moves.value, self._movement.value

    def is_peaceful(self, row: int, column: int) -> bool:
        """Whether the monster that is at this place of the map now is peaceful (or tame)."""
        pointer = self._monsters[(column + 1) * _LEVEL_ROWS + row]
        return bool(pointer) and not _bit(pointer, _MON_BURIED) and _bit(pointer, _MON_PEACEFUL)

    def worn(self, letters: bytes) -> np.ndarray:
        """For each of the inventory's `letters`: is it worn, wielded, quivered or second weapon? (55,) bool."""
        worn = np.zeros(tables.INVENTORY_SIZE, dtype=bool)
        pointer = self._invent.value
        while pointer:
            pointer, letter, mask = _OBJ.unpack(ctypes.string_at(pointer, _OBJ.size))
            if mask and letter in letters:
                worn[letters.index(letter)] = True
        return worn


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.addressof(ctypes.c_char.in_dll(library, name))


def _bit(pointer: int, place: tuple[int, int]) -> bool:
    offset, mask = place
    return bool(ctypes.c_ubyte.from_address(pointer + offset).value & mask)
