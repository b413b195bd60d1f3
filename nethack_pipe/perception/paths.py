"""Shortest ways over the remembered map, by breadth-first search on whole maps at once.

A map of 21 x 79 tiles is one Python integer of 21 * 80 bits; a wavefront is spread in all directions by shifts.
The 80th column is always 0 and keeps the edges apart.
"""

import functools
import operator
from collections.abc import Sequence

import numpy as np

from nethack_pipe.game.actions import DIRECTIONS

HEIGHT, WIDTH, STRIDE = 21, 79, 80
FULL = sum(((1 << WIDTH) - 1) << (STRIDE * row) for row in range(HEIGHT))


class Planes:
    """Room for `count` maps that become integers together. `maps`: count views, (21, 79) bool, to write them into."""

    def __init__(self, count: int) -> None:
        self._padded = np.zeros((count, HEIGHT, STRIDE), dtype=bool)
        self.maps = list(self._padded[:, :, :WIDTH])

    def bits(self) -> list[int]:
        """Each map as one integer, bit 80 * y + x."""
        packed = np.packbits(self._padded, axis=None, bitorder="little").tobytes()
        size = HEIGHT * STRIDE // 8
        return [int.from_bytes(packed[start : start + size], "little") for start in range(0, len(packed), size)]


def bits(mask: np.ndarray) -> int:
    """(21, 79) bool as one integer, bit 80 * y + x."""
    return bits_of_each([mask])[0]


def bits_of_each(masks: Sequence[np.ndarray]) -> list[int]:
    """As `bits`, for several masks at once."""
    planes = Planes(len(masks))
    for plane, mask in zip(planes.maps, masks, strict=True):
        plane[:] = mask
    return planes.bits()


def bit(y: int, x: int) -> int:
    return 1 << (STRIDE * y + x)


def orthogonal(front: int) -> int:
    """Every tile one step north, south, east or west of `front`."""
    return (front << 1 | front >> 1 | front << STRIDE | front >> STRIDE) & FULL


def slanted(front: int) -> int:
    """Every tile one diagonal step from `front`."""
    return (front << STRIDE + 1 | front << STRIDE - 1 | front >> STRIDE + 1 | front >> STRIDE - 1) & FULL


def nearest(
    passable: int, goals: int, y: int, x: int, *, diagonal: int = 0, directions: tuple[str, ...] = tuple(DIRECTIONS)
) -> tuple[int, list[str]] | None:
    """Distance to the nearest of `goals` and the first steps that come nearer.

    Args:
        passable: tiles that can be walked on; goals need not be among them.
        y, x: where the walk starts.
        diagonal: tiles that may be left and entered diagonally (no doorways); 0 for four directions.
        directions: first steps to choose from.

    Returns:
        (steps to the goal, names of the directions), or None when no goal can be reached. (0, []) on a goal.
    """
    here = bit(y, x)
    if goals & here:
        return 0, []
    around = _around(y, x)
    steps = {name: around[name] for name in directions}
    slanted_start = bool(here & diagonal)
    reach = front = goals
    distance = 1
    while front:
        nearer = [
            name
            for name, tile in steps.items()
            if tile & front and (0 in DIRECTIONS[name] or (slanted_start and tile & diagonal))
        ]
        if nearer:
            return distance, nearer
        # Backwards from the goals: diagonal steps count where both ends allow them.
        front = (orthogonal(front) | slanted(front & diagonal) & diagonal) & passable & ~reach
        reach |= front
        distance += 1
    return None


def nearest_of_each(
    passable: int, goals: Sequence[int], y: int, x: int, *, diagonal: int = 0
) -> list[tuple[int, list[bool]] | None]:
    """As `nearest`, for several sets of goals at once.

    One flood from (y, x) meets the nearest tiles of each set; the way back from them through the flood's layers ends
    in the first steps. So a set that cannot be reached costs nothing of its own.

    Returns:
        For each of `goals` (steps to it, for each of `DIRECTIONS` whether that step comes nearer) or None.
    """
    here = bit(y, x)
    waiting = {i: goal for i, goal in enumerate(goals) if goal}
    wanted = functools.reduce(operator.or_, waiting.values(), 0)
    unreached = (passable | wanted) & ~here
    doors = unreached & ~diagonal
    walkable = passable | here
    found: dict[int, tuple[int, int]] = {}  # steps, tiles of the first step
    layers: list[int] = []  # by distance; goals that cannot be passed are left out
    front = here
    while front and waiting:
        if front & wanted:
            for i, goal in list(waiting.items()):
                if back := front & goal:
                    for layer in layers[:0:-1]:
                        back = _spread(back, diagonal, doors) & layer
                    found[i] = len(layers), back
                    del waiting[i]
        front &= walkable
        layers.append(front)
        front = _spread(front, diagonal, doors) & unreached
        unreached ^= front
    around = _around(y, x).values()
    return [
        (found[i][0], [tile & found[i][1] > 0 for tile in around]) if i in found else None for i in range(len(goals))
    ]


@functools.cache
def _around(y: int, x: int) -> dict[str, int]:
    """The tile in each of `DIRECTIONS`, 0 beyond the edge."""
    steps = {name: (y + dy, x + dx) for name, (dy, dx) in DIRECTIONS.items()}
    return {
        name: bit(row, column) if 0 <= row < HEIGHT and 0 <= column < WIDTH else 0
        for name, (row, column) in steps.items()
    }


def _spread(front: int, diagonal: int, doors: int) -> int:
    """Every tile one step from `front`, and some that are no tiles. doors: those that `diagonal` leaves out."""
    beside = front << 1 | front >> 1 | front
    slanting = front & diagonal
    if slanting == front:
        around = beside | beside << STRIDE | beside >> STRIDE
        if not around & doors:
            return around
    else:
        around = slanting << 1 | slanting >> 1
        around = around << STRIDE | around >> STRIDE
    return around & ~doors | beside | front << STRIDE | front >> STRIDE
