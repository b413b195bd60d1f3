"""Shortest ways against a plain breadth-first search over cells."""

from collections import deque

import numpy as np
import pytest

from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.perception import paths

FOUR = ("north", "south", "east", "west")


def brute_force(passable, goals, y, x, slanted, directions):
    """Distances by walking forwards, cell by cell: (distance, first steps on a shortest way) or None."""

    def steps(y, x, names):
        for name in names:
            dy, dx = DIRECTIONS[name]
            to = y + dy, x + dx
            if not (0 <= to[0] < 21 and 0 <= to[1] < 79) or not (passable[to] or goals[to]):
                continue
            if 0 in (dy, dx) or (slanted is not None and slanted[y, x] and slanted[to]):
                yield name, to

    if goals[y, x]:
        return 0, []
    best: dict[str, int] = {}
    for name, start in steps(y, x, directions):
        distance, queue = {start: 1}, deque([start])
        while queue:
            here = queue.popleft()
            if goals[here]:
                best[name] = distance[here]
                break
            for _, to in steps(*here, DIRECTIONS if slanted is not None else FOUR):
                if to not in distance:
                    distance[to] = distance[here] + 1
                    queue.append(to)
    if not best:
        return None
    nearest = min(best.values())
    return nearest, [name for name in directions if best.get(name) == nearest]


@pytest.mark.parametrize("directions", [FOUR, tuple(DIRECTIONS)], ids=["four", "eight"])
def test_nearest_is_what_a_plain_search_finds(directions):
    rng = np.random.default_rng(3)
    distances = []
    for trial in range(40):
        passable = rng.random((21, 79)) < rng.uniform(0.45, 0.95)
        doors = rng.random((21, 79)) < 0.15
        goals = np.zeros((21, 79), dtype=bool)
        goals[rng.integers(21, size=3), rng.integers(79, size=3)] = True
        # The edges of the map too, where the map's rows must not run into one another.
        y, x = (int(rng.integers(21)), int(rng.choice([0, 78]))) if trial % 2 else (20 * (trial % 4 // 2), 40)
        slanted = ~doors if len(directions) == 8 else None
        expected = brute_force(passable, goals, y, x, slanted, directions)
        diagonal = 0 if slanted is None else paths.bits(passable & slanted) | paths.bits(goals & slanted)
        if slanted is not None and slanted[y, x]:
            diagonal |= paths.bit(y, x)
        found = paths.nearest(paths.bits(passable), paths.bits(goals), y, x, diagonal=diagonal, directions=directions)
        assert found == expected, trial
        distances.append(expected[0] if expected else None)
    assert None in distances and max(filter(None, distances)) > 20


@pytest.mark.parametrize("directions", [FOUR, tuple(DIRECTIONS)], ids=["four", "eight"])
def test_nearest_of_each_is_nearest_for_each(directions):
    rng = np.random.default_rng(4)
    found: list = []
    for trial in range(60):
        passable = rng.random((21, 79)) < rng.uniform(0.45, 1)
        slanted = rng.random((21, 79)) < rng.choice([0.85, 1])
        goals = [np.zeros((21, 79), dtype=bool) for _ in range(5)]
        for goal, count in zip(goals, (0, 1, 1, 3, 40), strict=True):
            goal[rng.integers(21, size=count), rng.integers(79, size=count)] = True
        goals.append(passable & (rng.random((21, 79)) < 0.01))
        y, x = (int(rng.integers(21)), int(rng.choice([0, 78]))) if trial % 2 else (int(rng.choice([0, 20])), 40)
        diagonal = paths.bits(slanted) if len(directions) == 8 else 0
        of_all = paths.nearest_of_each(paths.bits(passable), paths.bits_of_each(goals), y, x, diagonal=diagonal)
        for way, goal in zip(of_all, goals, strict=True):
            alone = paths.nearest(
                paths.bits(passable), paths.bits(goal), y, x, diagonal=diagonal, directions=directions
            )
            assert alone == (way and (way[0], [name for name, near in zip(DIRECTIONS, way[1], strict=True) if near]))
        found += of_all
    steps = [way[0] for way in found if way]
    assert None in found and 0 in steps and max(steps) > 30


def test_no_diagonal_step_through_a_door():
    open_ground = np.zeros((21, 79), dtype=bool)
    open_ground[5, 5] = open_ground[6, 6] = open_ground[5, 6] = True
    goal = np.zeros_like(open_ground)
    goal[6, 6] = True
    diagonal = open_ground.copy()
    assert paths.nearest(paths.bits(open_ground), paths.bits(goal), 5, 5, diagonal=paths.bits(diagonal)) == (
        1,
        ["southeast"],
    )
    diagonal[6, 6] = False  # a door
    assert paths.nearest(paths.bits(open_ground), paths.bits(goal), 5, 5, diagonal=paths.bits(diagonal)) == (
        2,
        ["east"],
    )


def test_standing_on_the_goal_and_no_way_to_it():
    nothing = np.zeros((21, 79), dtype=bool)
    goal = nothing.copy()
    goal[0, 78] = True
    assert paths.nearest(0, paths.bits(goal), 0, 78) == (0, [])
    assert paths.nearest(0, paths.bits(goal), 1, 0) is None  # the next bit, but another row
    assert paths.nearest(paths.bits(~nothing), 0, 5, 5) is None
    assert paths.nearest(0, paths.bits(goal), 1, 78) == (1, ["north"])  # the goal itself need not be passable


def test_bits_puts_each_tile_in_its_place():
    mask = np.zeros((21, 79), dtype=bool)
    mask[0, 1] = mask[2, 3] = mask[20, 78] = True
    assert paths.bits(mask) == 1 << 1 | 1 << 163 | 1 << 1678
