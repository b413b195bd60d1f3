"""The compact observation vector: 12 scalars, four neighbouring tiles, the skill, and the mask of legal actions.

For the 13 reference actions it has 106 numbers:

| index | what | scale |
|---|---|---|
| 0 | hit points | / maximum |
| 1 | maximum of hit points | / 20 |
| 2 | gold | / 100 |
| 3 | depth | / 10 |
| 4 | turn | / 1000 |
| 5 | armour class | / 20 |
| 6, 7 | strength (NLE's 3..25), dexterity | / 25 |
| 8, 9 | monsters in view, known items of the level | / 8, at most 1 |
| 10 | explored tiles of the level | / 400, at most 1 |
| 11 | rooms of the level | / 20, at most 1 |
| 12..87 | one-hot of 19 `Tile` kinds for north, south, east, west | |
| 88..92 | one-hot of the five skills | |
| 93.. | mask of the actions, 1 legal | |
"""

from typing import Any

import numpy as np

from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.scene import Scene

SCALARS = 12
TILE_KINDS = len(Tile)
NEIGHBOURS = 4
SKILL_COUNT = 5
_SKILL_OFFSET = SCALARS + NEIGHBOURS * TILE_KINDS
MASK_OFFSET = _SKILL_OFFSET + SKILL_COUNT


def size(actions: int) -> int:
    """Length of the vector for an action set of `actions` actions: 106 for 13."""
    return MASK_OFFSET + actions


def vector(scene: Scene, skill: int, mask: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The observation vector, float32 of shape (93 + len(mask),), written into `out` where given.

    Args:
        skill: index of the active skill in `tasks.skills.SKILLS`.
        mask: (actions,) 1 or True for a legal action.
    """
    if out is None:
        out = np.zeros(size(len(mask)), dtype=np.float32)
    else:
        out.fill(0.0)
    numbers: Any = memoryview(out)  # type: ignore[arg-type]  # single numbers are written several times faster than through the array
    numbers[0] = scene.hp / max(scene.max_hp, 1)
    numbers[1] = scene.max_hp / 20
    numbers[2] = scene.gold / 100
    numbers[3] = scene.depth / 10
    numbers[4] = scene.turn / 1000
    numbers[5] = scene.ac / 20
    numbers[6] = scene.strength / 25
    numbers[7] = scene.dexterity / 25
    numbers[8] = min(len(scene.in_view) / 8, 1.0)
    numbers[9] = min(scene.items_in_view / 8, 1.0)
    numbers[10] = min(scene.explored / 400, 1.0)
    numbers[11] = min(scene.rooms / 20, 1.0)
    for neighbour, tile in enumerate(scene.adjacent[:NEIGHBOURS].tolist()):
        numbers[SCALARS + TILE_KINDS * neighbour + tile] = 1.0
    numbers[_SKILL_OFFSET + skill] = 1.0
    out[MASK_OFFSET:] = mask
    return out
