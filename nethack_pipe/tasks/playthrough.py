"""One game being played: the simulator, what is remembered of it, and which actions make sense now."""

from collections.abc import Sequence

import numpy as np

from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS, targets
from nethack_pipe.game.game import Game, Step
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.memory import Memory
from nethack_pipe.perception.scene import Scene

# Tiles that no step can or should enter: walls and bars, water and lava, and monsters one does not attack.
_CLOSED = (Tile.WALL, Tile.OBSTACLE, Tile.LIQUID, Tile.PEACEFUL)
CLOSED = np.zeros(len(Tile), dtype=bool)
CLOSED[list(_CLOSED)] = True
# No diagonal step leads into or out of a doorway with a door in it (NetHack's test_move()).
DOORS = np.zeros(len(Tile), dtype=bool)
DOORS[[Tile.OPEN_DOOR, Tile.CLOSED_DOOR]] = True


class Playthrough:
    """A `Game` with its `Memory`.

    Attributes:
        scene: the present moment; before: the one before it (None after `reset`).
        mask: (len(actions),) bool, the legal actions of the present moment; never empty.
    """

    def __init__(self, game: Game, actions: Sequence[str] = ACTION_SETS["reference"]) -> None:
        self.game = game
        self.actions = tuple(actions)
        self._moves = [(i, name) for i, name in enumerate(self.actions) if name in DIRECTIONS]
        self._move_index = np.array([i for i, _ in self._moves])
        self._direction_index = np.array([list(DIRECTIONS).index(name) for _, name in self._moves])
        self._slanted = np.array([0 not in DIRECTIONS[name] for _, name in self._moves])
        self._rest = [(i, name) for i, name in enumerate(self.actions) if name not in DIRECTIONS]

    def reset(self, seed: int) -> Scene:
        """Starts the game of `seed`."""
        step = self.game.reset(seed)
        self.memory = Memory()
        self.before: Scene | None = None
        return self._look(step, None)

    def step(self, action: str) -> Scene:
        """Plays one action, legal or not, and returns the scene after it."""
        self.before = self.scene
        return self._look(self.game.step(action), action)

    def twin(self, game: Game, memory: Memory) -> "Playthrough":
        """The same moment in a branch: `game` is the branch's, `memory` a copy of this one's."""
        twin = Playthrough(game, self.actions)
        twin.memory, twin.scene, twin.before, twin.mask = memory, self.scene, self.before, self.mask
        return twin

    def _look(self, step: Step, action: str | None) -> Scene:
        self.scene = self.memory.update(step, action)
        self.mask = self._legal(step)
        return self.scene

    def _legal(self, step: Step) -> np.ndarray:
        scene = self.scene
        mask = np.zeros(len(self.actions), dtype=bool)
        around = scene.adjacent[self._direction_index]
        free = ~CLOSED[around]
        if self._slanted.any():
            free &= ~(self._slanted & (DOORS[around] | DOORS[scene.ground]))
        mask[self._move_index] = free
        target = targets(step.observation)
        for i, name in self._rest:
            match name:
                case "wait" | "search":
                    mask[i] = True
                case "pickup":
                    mask[i] = scene.item_here
                case "up":
                    mask[i] = scene.ground == Tile.STAIRS_UP and scene.depth > 1
                case "down":
                    mask[i] = scene.ground == Tile.STAIRS_DOWN
                case _:
                    mask[i] = target[name] is not None
        return mask

    @property
    def legal(self) -> list[str]:
        """Names of the legal actions, in the order of the action set."""
        return [name for name, allowed in zip(self.actions, self.mask.tolist(), strict=True) if allowed]
