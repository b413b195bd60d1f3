"""One game being played: the simulator, what is remembered of it, and which actions make sense now."""

from collections.abc import Sequence
from copy import copy

import numpy as np

from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS, targets
from nethack_pipe.game.game import Game, Step
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.memory import Memory
from nethack_pipe.perception.scene import Scene
from nethack_pipe.tasks.prayer import Prayer
from nethack_pipe.tasks.rewards import SATIATED

# Tiles that no step can or should enter: walls and bars, water and lava, and monsters one does not attack.
CLOSED = frozenset(map(int, (Tile.WALL, Tile.OBSTACLE, Tile.LIQUID, Tile.PEACEFUL)))
# No diagonal step leads into or out of a doorway with a door in it (NetHack's test_move()).
DOORS = frozenset(map(int, (Tile.OPEN_DOOR, Tile.CLOSED_DOOR)))
# What a kick or an opening hand can be aimed at by default.
AIMED_AT = frozenset(map(int, (Tile.CLOSED_DOOR, Tile.HOSTILE, Tile.PEACEFUL)))
_STAIRS_UP, _STAIRS_DOWN = int(Tile.STAIRS_UP), int(Tile.STAIRS_DOWN)


class Playthrough:
    """A `Game` with its `Memory`.

    Attributes:
        scene: the present moment; before: the one before it (None after `reset`).
        mask: (len(actions),) bool, the legal actions of the present moment; never empty.
        prayer: when the hero had better pray; where `actions` have it, that is when a prayer is legal.
    """

    def __init__(self, game: Game, actions: Sequence[str] = ACTION_SETS["reference"]) -> None:
        self.game = game
        self.actions = tuple(actions)
        self._targets: dict[str, str | None] = {}
        self._inventory = b""
        directions = list(DIRECTIONS)
        self._moves = [
            (i, directions.index(name), 0 not in DIRECTIONS[name])
            for i, name in enumerate(self.actions)
            if name in DIRECTIONS
        ]
        self._index = {name: i for i, name in enumerate(self.actions)}
        self._targeted = [name for name in ("kick", "open", "eat", "drink", "drop") if name in self._index]

    def reset(self, seed: int) -> Scene:
        """Starts the game of `seed`."""
        step = self.game.reset(seed)
        self.memory = Memory()
        self.prayer = Prayer()
        self._inventory = b""
        self.before: Scene | None = None
        return self._look(step, None)

    def step(self, action: str) -> Scene:
        """Plays one action, legal or not, and returns the scene after it."""
        self.before = self.scene
        if action == "pray":
            self.prayer.prayed(self.scene)
        return self._look(self.game.step(action), action)

    def twin(self, game: Game, memory: Memory) -> "Playthrough":
        """The same moment in a branch: `game` is the branch's, `memory` a copy of this one's."""
        twin = Playthrough(game, self.actions)
        twin._inventory, twin._targets, twin.prayer = self._inventory, self._targets, copy(self.prayer)
        twin.memory, twin.scene, twin.before, twin.mask = memory, self.scene, self.before, self.mask
        return twin

    def _look(self, step: Step, action: str | None) -> Scene:
        self.scene = self.memory.update(step, action)
        self.mask = self._legal(step)
        return self.scene

    def _legal(self, step: Step) -> np.ndarray:
        scene = self.scene
        around = scene.adjacent.tolist()
        mask = [False] * len(self.actions)
        for i, direction, slanted in self._moves:
            tile = around[direction]
            mask[i] = tile not in CLOSED and not (slanted and (tile in DOORS or scene.ground in DOORS))
        kickable = not AIMED_AT.isdisjoint(around)
        inventory = b"".join([step.observation[key].tobytes() for key in ("inv_letters", "inv_oclasses", "inv_worn")])
        if kickable or inventory != self._inventory:
            self._inventory = inventory
            self._targets = targets(step.observation)
        where = self._index
        mask[where["wait"]] = mask[where["search"]] = True
        mask[where["pickup"]] = scene.item_here
        mask[where["up"]] = scene.ground == _STAIRS_UP and scene.depth > 1
        mask[where["down"]] = scene.ground == _STAIRS_DOWN
        for name in self._targeted:
            aimed = kickable or name not in ("kick", "open")  # their targets were found where the hero was before
            mask[where[name]] = aimed and self._targets[name] is not None
        if scene.hunger == SATIATED:  # who eats on may choke
            mask[where["eat"]] = False
        if "pray" in where:
            mask[where["pray"]] = self.prayer.is_due(scene)
        return np.array(mask)

    @property
    def legal(self) -> list[str]:
        """Names of the legal actions, in the order of the action set."""
        return [name for name, allowed in zip(self.actions, self.mask.tolist(), strict=True) if allowed]
