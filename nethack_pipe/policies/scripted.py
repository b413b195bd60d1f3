"""Policies that are rules: random, wall_avoidance, frontier."""

import functools
import operator
import random
from collections.abc import Callable, Sequence

import numpy as np

from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.perception import paths
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.tasks.playthrough import CLOSED, DOORS, Playthrough
from nethack_pipe.tasks.skills import Skill

OPPOSITE = {name: other for name, (y, x) in DIRECTIONS.items() for other, to in DIRECTIONS.items() if to == (-y, -x)}
KEEP_GOING = 0.8  # probability that wall_avoidance goes on in its direction while it is free
_IS_CLOSED = np.isin(np.arange(len(Tile)), list(CLOSED))
_IS_DOOR = np.isin(np.arange(len(Tile)), [*DOORS, Tile.DOORWAY])
_UNKNOWN = int(Tile.UNKNOWN)
_DIAGONALS = frozenset(("northeast", "southwest"))


class Random:
    """Draws evenly from the legal actions."""

    def __init__(self) -> None:
        self._random: dict[int, random.Random] = {}

    def reset(self, slot: int, seed: int) -> None:
        self._random[slot] = random.Random(seed)

    def act(self, slots: Sequence[int], games: Sequence[Playthrough]) -> list[str]:
        return [self._random[slot].choice(game.legal) for slot, game in zip(slots, games, strict=True)]


class WallAvoidance:
    """Walks on in one direction and turns where it is not free; never bumps into what it knows to be solid."""

    def __init__(self) -> None:
        self._random: dict[int, random.Random] = {}
        self._heading: dict[int, str] = {}

    def reset(self, slot: int, seed: int) -> None:
        self._random[slot] = random.Random(seed)
        self._heading.pop(slot, None)

    def act(self, slots: Sequence[int], games: Sequence[Playthrough]) -> list[str]:
        return [self._choose(slot, game) for slot, game in zip(slots, games, strict=True)]

    def _choose(self, slot: int, game: Playthrough) -> str:
        draw = self._random[slot]
        free = [
            name
            for name in game.legal
            if name in DIRECTIONS and game.scene.tile(name) not in (Tile.UNKNOWN, Tile.BOULDER)
        ]
        heading = self._heading.get(slot)
        if heading in free and game.scene.moved and draw.random() < KEEP_GOING:
            return heading
        if not free:
            self._heading.pop(slot, None)
            return "search"
        onward = [name for name in free if heading is None or name != OPPOSITE[heading]]
        self._heading[slot] = draw.choice(onward or free)
        return self._heading[slot]


class Frontier:
    """Walks the shortest known way to what its task is after, else to the nearest unexplored edge; no draws.

    combat: the nearest hostile; descend: the way down; resource: the nearest item. When nothing is left to explore it
    takes the stairs down, and searches for hidden doors where there are none. Where it may pray, it does.
    """

    def __init__(self, task: Skill) -> None:
        self.task = task
        self._blocked: dict[int, dict[tuple[int, int], np.ndarray]] = {}

    def reset(self, slot: int, seed: int) -> None:
        self._blocked[slot] = {}

    def act(self, slots: Sequence[int], games: Sequence[Playthrough]) -> list[str]:
        return [self._choose(slot, game) for slot, game in zip(slots, games, strict=True)]

    def _choose(self, slot: int, game: Playthrough) -> str:
        scene, level, legal = game.scene, game.memory.level, game.legal
        blocked = self._blocked[slot].setdefault(scene.level, np.zeros(level.tiles.shape, dtype=bool))
        self._note_bump(game, blocked)
        if "pray" in legal:
            return "pray"
        # What could not be lifted just now will not be lifted by trying again.
        if self.task == "resource" and "pickup" in legal and (scene.action != "pickup" or scene.picked_up):
            return "pickup"
        if self.task == "descend" and "down" in legal:
            return "down"

        moves = tuple(name for name in legal if name in DIRECTIONS)
        if not moves:
            return "search"
        explored, closed, doors, stuck = paths.bits_of_each(
            [level.explored, _IS_CLOSED.take(level.tiles), _IS_DOOR.take(level.tiles), blocked]
        )
        passable = explored & ~closed & ~stuck
        diagonal = passable & ~doors if not _DIAGONALS.isdisjoint(game.actions) else 0

        def towards(goals: int) -> str | None:
            if not (goals := goals & ~stuck):
                return None
            found = paths.nearest(passable, goals, scene.y, scene.x, diagonal=diagonal, directions=moves)
            return found[1][0] if found is not None and found[1] else None

        ground = explored & ~closed
        return towards(self._wanted(game)) or towards(self._edge(game, ground)) or self._leave(game, towards)

    def _note_bump(self, game: Playthrough, blocked: np.ndarray) -> None:
        """A step that led nowhere is not tried again: a locked door, a boulder that is stuck, solid rock.

        On open ground it is: there the hero was held (a trap), or somebody was in the way.
        """
        scene, before = game.scene, game.before
        if before is None or scene.moved or scene.action not in DIRECTIONS or "door opens" in scene.text:
            return
        if not scene.took_time or before.tile(scene.action) in (Tile.CLOSED_DOOR, Tile.BOULDER, Tile.UNKNOWN):
            y, x = scene.y + DIRECTIONS[scene.action][0], scene.x + DIRECTIONS[scene.action][1]
            if 0 <= y < blocked.shape[0] and 0 <= x < blocked.shape[1]:
                blocked[y, x] = True

    def _wanted(self, game: Playthrough) -> int:
        level, scene = game.memory.level, game.scene
        match self.task:
            case "combat":
                cells = (paths.bit(*divmod(cell, paths.WIDTH)) for cell in scene.hostiles.tolist())
                return functools.reduce(operator.or_, cells, 0)
            case "descend":
                return paths.bits(level.tiles == Tile.STAIRS_DOWN)
            case "resource":
                return paths.bits(level.lying & (level.visits == 0))
        return 0

    def _edge(self, game: Playthrough, ground: int) -> int:
        """`ground` never stood on that has something unknown beside it."""
        level = game.memory.level
        unknown, visited = paths.bits_of_each([level.tiles == _UNKNOWN, level.visits])
        return ground & ~visited & (unknown | paths.orthogonal(unknown) | paths.slanted(unknown))

    def _leave(self, game: Playthrough, towards: Callable[[int], str | None]) -> str:
        if "down" in game.legal:
            return "down"
        return towards(paths.bits(game.memory.level.tiles == Tile.STAIRS_DOWN)) or "search"
