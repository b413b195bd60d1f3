"""What a player remembers: one map per dungeon level, and what has already been found, met and paid for.

`Memory.update` takes one step of a game and returns the `Scene` of that moment. Only the cells whose glyph changed
since the step before are looked at, all of them at once.
"""

import copy
import re
from collections import deque

import numpy as np
from scipy import ndimage

from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.game.game import Step
from nethack_pipe.game.tables import BL
from nethack_pipe.perception import glyphs
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.scene import Scene

HEIGHT, WIDTH = 21, 79
CELLS = HEIGHT * WIDTH
RECENT = 8  # states and positions that count as recent
MIN_ROOM_TILES = 4  # fewer connected floor tiles are not yet a room
NO_ITEM = -1
FAR = 1000  # more than any distance on a level

# Everything that NetHack says when the hero kills a monster himself; killing a pet ("the poor kitten") is no feat.
KILL = re.compile(r"\bYou (?:kill|destroy) (?!poor |the poor )[^!.]*!")
# look_here() and its feeling-about twin.
LIES_HERE = re.compile(
    r"\bYou (?:see|feel) here |\bobjects here\b|\bThings that are here\b|\bYou have a little trouble"
)
# xprname(): inventory letter, blank, dash. Gold is "$".
PICKED_UP = re.compile(r"(?:^|  )[a-zA-Z$] - ")
SOLID = re.compile(r"\bsolid stone\b|\bIt's (?:a wall|solid)|\ba wall\b")

_NEIGHBOUR_DY = np.array([dy for dy, _ in DIRECTIONS.values()])
_NEIGHBOUR_DX = np.array([dx for _, dx in DIRECTIONS.values()])
_EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=bool)


class LevelMemory:
    """One dungeon level as remembered. All maps are (21, 79), indexed [y, x] as in NLE's observations."""

    __slots__ = ("tiles", "explored", "items", "credited", "room", "visits", "monsters", "glyphs", "stairs")

    def __init__(self) -> None:
        self.tiles = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)  # Tile of the ground, UNKNOWN until seen
        self.explored = np.zeros((HEIGHT, WIDTH), dtype=bool)  # ground that was seen and is not wall or stone
        self.items = np.full((HEIGHT, WIDTH), NO_ITEM, dtype=np.int16)  # object glyph last seen there, or NO_ITEM
        self.credited = np.zeros((HEIGHT, WIDTH), dtype=bool)  # an item on this tile has been counted as found
        self.room = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)  # number of the room, from 1; 0: none
        self.visits = np.zeros((HEIGHT, WIDTH), dtype=np.int32)  # steps spent on the tile, bumps and waits too
        self.monsters: dict[int, tuple[int, int]] = {}  # flat cell -> (glyph, turn) where a monster was last seen
        self.glyphs = np.full((HEIGHT, WIDTH), -1, dtype=np.int16)  # what the screen showed at the last update
        self.stairs: set[int] = set()  # flat cells of staircases already counted

    def copy(self) -> "LevelMemory":
        twin = LevelMemory.__new__(LevelMemory)
        for name in ("tiles", "explored", "items", "credited", "room", "visits", "glyphs", "monsters", "stairs"):
            setattr(twin, name, getattr(self, name).copy())
        return twin


class Memory:
    """Everything remembered of one game since its reset.

    Attributes:
        levels: maps by level, the key is (dungeon number, level number) as in blstats.
        level: the map of the level the hero is on.
        unique_tiles, rooms_found, items_found, kills: counts over the whole game.
        max_depth, max_gold: the most ever reached in this game.
    """

    def __init__(self) -> None:
        self.levels: dict[tuple[int, int], LevelMemory] = {}
        self.level = LevelMemory()
        self.scene: Scene | None = None
        self.unique_tiles = self.rooms_found = self.items_found = self.kills = 0
        self.max_depth = self.max_gold = 0
        self.states: deque[int] = deque(maxlen=RECENT)
        self.positions: deque[tuple[tuple[int, int], int]] = deque(maxlen=RECENT)

    def copy(self) -> "Memory":
        """An independent twin, for looking ahead. Levels the hero is not on are shared until he goes there."""
        twin = copy.copy(self)
        twin.levels = dict(self.levels)
        twin.states = self.states.copy()
        twin.positions = self.positions.copy()
        if self.scene is not None:
            twin.level = twin.levels[self.scene.level] = self.level.copy()
        return twin

    def update(self, step: Step, action: str | None = None) -> Scene:
        """Takes in what `step` shows. `action` is the action's name that led here, None at the start of a game."""
        before = self.scene
        observation = step.observation
        stats = observation["blstats"].tolist()
        scene = Scene(step, stats, action)
        scene.swallowed = bool(glyphs.IS_SWALLOW[observation["glyphs"][max(stats[BL.Y] - 1, 0), stats[BL.X]]])
        arrived = before is None or before.level != scene.level
        if arrived:
            self._arrive(scene, before)
        level = self.level
        hero = scene.cell
        if not scene.swallowed:
            self._see(level, scene, observation, count_items=action not in ("drop", "kick"))
        self._stand(level, scene, before, arrived)
        self._neighbourhood(level, scene, observation)
        self._account(scene, before, hero)
        self.scene = scene
        return scene

    def _arrive(self, scene: Scene, before: Scene | None) -> None:
        """Opens the map of the level the hero is on; one that he knows again is as he left it."""
        known = self.levels.get(scene.level)
        # A look-ahead twin shares its other levels with the game it was copied from.
        self.level = self.levels[scene.level] = known.copy() if known is not None else LevelMemory()
        self.level.glyphs.fill(-1)
        self.level.monsters.clear()
        # NetHack starts a game on the upstairs, and stairs lead to stairs: the hero knows what he stands on.
        tile = None
        if before is None or (scene.action == "down" and scene.depth > before.depth):
            tile = Tile.STAIRS_UP
        elif scene.action == "up" and scene.depth < before.depth:
            tile = Tile.STAIRS_DOWN
        if tile is not None:
            self.level.tiles.flat[scene.cell] = tile
            self.level.stairs.add(scene.cell)

    def _see(self, level: LevelMemory, scene: Scene, observation: dict[str, np.ndarray], count_items: bool) -> None:
        """Brings the map up to date with the screen, and counts what is seen for the first time."""
        screen = observation["glyphs"]
        changed = np.flatnonzero(screen != level.glyphs)
        if not changed.size:
            return
        glyph = screen.ravel()[changed]
        level.glyphs.flat[changed] = glyph
        ground = glyphs.GROUND[glyph]
        flags = glyphs.FLAGS[glyph]

        shown = ground != glyphs.HIDDEN
        cells = changed[shown]
        level.tiles.flat[cells] = ground[shown]
        level.items.flat[cells] = NO_ITEM  # bare ground is drawn only where nothing lies

        is_item = (flags & glyphs.ITEM) != 0
        item_cells = changed[is_item]
        if item_cells.size:
            level.items.flat[item_cells] = glyph[is_item]
            useful = item_cells[(flags[is_item] & glyphs.USEFUL != 0) & ~level.credited.flat[item_cells]]
            if useful.size:
                level.credited.flat[useful] = True
                if count_items:
                    scene.new_items = useful.size
                    self.items_found += useful.size

        walkable = changed[(flags & glyphs.EXPLORES) != 0]
        new = walkable[~level.explored.flat[walkable]]
        if new.size:
            level.explored.flat[new] = True
            scene.new_tiles = new.size
            self.unique_tiles += new.size

        stairs = cells[(flags[shown] & glyphs.STAIRS) != 0]
        for cell in stairs.tolist():
            if cell not in level.stairs:
                level.stairs.add(cell)
                if level.tiles.flat[cell] == Tile.STAIRS_DOWN:
                    scene.new_down_stairs += 1
                else:
                    scene.new_up_stairs += 1

        floor = cells[(flags[shown] & glyphs.ROOM) != 0]
        if floor.size and not level.room.flat[floor].all():
            self._find_rooms(level, scene)

    def _find_rooms(self, level: LevelMemory, scene: Scene) -> None:
        """Rooms are connected regions of room floor. One that touches a known room is that room."""
        labels, count = ndimage.label(glyphs.IS_ROOM_TILE[level.tiles], structure=_EIGHT_NEIGHBOURS)
        flat = labels.ravel()
        numbers = np.zeros(count + 1, dtype=np.uint8)
        np.maximum.at(numbers, flat, level.room.ravel())
        fresh = np.flatnonzero((numbers == 0) & (np.bincount(flat, minlength=count + 1) >= MIN_ROOM_TILES))
        fresh = fresh[fresh != 0]
        if fresh.size:
            # uint8 holds 255 rooms; a level of NetHack has at most 40.
            numbers[fresh] = level.room.max() + 1 + np.arange(fresh.size)
            scene.new_rooms = fresh.size
            self.rooms_found += fresh.size
        numbers[0] = 0
        level.room = numbers[labels]

    def _stand(self, level: LevelMemory, scene: Scene, before: Scene | None, arrived: bool) -> None:
        """What lies under the hero is hidden by the hero: it is known from the map and from what NetHack said."""
        cell, text = scene.cell, scene.text
        moved = arrived or before is None or before.cell != cell
        scene.moved = moved and before is not None
        if not scene.swallowed:
            if not level.explored.flat[cell]:
                level.explored.flat[cell] = True
                scene.new_tiles += 1
                self.unique_tiles += 1
            lies_here = LIES_HERE.search(text) is not None
            picked_up = PICKED_UP.search(text) is not None
            if lies_here or (scene.action == "drop" and "You drop" in text):
                if level.items.flat[cell] == NO_ITEM:
                    level.items.flat[cell] = glyphs.SOME_OBJECT
                    level.credited.flat[cell] = True  # what was dropped, or came unseen under the hero, is no find
            elif picked_up and (moved or scene.action == "pickup"):
                level.items.flat[cell] = NO_ITEM
            scene.picked_up = picked_up and scene.action == "pickup"
        if not moved and scene.action in DIRECTIONS and SOLID.search(text):
            y, x = scene.y + DIRECTIONS[scene.action][0], scene.x + DIRECTIONS[scene.action][1]
            if 0 <= y < HEIGHT and 0 <= x < WIDTH and level.tiles[y, x] == Tile.UNKNOWN:
                level.tiles[y, x] = Tile.WALL
        level.visits.flat[cell] += 1
        scene.ground = int(level.tiles.flat[cell])
        scene.stairs_down_distance = min(
            (
                max(abs(stair // WIDTH - scene.y), abs(stair % WIDTH - scene.x))
                for stair in level.stairs
                if level.tiles.flat[stair] == Tile.STAIRS_DOWN
            ),
            default=FAR,
        )
        scene.item_here = bool(glyphs.IS_ITEM[level.items.flat[cell]])

    def _neighbourhood(self, level: LevelMemory, scene: Scene, observation: dict[str, np.ndarray]) -> None:
        """Who is in view, and what is on the eight tiles around the hero."""
        screen = observation["glyphs"].ravel()
        present = np.flatnonzero(glyphs.IS_MONSTER[screen])
        present = present[present != scene.cell]
        around_y, around_x = scene.y + _NEIGHBOUR_DY, scene.x + _NEIGHBOUR_DX
        inside = (around_y >= 0) & (around_y < HEIGHT) & (around_x >= 0) & (around_x < WIDTH)
        around = np.where(inside, around_y * WIDTH + around_x, scene.cell)
        adjacent = np.where(inside, level.tiles.ravel()[around], Tile.WALL)
        item = level.items.ravel()[around]
        has_item = inside & (item != NO_ITEM)
        if has_item.any():
            adjacent = np.where(has_item, glyphs.ITEM_TILE[item], adjacent)
        if present.size:
            glyph = screen[present]
            peaceful = observation["peaceful"].ravel()[present]
            kind = glyphs.MONSTER_TILE[glyph]
            kind[peaceful & (kind == Tile.HOSTILE)] = Tile.PEACEFUL
            scene.monsters, scene.monster_glyphs, scene.monster_tiles = present, glyph, kind
            turn = scene.turn
            for cell, number in zip(present.tolist(), glyph.tolist(), strict=True):
                level.monsters[cell] = (number, turn)
            board = dict(zip(present.tolist(), kind.tolist(), strict=True))
            for direction, cell in enumerate(around.tolist()):
                if inside[direction] and cell in board:
                    adjacent[direction] = board[cell]
        if level.monsters:
            gone = [
                cell
                for cell, (_, seen) in level.monsters.items()
                if seen != scene.turn and glyphs.SHOWS_GROUND[screen[cell]]
            ]
            for cell in gone:  # the tile is drawn as ground again: whoever was there has left
                del level.monsters[cell]
        scene.adjacent = adjacent
        scene.items_in_view = int(np.count_nonzero(glyphs.IS_ITEM[level.items]))  # NO_ITEM finds the last entry, False

    def _account(self, scene: Scene, before: Scene | None, hero: int) -> None:
        """Compares with everything before: firsts, records and repetitions."""
        scene.kills = len(KILL.findall(scene.text))
        self.kills += scene.kills
        if before is None:
            self.max_depth, self.max_gold = scene.depth, scene.gold
        scene.deeper = max(0, scene.depth - self.max_depth)
        scene.gold_record = max(0, scene.gold - self.max_gold)
        self.max_depth += scene.deeper
        self.max_gold += scene.gold_record
        scene.explored = int(np.count_nonzero(self.level.explored))
        scene.rooms = int(self.level.room.max())
        scene.unique_tiles, scene.rooms_found = self.unique_tiles, self.rooms_found
        where = (scene.level, hero)
        state = hash((where, scene.hp, scene.gold, scene.score, scene.explored, scene.items_in_view))
        scene.repeated_state = state in self.states
        scene.recent_tile = scene.moved and where in self.positions
        self.states.append(state)
        self.positions.append(where)
