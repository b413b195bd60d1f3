"""Shortest ways over the remembered map, by breadth-first search on whole maps at once.

A map of 21 x 79 tiles is one Python integer of 21 * 80 bits; a wavefront is spread in all directions by shifts.
The 80th column is always 0 and keeps the edges apart.
"""

import numpy as np

from nethack_pipe.game.actions import DIRECTIONS

HEIGHT, WIDTH, STRIDE = 21, 79, 80
_FULL = sum(((1 << WIDTH) - 1) << (STRIDE * row) for row in range(HEIGHT))


def bits(mask: np.ndarray) -> int:
    """(21, 79) bool as one integer, bit 80 * y + x."""
    padded = np.zeros((HEIGHT, STRIDE), dtype=bool)
    padded[:, :WIDTH] = mask
    return int.from_bytes(np.packbits(padded, bitorder="little").tobytes(), "little")


def bit(y: int, x: int) -> int:
    return 1 << (STRIDE * y + x)


def orthogonal(front: int) -> int:
    """Every tile one step north, south, east or west of `front`."""
    return (front << 1 | front >> 1 | front << STRIDE | front >> STRIDE) & _FULL


def slanted(front: int) -> int:
    """Every tile one diagonal step from `front`."""
    return (front << STRIDE + 1 | front << STRIDE - 1 | front >> STRIDE + 1 | front >> STRIDE - 1) & _FULL


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
    steps = {
        name: bit(y + dy, x + dx)
        for name in directions
        for dy, dx in [DIRECTIONS[name]]
        if 0 <= y + dy < HEIGHT and 0 <= x + dx < WIDTH
    }
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
