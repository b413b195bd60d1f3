"""One moment of a game, understood: status, surroundings, and what has just been found. Made by `Memory.update`."""

from typing import Any

import numpy as np

from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.game.game import Step
from nethack_pipe.game.tables import BL, MONSTER_NAMES, OBJECT_DESCRIPTIONS, OBJECT_NAMES
from nethack_pipe.perception import glyphs
from nethack_pipe.perception.glyphs import Tile

WIDTH = 79
# Members of an enumeration are slow to reach; these are looked up in every step.
_X, _Y, _TIME, _HP, _HPMAX, _AC = (int(BL[name]) for name in ("X", "Y", "TIME", "HP", "HPMAX", "AC"))
_STR25, _DEX, _GOLD, _DEPTH, _XP = (int(BL[name]) for name in ("STR25", "DEX", "GOLD", "DEPTH", "XP"))
_SCORE, _HUNGER, _CAP, _CONDITION = (int(BL[name]) for name in ("SCORE", "HUNGER", "CAP", "CONDITION"))
_DNUM, _DLEVEL = int(BL.DNUM), int(BL.DLEVEL)
_HOSTILE = int(Tile.HOSTILE)


class Scene:
    """The game at one moment, as the player knows it.

    Attributes:
        turn, hp, max_hp, ac, strength, dexterity, gold, depth, experience_level, score, hunger, condition: from NLE's
            blstats; after death those of the last living moment. hunger: 0 satiated, 1 normal, 2 hungry, 3 weak ...
        points: score without the gold that NetHack counts in it.
        level: (dungeon number, level number); y, x: the hero's tile; cell: y * 79 + x.
        action, command, text, took_time, done, alive: what led here (``kick:north``, a ``kick``), all that
            NetHack said, and how it stands.
        ground: Tile under the hero; item_here: something lies there.
        adjacent: (8,) Tile in each direction of `DIRECTIONS`, monsters before items before ground.
        in_view: cell, glyph and `Tile` (HOSTILE, PEACEFUL, PET) of every monster in view, by cell; monsters,
            monster_glyphs, monster_tiles: the same as arrays.
        items_in_view: known items of this level. explored, rooms: tiles and rooms known of this level.
        new_tiles, new_rooms, new_down_stairs, new_up_stairs, new_items, kills: counted in this step for the first time.
        stairs_down_distance: tiles (Chebyshev) to the nearest known way down on this level, 1000 where none is known.
        hp_change: by how much this step changes the hit points, 0 at the start of a game.
        deeper, gold_record: by how much this step passes the deepest level and the most gold of this game.
        moved, repeated_state, recent_tile: position changed; same state, or tile, as one of the last eight.
    """

    __slots__ = (
        "action", "command", "text", "took_time", "done", "alive", "turn", "hp", "max_hp", "ac", "strength",
        "dexterity", "gold", "depth", "experience_level", "score", "points", "hunger", "burden", "condition", "level",
        "y", "x", "cell", "ground", "item_here", "adjacent", "in_view",
        "items_in_view", "explored", "rooms", "unique_tiles", "rooms_found", "new_tiles", "new_rooms",
        "new_down_stairs", "new_up_stairs", "new_items", "kills", "hp_change", "deeper", "gold_record", "moved",
        "picked_up", "repeated_state", "recent_tile", "swallowed", "stairs_down_distance", "_hostile_near",
    )  # fmt: skip

    # Set by Memory.update.
    ground: int
    item_here: bool
    adjacent: np.ndarray
    items_in_view: int
    explored: int
    rooms: int
    unique_tiles: int
    rooms_found: int
    kills: int
    points: int
    hp_change: int
    deeper: int
    gold_record: int
    moved: bool
    repeated_state: bool
    recent_tile: bool
    swallowed: bool
    stairs_down_distance: int

    def __init__(self, step: Step, stats: list[int], action: str | None) -> None:
        self.action = action
        self.command = action.partition(":")[0] if action else None
        self.text: str = step.text
        self.took_time: bool = step.took_time
        self.done: bool = step.done
        self.alive: bool = step.end_status != 1
        self.x, self.y = stats[_X], stats[_Y]
        self.cell = self.y * WIDTH + self.x
        self.turn, self.hp, self.max_hp, self.ac = stats[_TIME], stats[_HP], stats[_HPMAX], stats[_AC]
        self.strength, self.dexterity = stats[_STR25], stats[_DEX]
        self.gold, self.depth, self.experience_level = stats[_GOLD], stats[_DEPTH], stats[_XP]
        self.score, self.hunger, self.burden = stats[_SCORE], stats[_HUNGER], stats[_CAP]
        self.condition = stats[_CONDITION]
        self.level = (stats[_DNUM], stats[_DLEVEL])
        self.in_view: list[tuple[int, int, int]] = []
        self.new_tiles = self.new_rooms = self.new_down_stairs = self.new_up_stairs = self.new_items = 0
        self.picked_up = False
        self._hostile_near: bool | None = None

    @property
    def hostile_adjacent(self) -> bool:
        """A hostile monster on one of the eight tiles around the hero, or around everything (swallowed)."""
        if self._hostile_near is None:
            self._hostile_near = self.swallowed or _HOSTILE in self.adjacent.tolist()
        return self._hostile_near

    @property
    def monsters(self) -> np.ndarray:
        return np.array([cell for cell, _, _ in self.in_view], dtype=np.int64)

    @property
    def monster_glyphs(self) -> np.ndarray:
        return np.array([glyph for _, glyph, _ in self.in_view], dtype=np.int16)

    @property
    def monster_tiles(self) -> np.ndarray:
        return np.array([tile for _, _, tile in self.in_view], dtype=np.uint8)

    @property
    def hostiles(self) -> np.ndarray:
        """(k,) cells of the hostile monsters in view."""
        return np.array([cell for cell, _, tile in self.in_view if tile == _HOSTILE], dtype=np.int64)

    @property
    def low_hp(self) -> bool:
        return 2 * self.hp <= self.max_hp

    def tile(self, direction: str) -> int:
        """What is on the tile next to the hero in `direction`."""
        return int(self.adjacent[_INDEX[direction]])


_INDEX = {name: i for i, name in enumerate(DIRECTIONS)}


def _looks(item: int) -> str:
    """What an object looks like from afar; only kinds that look like nothing else go by their name."""
    return (OBJECT_DESCRIPTIONS[item] or OBJECT_NAMES[item]) if item >= 0 else "remains"


def structured(scene: Scene, step: Step) -> dict[str, Any]:
    """The scene as plain numbers, strings and lists, for prompts, logs and JSON.

    Distances are in moves (Chebyshev). Items are those that the screen shows.
    """
    stats = step.observation["blstats"]
    screen = step.observation["glyphs"].ravel()

    def distance(cell: int) -> int:
        return max(abs(cell // WIDTH - scene.y), abs(cell % WIDTH - scene.x))

    monsters = [
        {
            "kind": MONSTER_NAMES[glyphs.MONSTER_OF[glyph]] if glyphs.MONSTER_OF[glyph] >= 0 else "unseen monster",
            "attitude": Tile(tile).name.lower(),
            "position": [cell % WIDTH, cell // WIDTH],
            "distance": distance(cell),
        }
        for cell, glyph, tile in scene.in_view
    ]
    items = [
        {
            "kind": _looks(int(glyphs.OBJECT_OF[screen[cell]])),
            "position": [cell % WIDTH, cell // WIDTH],
            "distance": distance(cell),
        }
        for cell in np.flatnonzero(glyphs.IS_ITEM[screen]).tolist()
        if cell != scene.cell
    ]
    return {
        "hp": scene.hp,
        "max_hp": scene.max_hp,
        "ac": scene.ac,
        "attributes": {
            "strength": int(stats[BL.STR25]),
            "dexterity": int(stats[BL.DEX]),
            "constitution": int(stats[BL.CON]),
            "intelligence": int(stats[BL.INT]),
            "wisdom": int(stats[BL.WIS]),
            "charisma": int(stats[BL.CHA]),
        },
        "gold": scene.gold,
        "depth": scene.depth,
        "turn": scene.turn,
        "hunger": scene.hunger,
        "position": [scene.x, scene.y],
        "on": Tile(scene.ground).name.lower(),
        "item_here": bool(scene.item_here),
        "adjacent": {
            name: Tile(tile).name.lower() for name, tile in zip(DIRECTIONS, scene.adjacent.tolist(), strict=True)
        },
        "monsters": sorted(monsters, key=lambda monster: monster["distance"]),
        "items": sorted(items, key=lambda item: item["distance"]),
        "message": scene.text,
    }
