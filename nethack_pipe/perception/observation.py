"""What a learned policy sees: the reference vector of `perception.features`, or a rich one that also knows the ways.

``python -m nethack_pipe.perception.observation`` prints what each number of both is.

A rich observation has scalars, the eight neighbours, the skill and the mask, and these parts, each of which can be left
out: ``paths``, ways over the ground that is known; ``recency``, where the hero has just been and what he did there;
``monsters``, what the hostile ones that he sees are like; ``crop``, the 9 x 9 tiles around him; ``map``, the whole
level, coarsely. All is read from a `Scene` and its `Memory` and nothing else is kept, so that a game, and a twin that
looks ahead, are seen alike.

The larger parts are computed by native/paths.c, or without a compiler, to the same bits, by numpy and
`perception.paths`. NETHACK_PIPE_KERNELS=python in the environment chooses the latter.
"""

import ctypes
import functools
import itertools
import math
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np

from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS
from nethack_pipe.game.tables import CONDITIONS
from nethack_pipe.native import build
from nethack_pipe.perception import features, glyphs, paths
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.memory import HEIGHT, LATEST_ACTIONS, WIDTH, LevelMemory, Memory
from nethack_pipe.perception.scene import Scene

ObservationKind = Literal["reference", "rich"]
Part = Literal["paths", "recency", "monsters", "crop", "map"]
PARTS: tuple[Part, ...] = get_args(Part)
_KERNEL_PARTS = ("paths", "recency", "crop", "map")  # as in native/paths.c

TARGETS = {
    "frontier": "walkable, never stood on, beside something never seen",
    "downstairs": "known staircase or ladder down",
    "upstairs": "known staircase or ladder up",
    "item": "walkable, never stood on, something to pick up lies there",
    "hostile": "hostile monster in view; one that has swallowed the hero is a step away on all sides",
    "closed_door": "known closed door, a locked one too",
    "unvisited": "walkable, never stood on",
}
FAR = 40  # steps, from where on the first of the two distances stays 1
PATH_NUMBERS = 3 + len(DIRECTIONS)
MONSTERS = 2  # the nearest
MONSTER_NUMBERS = 9
TRAITS = "level / 10, speed / 12, most damage in one go / 20, 1 where hitting it hurts"
NEAR = 8  # tiles, from where on differences of rows and columns stay 1
CROP = 9
HALF_LIFE = 8  # steps until a visit counts half
MANY_VISITS = 4  # that count half of the most
CROP_PLANES: dict[str, tuple[Tile, ...]] = {  # all but UNKNOWN
    "wall": (Tile.WALL, Tile.OBSTACLE),
    "floor": (Tile.FLOOR, Tile.FIXTURE),
    "corridor": (Tile.CORRIDOR,),
    "doorway": (Tile.DOORWAY, Tile.OPEN_DOOR),
    "closed door": (Tile.CLOSED_DOOR,),
    "stairs up": (Tile.STAIRS_UP,),
    "stairs down": (Tile.STAIRS_DOWN,),
    "liquid": (Tile.LIQUID,),
    "trap": (Tile.TRAP,),
    "boulder": (Tile.BOULDER,),
    "item": (Tile.ITEM, Tile.GOLD),
    "pet": (Tile.PET,),
    "peaceful": (Tile.PEACEFUL,),
    "hostile": (Tile.HOSTILE,),
}
MAP_ROWS, MAP_COLUMNS = 7, 13  # blocks of 3 rows and 6 columns, 7 columns in one of them
MAP_PLANES = ("seen", "walkable", "visited", "item", "hostile", "hero")
HUNGER = ("satiated", "normal", "hungry", "weak", "fainting")

_BLOCK_OF_ROW = np.arange(HEIGHT) * MAP_ROWS // HEIGHT
_BLOCK_OF_COLUMN = np.arange(WIDTH) * MAP_COLUMNS // WIDTH
_ROWS_IN_BLOCK = (np.arange(MAP_ROWS)[:, None] == _BLOCK_OF_ROW).astype(np.float32)
_COLUMNS_IN_BLOCK = (_BLOCK_OF_COLUMN[:, None] == np.arange(MAP_COLUMNS)).astype(np.float32)
_BLOCK_SIZES = np.outer(_ROWS_IN_BLOCK.sum(axis=1), _COLUMNS_IN_BLOCK.sum(axis=0))

_HOSTILE, _UNKNOWN = int(Tile.HOSTILE), int(Tile.UNKNOWN)
_DOWN, _UP = int(Tile.STAIRS_DOWN), int(Tile.STAIRS_UP)
# Nobody walks through these, whether ground or what is on it. As tasks.playthrough.CLOSED.
_CLOSED = np.isin(np.arange(len(Tile)), (Tile.WALL, Tile.OBSTACLE, Tile.LIQUID, Tile.PEACEFUL))
# Nor diagonally through these; a doorway without a door is passed any way. As tasks.playthrough.DOORS.
_DOORS = (int(Tile.OPEN_DOOR), int(Tile.CLOSED_DOOR))
_DOOR = np.isin(np.arange(len(Tile)), _DOORS)
_NO_PLANE = 255
_PLANE_OF = np.full(len(Tile), _NO_PLANE, dtype=np.uint8)
for _plane, _tiles in enumerate(CROP_PLANES.values()):
    _PLANE_OF[list(_tiles)] = _plane


@dataclass(frozen=True)
class Field:
    """Some numbers of an observation: where they begin, the shape they have (in C order), what they are."""

    name: str
    start: int
    shape: tuple[int, ...]
    meaning: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class ObservationSpec:
    """What an observation consists of. Raises ValueError for an unknown kind or part, and for a reference with parts.

    Attributes:
        parts: of a rich observation; what else there is always is. Kept in the order of `PARTS`.
        actions: names of the actions that the mask is for. Where no diagonal step is among them, ways have none.
    """

    kind: ObservationKind
    parts: tuple[Part, ...]
    actions: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.kind not in get_args(ObservationKind):
            raise ValueError(f"observation: expected one of {', '.join(get_args(ObservationKind))}, got {self.kind!r}")
        unknown = [part for part in self.parts if part not in PARTS]
        if unknown or len(set(self.parts)) < len(self.parts):
            raise ValueError(f"observation parts: expected each of {', '.join(PARTS)} at most once, got {self.parts!r}")
        if self.kind == "reference" and self.parts:
            raise ValueError(f"observation parts: the reference observation has none, got {self.parts!r}")
        object.__setattr__(self, "parts", tuple(part for part in PARTS if part in self.parts))
        object.__setattr__(self, "actions", tuple(self.actions))

    @functools.cached_property
    def fields(self) -> tuple[Field, ...]:
        """All numbers, in order and without gaps."""
        start, placed = 0, []
        for name, shape, meaning in _reference_fields(self) if self.kind == "reference" else _rich_fields(self):
            placed.append(Field(name, start, shape, meaning))
            start += placed[-1].size
        return tuple(placed)

    @functools.cached_property
    def size(self) -> int:
        return self.fields[-1].start + self.fields[-1].size

    @functools.cached_property
    def skill(self) -> slice:
        """The one-hot of the five skills, in the order of `tasks.skills.SKILLS`."""
        return self.where("skill")

    @functools.cached_property
    def mask(self) -> slice:
        return self.where("mask")

    def where(self, name: str) -> slice:
        """The numbers of the field `name`. KeyError when there is none."""
        for field in self.fields:
            if field.name == name:
                return slice(field.start, field.start + field.size)
        raise KeyError(f"no field {name!r} in a {self.kind} observation with parts {self.parts}")


_Fields = Iterator[tuple[str, tuple[int, ...], str]]


def _reference_fields(spec: ObservationSpec) -> _Fields:
    yield "scalars", (features.SCALARS,), "see perception.features"
    yield "neighbours", (features.NEIGHBOURS, features.TILE_KINDS), "one-hot of Tile: north, south, east, west"
    yield "skill", (features.SKILL_COUNT,), "one-hot"
    yield "mask", (len(spec.actions),), "1 legal, 0 not"


def _rich_fields(spec: ObservationSpec) -> _Fields:
    for name, meaning in _SCALARS.items():
        yield name, (), meaning
    yield "hunger", (len(HUNGER),), f"one-hot: {', '.join(HUNGER)}"
    yield "condition", (len(CONDITIONS),), f"0 or 1: {', '.join(CONDITIONS)}"
    yield "ground", (len(Tile),), "one-hot of Tile: under the hero"
    yield "neighbours", (len(DIRECTIONS), len(Tile)), f"one-hot of Tile: {', '.join(DIRECTIONS)}"
    yield "skill", (features.SKILL_COUNT,), "one-hot"
    yield "mask", (len(spec.actions),), "1 legal, 0 not"
    if "recency" in spec.parts:
        yield "last_actions", (LATEST_ACTIONS, len(spec.actions)), "one-hot, latest first; none for any other action"
    if "monsters" in spec.parts:
        yield "monsters_adjacent", (len(DIRECTIONS), 4), f"hostile in view ({', '.join(DIRECTIONS)}): {TRAITS}"
        where = f"1, rows south and columns east / {NEAR} (-1 to 1), 1 / distance"
        what = f"nearest hostiles in view (none inside a monster): {where}, {TRAITS}, 1 where it attacks from afar"
        yield "monsters_near", (MONSTERS, MONSTER_NUMBERS), what
    if "paths" in spec.parts:
        for name, meaning in TARGETS.items():
            what = f"nearest {name} ({meaning}): reachable, steps / {FAR} (at most 1), 1 / (1 + steps), "
            yield f"path_{name}", (PATH_NUMBERS,), f"{what}then 1 where a step comes nearer: {', '.join(DIRECTIONS)}"
    if "recency" in spec.parts:
        yield "recency", (CROP, CROP), f"tiles around the hero: {HALF_LIFE} / ({HALF_LIFE} + steps since he was there)"
        yield "visits", (CROP, CROP), f"tiles around the hero: steps spent there / (the same + {MANY_VISITS})"
    if "crop" in spec.parts:
        planes = f"a plane of 0 and 1 each: {', '.join(CROP_PLANES)}"
        yield "crop", (len(CROP_PLANES), CROP, CROP), f"tiles around the hero, {planes}"
    if "map" in spec.parts:
        blocks = "blocks of the level; share of tiles seen, walkable, visited; 1 where an item, a hostile, the hero is"
        yield "map", (len(MAP_PLANES), MAP_ROWS, MAP_COLUMNS), blocks
        yield "place", (2,), f"row / {HEIGHT - 1}, column / {WIDTH - 1} of the hero"


_SCALARS = {
    "hp": "hit points / maximum",
    "max_hp": "maximum of hit points / 50",
    "low_hp": "1 at or below half",
    "hp_change": "change of hit points by the last action / maximum",
    "ac": "armour class / 20",
    "strength": "/ 25",
    "dexterity": "/ 25",
    "experience_level": "/ 10",
    "depth": "/ 10",
    "turn": "/ 1000",
    "steps": "actions so far / 1000",
    "gold": "gold / (gold + 100)",
    "burden": "0 unencumbered .. 1 overloaded",
    "hostiles_adjacent": "/ 8",
    "hostiles_in_view": "/ 8, at most 1",
    "items": "known items of the level / 8, at most 1",
    "explored": "known tiles of the level / 400, at most 1",
    "rooms": "known rooms of the level / 10, at most 1",
    "new_tiles": "found by the last action / 20, at most 1",
    "item_here": "1 where something lies under the hero",
    "visits_here": f"steps spent on this tile / (the same + {MANY_VISITS})",
    "took_time": "1 if the last action did",
    "moved": "1 if the last action moved the hero",
    "repeated_state": "1 if this is one of the last eight states",
    "recent_tile": "1 after a step onto one of the last eight tiles",
    "swallowed": "1 inside a monster",
}
_CONDITION_BITS = tuple(CONDITIONS.values())


def _scalars(scene: Scene, memory: Memory, around: list[int]) -> tuple[float, ...]:
    """The numbers of `_SCALARS`, hunger and condition."""
    visits = memory.level.visits.item(scene.cell)
    return (
        scene.hp / max(scene.max_hp, 1),
        scene.max_hp / 50,
        scene.low_hp,
        scene.hp_change / max(scene.max_hp, 1),
        scene.ac / 20,
        scene.strength / 25,
        scene.dexterity / 25,
        scene.experience_level / 10,
        scene.depth / 10,
        scene.turn / 1000,
        (memory.steps - 1) / 1000,
        scene.gold / (scene.gold + 100),
        scene.burden / 5,
        around.count(_HOSTILE) / 8,
        min(len([tile for _, _, tile in scene.in_view if tile == _HOSTILE]) / 8, 1.0),
        min(scene.items_in_view / 8, 1.0),
        min(scene.explored / 400, 1.0),
        min(scene.rooms / 10, 1.0),
        min(scene.new_tiles / 20, 1.0),
        scene.item_here,
        visits / (visits + MANY_VISITS),
        scene.took_time,
        scene.moved,
        scene.repeated_state,
        scene.recent_tile,
        scene.swallowed,
        *_HUNGER_NUMBERS[min(scene.hunger, len(HUNGER) - 1)],
        *([scene.condition & bit != 0 for bit in _CONDITION_BITS] if scene.condition else _NO_CONDITION),
    )


_HUNGER_NUMBERS = np.eye(len(HUNGER)).tolist()
_NO_CONDITION = [False] * len(CONDITIONS)
_PACK = struct.Struct(f"{len(_SCALARS) + len(HUNGER) + len(CONDITIONS)}f")
_PACK_ADJACENT = struct.Struct("4f")
_PACK_NEAR = struct.Struct(f"{MONSTER_NUMBERS}f")
# By difference of rows or columns; negative ones count from the end.
_AWAY = [max(-1.0, min(tiles / NEAR, 1.0)) for tiles in (*range(WIDTH), *range(-WIDTH, 0))]
# Of each glyph: what `TRAITS` names, and whether it attacks from afar.
_TRAITS = np.stack(
    [
        glyphs.MONSTER_LEVEL / 10,
        glyphs.MONSTER_SPEED / 12,
        glyphs.MONSTER_DAMAGE / 20,
        glyphs.MONSTER_PASSIVE,
        glyphs.MONSTER_RANGED,
    ],
    axis=1,
).tolist()


class Observer:
    """Makes the observations of a game, in the game itself and in twins that look ahead."""

    def __init__(self, spec: ObservationSpec) -> None:
        self.spec = spec
        if spec.kind == "rich":
            neighbours = spec.where("neighbours")
            self._neighbours = range(neighbours.start, neighbours.stop, len(Tile))
            self._ground, self._skill, self._mask = spec.where("ground").start, spec.skill.start, spec.mask
            self._head = slice(0, _head_size(spec))
            if "recency" in spec.parts:
                self._actions = spec.where("last_actions").start
            if "monsters" in spec.parts:
                adjacent, near = spec.where("monsters_adjacent").start, spec.where("monsters_near")
                self._adjacent = {step: 4 * (adjacent + 4 * i) for i, step in enumerate(DIRECTIONS.values())}  # bytes
                self._near = [4 * place for place in range(near.start, near.stop, MONSTER_NUMBERS)]
            self._index = {name: i for i, name in enumerate(spec.actions)}
        self.reset()

    def reset(self) -> None:
        """A game begins: what was kept of the one before is let go."""
        self._parts: _Parts | None = None
        if any(part in _KERNEL_PARTS for part in self.spec.parts):
            library = _library()
            self._parts = _Plain(self.spec) if library is None else _Compiled(self.spec, library)

    def observe(
        self, scene: Scene, memory: Memory, skill: int, mask: np.ndarray, out: np.ndarray | None = None
    ) -> np.ndarray:
        """The observation of a moment, float32 of shape (spec.size,), written into `out` where given.

        Args:
            memory: whose latest scene `scene` is.
            skill: index of the active skill in `tasks.skills.SKILLS`.
            mask: (actions,) 1 or True for a legal action.
            out: contiguous; ValueError when it is none that can hold the observation.
        """
        if out is None:
            out = np.empty(self.spec.size, dtype=np.float32)
        elif out.shape != (self.spec.size,) or out.dtype != np.float32 or not out.flags.c_contiguous:
            expected = f"contiguous float32 of shape ({self.spec.size},)"
            raise ValueError(f"out: expected {expected}, got {out.dtype} of {out.shape} with strides {out.strides}")
        if self.spec.kind == "reference":
            return features.vector(scene, skill, mask, out)
        out[self._head] = 0.0
        around = scene.adjacent.tolist()
        numbers: Any = memoryview(out)  # type: ignore[arg-type]  # single numbers are written several times faster so
        _PACK.pack_into(numbers, 0, *_scalars(scene, memory, around))
        numbers[self._ground + scene.ground] = 1.0
        for place, tile in zip(self._neighbours, around, strict=True):
            numbers[place + tile] = 1.0
        numbers[self._skill + skill] = 1.0
        out[self._mask] = mask
        if "recency" in self.spec.parts:
            for place, action in zip(itertools.count(self._actions, len(self._index)), memory.actions, strict=False):
                index = self._index.get(action)
                if index is None:  # "kick:north" is a kick
                    index = self._index.get(action.partition(":")[0])
                if index is not None:
                    numbers[place + index] = 1.0
        if "monsters" in self.spec.parts and scene.in_view:
            self._write_monsters(scene, numbers)
        if self._parts is not None:
            self._parts.write(scene, memory, out)
        return out

    def _write_monsters(self, scene: Scene, numbers: Any) -> None:
        """The part `monsters`, over zeros."""
        y, x, adjacent = scene.y, scene.x, self._adjacent
        hostiles = []
        for cell, glyph, tile in scene.in_view:
            if tile == _HOSTILE:
                dy, dx = cell // WIDTH - y, cell % WIDTH - x
                hostiles.append((max(abs(dy), abs(dx)), cell, dy, dx, glyph))
                if (dy, dx) in adjacent:
                    _PACK_ADJACENT.pack_into(numbers, adjacent[dy, dx], *_TRAITS[glyph][:4])
        if len(hostiles) > 1:
            hostiles.sort()
        for place, (distance, _, dy, dx, glyph) in zip(self._near, hostiles, strict=False):
            _PACK_NEAR.pack_into(numbers, place, 1.0, _AWAY[dy], _AWAY[dx], 1 / distance, *_TRAITS[glyph])


def _head_size(spec: ObservationSpec) -> int:
    """How many numbers the observer itself writes; those of `_Parts` follow."""
    if "monsters" in spec.parts:
        return spec.where("monsters_near").stop
    return (spec.where("last_actions") if "recency" in spec.parts else spec.mask).stop


class _Parts(Protocol):
    def write(self, scene: Scene, memory: Memory, out: np.ndarray) -> None:
        """Writes the numbers of all `_KERNEL_PARTS`, each one, but `last_actions`."""


_Ways = Sequence[tuple[int, list[bool]] | None]  # for each target: steps, which directions come nearer
_AROUND_ALL: _Ways = [(1, [True] * len(DIRECTIONS)) if target == "hostile" else None for target in TARGETS]


class _Plain:
    """The parts by numpy and, for ways, whole maps as integers."""

    def __init__(self, spec: ObservationSpec) -> None:
        self._parts = spec.parts
        self._where = {field.name: slice(field.start, field.start + field.size) for field in spec.fields}
        self._slanted = _has_diagonals(spec)
        self._planes = paths.Planes(2)
        self._kept: dict[str, tuple[bytes, list[int]]] = {}
        self._tiles = np.full((HEIGHT + CROP - 1, WIDTH + CROP - 1), Tile.WALL, dtype=np.uint8)

    def write(self, scene: Scene, memory: Memory, out: np.ndarray) -> None:
        level, y, x = memory.level, scene.y, scene.x
        if "paths" in self._parts:
            self._write_paths(_AROUND_ALL if scene.swallowed else self._ways(level, y, x), out)
        if "recency" in self._parts:
            self._write_recency(level, y, x, memory.steps, out)
        if "crop" in self._parts:
            self._write_crop(level, y, x, out)
        if "map" in self._parts:
            self._write_map(level, y, x, out)

    def _ways(self, level: LevelMemory, y: int, x: int) -> _Ways:
        ground, stuck, items, walls, opened, doors, downstairs, upstairs, dark = self._kept_bits(level)
        visited, stands_closed = self._planes.maps
        np.not_equal(level.visits, 0, out=visited)
        stands_closed[:] = _CLOSED.take(level.board[1:-1, 1:-1])
        old, others = self._planes.bits()
        known = ground & ~(stuck | walls | others)
        new, beyond = known & ~old, dark & ~ground
        slanted = paths.FULL & ~(opened | doors) if self._slanted else 0
        foes = _few(level.board.tobytes(), _HOSTILE, WIDTH + 2) >> paths.STRIDE + 1  # without the border
        foes &= ~paths.bit(y, x)  # who was there before the hero
        goals = [
            *(new & (paths.orthogonal(beyond) | paths.slanted(beyond)), downstairs, upstairs),
            *(new & items, foes, doors, new),
        ]
        return paths.nearest_of_each(known, goals, y, x, diagonal=slanted)

    def _kept_bits(self, level: LevelMemory) -> list[int]:
        """Maps that few steps change, as integers: each is made anew only where its bytes are no longer the same."""
        result: list[int] = []
        for name, integers in _SELDOM_CHANGED.items():
            tiles = getattr(level, name)
            seen = tiles.tobytes()
            kept = self._kept.get(name)
            if kept is None or kept[0] != seen:
                kept = self._kept[name] = seen, integers(tiles)
            result += kept[1]
        return result

    def _write_paths(self, ways: _Ways, out: np.ndarray) -> None:
        numbers: list[float] = []
        for way in ways:
            if way is None:
                numbers += _NO_WAY
            else:
                steps, nearer = way
                numbers += (1.0, min(steps, FAR) / FAR, 1 / (1 + steps), *nearer)
        _PACK_WAYS.pack_into(out, 4 * self._where["path_frontier"].start, *numbers)  # type: ignore[arg-type]

    def _write_recency(self, level: LevelMemory, y: int, x: int, steps: int, out: np.ndarray) -> None:
        windows = out[self._where["recency"].start : self._where["visits"].stop].reshape(2, CROP, CROP)
        top, left = y - CROP // 2, x - CROP // 2
        bottom, right = top + CROP, left + CROP
        if top < 0 or left < 0 or bottom > HEIGHT or right > WIDTH:
            windows[:] = 0.0
            windows = windows[:, max(-top, 0) : HEIGHT - top, max(-left, 0) : WIDTH - left]
            top, left = max(top, 0), max(left, 0)
        last, visits = level.last_visit[top:bottom, left:right], level.visits[top:bottom, left:right]
        recency, often = windows
        # In float64, whose quotients of small whole numbers round to the same float32 as float32's own.
        np.divide(HALF_LIFE, HALF_LIFE + steps - last, out=recency, casting="same_kind")
        recency *= last != 0
        np.divide(visits, visits + MANY_VISITS, out=often, casting="same_kind")

    def _write_crop(self, level: LevelMemory, y: int, x: int, out: np.ndarray) -> None:
        self._tiles[_INSIDE] = level.board[1:-1, 1:-1]
        window = self._tiles[y : y + CROP, x : x + CROP].copy()
        window[CROP // 2, CROP // 2] = level.base[y, x]  # not who was there before the hero
        planes = _PLANE_OF.take(window) == np.arange(len(CROP_PLANES))[:, None, None]
        out[self._where["crop"]] = planes.ravel()

    def _write_map(self, level: LevelMemory, y: int, x: int, out: np.ndarray) -> None:
        on = level.board[1:-1, 1:-1]
        walkable = level.explored & ~(level.blocked | _CLOSED.take(level.tiles) | _CLOSED.take(on))
        known = (level.base != _UNKNOWN) | level.explored
        hostile = on == _HOSTILE
        hostile[y, x] = False  # who was there before the hero
        counted = np.array([known, walkable, level.visits > 0, level.lying, hostile], dtype=np.float32)
        counts = _ROWS_IN_BLOCK @ counted @ _COLUMNS_IN_BLOCK  # whole numbers: exact
        blocks = out[self._where["map"]].reshape(len(MAP_PLANES), MAP_ROWS, MAP_COLUMNS)
        blocks[:3] = counts[:3] / _BLOCK_SIZES
        blocks[3:5] = counts[3:] > 0
        blocks[5] = 0.0
        blocks[5, _BLOCK_OF_ROW[y], _BLOCK_OF_COLUMN[x]] = 1.0
        out[self._where["place"]] = y / (HEIGHT - 1), x / (WIDTH - 1)


_NO_WAY = (0.0,) * PATH_NUMBERS
_PACK_WAYS = struct.Struct(f"{len(TARGETS) * PATH_NUMBERS}f")


def _few(tiles: bytes, tile: int, width: int = WIDTH) -> int:
    """Where `tile` is in the bytes of a map of this width, as `paths.bits` has it."""
    found, cell = 0, tiles.find(tile)
    while cell >= 0:
        found |= paths.bit(*divmod(cell, width))
        cell = tiles.find(tile, cell + 1)
    return found


def _grounds(tiles: np.ndarray) -> list[int]:
    """Where `tiles` are closed, then open doors, closed doors, stairs down and up: few, so it is faster to look for
    them."""
    seen = tiles.tobytes()
    return [paths.bits(_CLOSED.take(tiles)), *(_few(seen, tile) for tile in (*_DOORS, _DOWN, _UP))]


# Maps of a `LevelMemory`, and the integers that each becomes, in the order in which `_Plain._ways` takes them.
_SELDOM_CHANGED: dict[str, Callable[[np.ndarray], list[int]]] = {
    "explored": lambda tiles: [paths.bits(tiles)],
    "blocked": lambda tiles: [paths.bits(tiles)],
    "lying": lambda tiles: [paths.bits(tiles)],
    "tiles": _grounds,
    "base": lambda tiles: [paths.bits(tiles == _UNKNOWN)],
}
_INSIDE = (slice(CROP // 2, CROP // 2 + HEIGHT), slice(CROP // 2, CROP // 2 + WIDTH))


def _has_diagonals(spec: ObservationSpec) -> bool:
    return any(name in spec.actions for name, step in DIRECTIONS.items() if 0 not in step)


# Of a `LevelMemory`. None is ever another array than when the level was made.
_MAPS = ("tiles", "explored", "blocked", "lying", "base", "board", "visits", "last_visit")


class _View(ctypes.Structure):
    """struct view of native/paths.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in _MAPS),
        *((name, ctypes.c_uint8 * len(Tile)) for name in ("closed", "door", "plane_of")),
        *((name, ctypes.c_uint8) for name in ("unknown", "stairs_down", "stairs_up", "closed_door", "hostile")),
        *((name, ctypes.c_uint8) for name in ("slanted", *_KERNEL_PARTS)),
        ("start", ctypes.c_int),
    ]


class _Compiled:
    """The parts by native/paths.c."""

    def __init__(self, spec: ObservationSpec, observe: Callable[..., None]) -> None:
        self._observe = observe
        self._numbers = ctypes.c_float * spec.size
        self._view = view = _View()
        view.start = _head_size(spec)
        view.closed[:], view.door[:], view.plane_of[:] = _CLOSED.tolist(), _DOOR.tolist(), _PLANE_OF.tolist()
        for name in ("unknown", "stairs_down", "stairs_up", "closed_door", "hostile"):
            setattr(view, name, Tile[name.upper()])
        view.slanted = _has_diagonals(spec)
        for part in _KERNEL_PARTS:
            setattr(view, part, part in spec.parts)
        self._level: LevelMemory | None = None

    def write(self, scene: Scene, memory: Memory, out: np.ndarray) -> None:
        if memory.level is not self._level:
            self._look_at(memory.level)
        numbers = self._numbers.from_buffer(out)  # type: ignore[arg-type]
        self._observe(self._view, scene.y, scene.x, memory.steps, scene.swallowed, numbers)

    def _look_at(self, level: LevelMemory) -> None:
        self._level = level  # kept, so that the addresses hold
        for name in _MAPS:
            setattr(self._view, name, ctypes.addressof(_NOTHING.from_buffer(getattr(level, name))))


_NOTHING = ctypes.c_char * 0


@functools.cache
def _library() -> Callable[..., None] | None:
    """The function of native/paths.c; None where it cannot be had, or is not wanted."""
    chosen = os.environ.get("NETHACK_PIPE_KERNELS", "")
    if chosen not in ("", "python"):
        raise ValueError(f"NETHACK_PIPE_KERNELS: expected python (or nothing), got {chosen!r}")
    if chosen:
        return None
    try:
        library = ctypes.PyDLL(str(build.library("paths")))
    except (build.BuildError, OSError):
        return None
    observe = library.paths_observe
    observe.restype = None
    observe.argtypes = (ctypes.POINTER(_View), *(ctypes.c_int,) * 4, ctypes.c_void_p)
    return observe


def main() -> None:
    actions = ACTION_SETS["compass"]
    for spec in (ObservationSpec("reference", (), actions), ObservationSpec("rich", PARTS, actions)):
        print(f"{spec.kind}, {len(actions)} actions: {spec.size} numbers, float32\n")
        for field in spec.fields:
            shape = " x ".join(map(str, field.shape)) or "1"
            print(f"{field.start:5}  {shape:12}  {field.name:18}  {field.meaning}")
        print()


if __name__ == "__main__":
    main()
