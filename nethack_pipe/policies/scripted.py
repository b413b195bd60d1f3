"""Policies that are rules: random, wall_avoidance, frontier."""

import random
from collections.abc import Callable, Sequence

import numpy as np
from scipy import ndimage

from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.perception import paths
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.tasks.playthrough import CLOSED, DOORS, Playthrough
from nethack_pipe.tasks.skills import Skill

OPPOSITE = {name: other for name, (y, x) in DIRECTIONS.items() for other, to in DIRECTIONS.items() if to == (-y, -x)}
KEEP_GOING = 0.8  # probability that wall_avoidance goes on in its direction while it is free
_IS_CLOSED = np.isin(np.arange(len(Tile)), list(CLOSED))
_IS_DOOR = np.isin(np.arange(len(Tile)), [*DOORS, Tile.DOORWAY])
_EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=bool)


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
    takes the stairs down, and searches for hidden doors where there are none.
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
        # What could not be lifted just now will not be lifted by trying again.
        if self.task == "resource" and "pickup" in legal and (scene.action != "pickup" or scene.picked_up):
            return "pickup"
        if self.task == "descend" and "down" in legal:
            return "down"

        open_ground = level.explored & ~_IS_CLOSED[level.tiles] & ~blocked
        diagonal = 0
        if any(name in game.actions for name in ("northeast", "southwest")):
            diagonal = paths.bits(open_ground & ~_IS_DOOR[level.tiles])
        passable = paths.bits(open_ground)
        moves = tuple(name for name in legal if name in DIRECTIONS)

        def towards(goals: np.ndarray) -> str | None:
            found = paths.nearest(
                passable, paths.bits(goals & ~blocked), scene.y, scene.x, diagonal=diagonal, directions=moves
            )
            return found[1][0] if found is not None and found[1] else None

        if not moves:
            return "search"
        return towards(self._wanted(game)) or towards(self._edge(game)) or self._leave(game, towards)

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

    def _wanted(self, game: Playthrough) -> np.ndarray:
        level, scene = game.memory.level, game.scene
        goals = np.zeros(level.tiles.shape, dtype=bool)
        match self.task:
            case "combat":
                goals.flat[scene.hostiles] = True
            case "descend":
                goals |= level.tiles == Tile.STAIRS_DOWN
            case "resource":
                goals |= level.lying & (level.visits == 0)
            case "explore" | "survive":
                pass
        return goals

    def _edge(self, game: Playthrough) -> np.ndarray:
        """Ground never stood on that has something unknown beside it."""
        level = game.memory.level
        unknown = ndimage.binary_dilation(level.tiles == Tile.UNKNOWN, structure=_EIGHT_NEIGHBOURS)
        return level.explored & (level.visits == 0) & unknown & ~_IS_CLOSED[level.tiles]

    def _leave(self, game: Playthrough, towards: Callable[[np.ndarray], str | None]) -> str:
        if "down" in game.legal:
            return "down"
        return towards(game.memory.level.tiles == Tile.STAIRS_DOWN) or "search"
