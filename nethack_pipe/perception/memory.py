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
from nethack_pipe.game.tables import BL, CONDITIONS
from nethack_pipe.perception import glyphs
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.scene import Scene

HEIGHT, WIDTH = 21, 79
RECENT = 8  # states and positions that count as recent
LATEST_ACTIONS = 4
MIN_ROOM_TILES = 4  # fewer connected floor tiles are not yet a room
NO_ITEM = -1
UNSEEN = -1  # no glyph
FEW = 6  # changed cells
FAR = 1000  # more than any distance on a level

# Everything that NetHack says when the hero kills a monster himself; killing a pet ("the poor kitten") is no feat.
KILL = re.compile(r"\bYou (?:kill|destroy) (?!poor |the poor )[^!.]*!")
# look_here() and its feeling-about twin.
LIES_HERE = re.compile(r"\bYou (?:see|feel) here |\bobjects here\b|\bThings that are here\b")
# xprname(): inventory letter, blank, dash. Gold is "$".
PICKED_UP = re.compile(r"(?:^|  |lifting )[a-zA-Z$] - ")
# pickup() of NetHack 3.6 where no object lies, by what else is there, or where none can be reached.
NOTHING_HERE = re.compile(
    r"\bnothing here to pick up\b|\bfixed to the floor\b|\bMoving the altar\b|\bplumbing connects\b"
    r"|\bneed a gravestone\b|\bcould drink the water\b|\bcome off the hinges\b|\bIt must weigh\b"
    r"|\bcannot reach the (?:floor|bottom of the pit)\b"
)
# relobj(): what a pet puts down where the hero sees it.
DROPS = re.compile(r"\bdrops\b")
# look_here() of a trap that is known already, and dotrap() of one that goes off or is escaped.
_HURTING = "|".join(sorted(glyphs.HURTING_TRAPS))
TRAP_HERE = re.compile(
    rf"\bThere is an? (?:{_HURTING}) here\b|\bYou escape an? (?:{_HURTING})\b|\bshoots out at you!"
    r"|\bA trap door in .+ opens and |\bbear trap closes |\bYou are enveloped in a cloud of gas\b"
    r"|\bA cloud of gas puts you to sleep\b|\bA gush of water hits you|\bA tower of flame \w+ from the \w+!"
    r"|\bYou [^.!]+ into an? (?:pit|spider web)!|\bYou trigger a rolling boulder trap\b|\bKAABLAMM!"
)
STAIRS_HERE = re.compile(r"There is a (?:staircase|ladder) (up|down) here")
SOLID = re.compile(r"\bsolid stone\b|\bIt's (?:a wall|solid)|\ba wall\b")

# Members of an enumeration are slow to reach; these are looked up in every step.
_X, _Y = int(BL.X), int(BL.Y)
_BLIND, _ASTRAY = CONDITIONS["blind"], CONDITIONS["conf"] | CONDITIONS["stun"]
_UNKNOWN, _WALL, _STAIRS_DOWN = int(Tile.UNKNOWN), int(Tile.WALL), int(Tile.STAIRS_DOWN)
_HOSTILE, _PEACEFUL, _PET = int(Tile.HOSTILE), int(Tile.PEACEFUL), int(Tile.PET)
_BOULDER, _CLOSED_DOOR = int(Tile.BOULDER), int(Tile.CLOSED_DOOR)
_MONSTERS = frozenset(map(int, (Tile.PET, Tile.PEACEFUL, Tile.HOSTILE)))
# The board has a border of wall, so that every tile of the map has eight neighbours.
_STRIDE = WIDTH + 2
_AROUND = np.array([dy * _STRIDE + dx for dy, dx in DIRECTIONS.values()])
_ON_BOARD = (np.arange(1, HEIGHT + 1)[:, None] * _STRIDE + np.arange(1, WIDTH + 1)).ravel()
_EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=bool)


class LevelMemory:
    """One dungeon level as remembered. Maps are (21, 79), indexed [y, x] as in NLE's observations.

    Attributes:
        tiles: uint8 `Tile` of the ground, UNKNOWN until seen.
        explored: bool, ground that was seen and is not wall or stone.
        items: int16 object glyph last seen there, or NO_ITEM; boulders and statues too.
        lying: bool, one of these that can be picked up.
        credited: bool, an item on this tile has been counted as found, or never will be.
        room: uint8 number of the room, from 1; 0 where there is none.
        visits: int32 steps spent on the tile, bumps and waits too.
        last_visit: int32 `Memory.steps` when the hero was there last; 0 where he never was.
        blocked: bool, a step there led nowhere (a locked door, a stuck boulder) and it has looked the same since.
        barred: cell -> cells from which a step there cost no time and led nowhere, and it has looked the same since.
        present: cells where the screen shows a monster (or, perhaps, the hero).
        monsters: cell -> (glyph, turn) where a monster was last seen.
        stairs: cells of staircases already counted, with their `Tile`.
        dropped: cells where the hero put something down: picking it up again is no gain.
        traps: cells of traps that hurt (`glyphs.HURTING_TRAPS`), also where something lies on them.
        rooms, tiles_known, items_known: how many rooms, explored tiles and items to pick up there are.
        glyphs: int16, what the screen last showed there, of the hero's own tile before he came.
        under: int16, the ground or object last shown there, of a monster's tile before it came.
        base: uint8 `Tile` of item or, where none lies, ground.
        board: (23, 81) uint8 `Tile` of what is on each tile, monsters before items before ground; a border of wall.
    """

    __slots__ = (
        "tiles", "explored", "items", "lying", "credited", "room", "visits", "last_visit", "blocked", "barred",
        "present", "monsters", "glyphs", "stairs", "dropped", "traps", "under", "base", "board",
        "rooms", "tiles_known", "items_known",
    )  # fmt: skip

    def __init__(self) -> None:
        self.tiles = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
        self.explored = np.zeros((HEIGHT, WIDTH), dtype=bool)
        self.items = np.full((HEIGHT, WIDTH), NO_ITEM, dtype=np.int16)
        self.lying = np.zeros((HEIGHT, WIDTH), dtype=bool)
        self.credited = np.zeros((HEIGHT, WIDTH), dtype=bool)
        self.room = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
        self.rooms = self.tiles_known = self.items_known = 0
        self.visits = np.zeros((HEIGHT, WIDTH), dtype=np.int32)
        self.last_visit = np.zeros((HEIGHT, WIDTH), dtype=np.int32)
        self.blocked = np.zeros((HEIGHT, WIDTH), dtype=bool)
        self.barred: dict[int, frozenset[int]] = {}
        self.present: list[int] = []
        self.monsters: dict[int, tuple[int, int]] = {}
        self.glyphs = np.full((HEIGHT, WIDTH), UNSEEN, dtype=np.int16)
        self.under = self.glyphs.copy()
        self.base = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
        self.stairs: dict[int, int] = {}
        self.dropped: set[int] = set()
        self.traps: set[int] = set()
        self.board = np.full((HEIGHT + 2, WIDTH + 2), _WALL, dtype=np.uint8)
        self.board[1:-1, 1:-1] = _UNKNOWN

    def copy(self) -> "LevelMemory":
        # Written out, because looking ahead copies a level for every action: a loop over the names takes twice as long.
        twin = LevelMemory.__new__(LevelMemory)
        twin.tiles, twin.explored, twin.room = self.tiles.copy(), self.explored.copy(), self.room.copy()
        twin.items, twin.lying, twin.credited = self.items.copy(), self.lying.copy(), self.credited.copy()
        twin.visits, twin.last_visit = self.visits.copy(), self.last_visit.copy()
        twin.blocked, twin.barred, twin.dropped = self.blocked.copy(), self.barred.copy(), self.dropped.copy()
        twin.traps = self.traps.copy()
        twin.present, twin.monsters, twin.stairs = self.present.copy(), self.monsters.copy(), self.stairs.copy()
        twin.glyphs, twin.under = self.glyphs.copy(), self.under.copy()
        twin.base, twin.board = self.base.copy(), self.board.copy()
        twin.rooms, twin.tiles_known, twin.items_known = self.rooms, self.tiles_known, self.items_known
        return twin

    def put_item(self, cell: int, glyph: int) -> None:
        """Remembers `glyph` (or NO_ITEM) as what lies on flat cell `cell`."""
        self.items.flat[cell] = glyph
        self.glyphs.flat[cell] = self.under.flat[cell] = UNSEEN  # what the screen shows there next is news
        self.base.flat[cell] = self.tiles.flat[cell] if glyph == NO_ITEM else glyphs.ITEM_TILE[glyph]
        self.lying.flat[cell] = glyphs.IS_ITEM[glyph]
        self.items_known = int(np.count_nonzero(self.lying))


class Memory:
    """Everything remembered of one game since its reset.

    Attributes:
        levels: maps by level, the key is (dungeon number, level number) as in blstats.
        level: the map of the level the hero is on.
        unique_tiles, rooms_found, items_found, kills: counts over the whole game.
        steps: how many moments it has taken in, the start of the game too.
        actions: names of the last 4 actions, the latest first.
        max_depth, max_gold: the most ever reached in this game. first_gold: the gold it began with.
    """

    def __init__(self) -> None:
        self.levels: dict[tuple[int, int], LevelMemory] = {}
        self.level = LevelMemory()
        self.scene: Scene | None = None
        self.unique_tiles = self.rooms_found = self.items_found = self.kills = self.steps = 0
        self.actions: tuple[str, ...] = ()
        self.max_depth = self.max_gold = self.first_gold = 0
        self.states: deque[object] = deque(maxlen=RECENT)
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
        self.steps += 1
        if action is not None:
            self.actions = (action, *self.actions[: LATEST_ACTIONS - 1])
        # Inside a monster the screen shows its stomach, all around the hero.
        scene.swallowed = glyphs.IS_SWALLOW.item(observation["glyphs"].item(max(stats[_Y] - 1, 0), stats[_X]))
        arrived = before is None or before.level != scene.level
        if arrived:
            self._arrive(scene, before)
        level = self.level
        if not scene.swallowed:
            self._see(level, scene, observation["glyphs"], count_items=scene.command not in ("drop", "kick"))
        self._stand(level, scene, before, arrived)
        self._meet(level, scene, observation)
        self._account(level, scene, before)
        self.scene = scene
        return scene

    def _arrive(self, scene: Scene, before: Scene | None) -> None:
        """Opens the map of the level the hero is on; one that he knows again is as he left it."""
        known = self.levels.get(scene.level)
        # A look-ahead twin shares its other levels with the game it was copied from.
        self.level = self.levels[scene.level] = known.copy() if known is not None else LevelMemory()
        self.level.glyphs.fill(UNSEEN)
        self.level.present = []
        # NetHack starts a game on the upstairs, and stairs lead to stairs: the hero knows what he stands on.
        tile = None
        if before is None or (scene.command == "down" and before.ground == _STAIRS_DOWN):
            tile = Tile.STAIRS_UP
        elif scene.command == "up" and before.ground == Tile.STAIRS_UP:
            tile = Tile.STAIRS_DOWN
        if tile is not None:
            self.level.tiles.flat[scene.cell] = self.level.base.flat[scene.cell] = tile
            self.level.stairs[scene.cell] = int(tile)

    def _see(self, level: LevelMemory, scene: Scene, screen: np.ndarray, count_items: bool) -> None:
        """Brings the map up to date with the screen, and counts what is seen for the first time."""
        # What the hero covers is not news: `level.glyphs` keeps what was there before him, and many steps end here.
        different = (screen != level.glyphs).ravel()
        if glyphs.IS_MONSTER.item(screen.item(scene.cell)):
            different[scene.cell] = False
        changed = different.nonzero()[0]
        if not changed.size or (changed.size <= FEW and self._only_monsters_moved(level, screen, changed.tolist())):
            return
        glyph = screen.take(changed)
        level.glyphs.ravel()[changed] = glyph
        flags = glyphs.FLAGS.take(glyph)
        monster = (flags & glyphs.MONSTER) != 0
        level.present = [cell for cell in level.present if glyphs.IS_MONSTER.item(screen.item(cell))]
        level.present += [cell for cell in changed[monster].tolist() if cell not in level.present]
        explored = level.explored.ravel()
        explores = (flags & glyphs.EXPLORES) != 0
        if scene.condition & _BLIND:
            explores &= ~monster  # felt from afar, by telepathy
        new = changed[explores & ~explored.take(changed)]
        # A monster that comes and goes over known ground changes nothing else.
        news = ~monster & (glyph != level.under.take(changed))
        if news.any():
            self._learn(level, scene, changed[news], glyph[news], count_items)
        on_tile = np.where(monster, glyphs.MONSTER_TILE.take(glyph), level.base.take(changed))
        level.board.ravel()[_ON_BOARD.take(changed)] = on_tile
        if new.size:
            explored[new] = True
            scene.new_tiles = new.size

    def _only_monsters_moved(self, level: LevelMemory, screen: np.ndarray, cells: list[int]) -> bool:
        """The commonest change, monsters stepping over known ground, taken in cell by cell: whole-array code has a
        price per call that a handful of cells does not earn. False, and nothing is done, where there is more to it."""
        glyph = [screen.item(cell) for cell in cells]
        monster = [glyphs.IS_MONSTER.item(number) for number in glyph]
        for cell, number, is_monster in zip(cells, glyph, monster, strict=True):
            if not level.explored.item(cell) or not (is_monster or number == level.under.item(cell)):
                return False
        level.present = [cell for cell in level.present if glyphs.IS_MONSTER.item(screen.item(cell))]
        for cell, number, is_monster in zip(cells, glyph, monster, strict=True):
            level.glyphs.flat[cell] = number
            if is_monster and cell not in level.present:
                level.present.append(cell)
            tile = glyphs.MONSTER_TILE.item(number) if is_monster else level.base.item(cell)
            level.board.flat[_ON_BOARD.item(cell)] = tile
        return True

    def _learn(self, level: LevelMemory, scene: Scene, cells: np.ndarray, glyph: np.ndarray, count_items: bool) -> None:
        """Takes in cells that show other ground, or another object, than was known."""
        level.under.ravel()[cells] = glyph
        level.blocked.ravel()[cells] = False
        if level.barred:
            for cell in cells.tolist():
                level.barred.pop(cell, None)
        tiles, items, base = level.tiles.ravel(), level.items.ravel(), level.base.ravel()
        ground = glyphs.GROUND.take(glyph)
        flags = glyphs.FLAGS.take(glyph)
        bare = ground != glyphs.HIDDEN
        bare_cells = cells[bare]
        tiles[bare_cells] = ground[bare]
        items[bare_cells] = NO_ITEM  # bare ground is drawn only where nothing lies
        is_object = (flags & glyphs.OBJECT) != 0
        if is_object.any():
            object_cells = cells[is_object]
            credited = level.credited.ravel()
            useful = object_cells[(flags[is_object] & glyphs.USEFUL != 0) & ~credited[object_cells]]
            if useful.size:
                credited[useful] = True
                if count_items:
                    scene.new_items = useful.size - int(np.count_nonzero(self._brought(level, scene, useful)))
                    self.items_found += scene.new_items
            items[object_cells] = glyph[is_object]
        thing = items.take(cells)
        level.lying.ravel()[cells] = glyphs.IS_ITEM.take(thing)  # NO_ITEM, -1, finds the last entry: False
        level.items_known = int(np.count_nonzero(level.lying))
        base[cells] = np.where(thing == NO_ITEM, tiles.take(cells), glyphs.ITEM_TILE.take(thing))
        hurts = (flags & glyphs.HURTS) != 0
        if level.traps:
            level.traps.difference_update(bare_cells.tolist())
        level.traps.update(cells[hurts].tolist())
        for cell in cells[(flags & glyphs.STAIRS) != 0].tolist():
            self._know_stairs(level, scene, cell, int(tiles[cell]))
        floor = cells[(flags & glyphs.ROOM) != 0]
        if floor.size and not level.room.take(floor).all():
            self._find_rooms(level, scene)

    def _brought(self, level: LevelMemory, scene: Scene, cells: np.ndarray) -> np.ndarray:
        """On which of these cells a pet has put the object that shows there: no find, or standing still would earn.

        They were known to be bare, and the pet was there a moment ago. A fast one may take a step before it drops a
        thing; NetHack says so then. What a killed monster leaves lies where that was.
        """
        place = _ON_BOARD.take(cells)
        before = level.board.take(place)  # not yet up to date
        pet = before == _PET
        if DROPS.search(scene.text):
            beside = (level.board.take(place[:, None] + _AROUND) == _PET).any(axis=1)
            pet |= beside & (before != _HOSTILE)
        return pet & (level.tiles.take(cells) != _UNKNOWN) & (level.items.take(cells) == NO_ITEM)

    def _know_stairs(self, level: LevelMemory, scene: Scene, cell: int, tile: int) -> None:
        """Remembers a staircase, and counts it if it is new."""
        if cell not in level.stairs:
            if tile == _STAIRS_DOWN:
                scene.new_down_stairs += 1
            else:
                scene.new_up_stairs += 1
        level.stairs[cell] = int(tile)
        level.tiles.flat[cell] = tile
        if level.items.flat[cell] == NO_ITEM:
            level.base.flat[cell] = tile

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
            numbers[fresh] = level.rooms + 1 + np.arange(fresh.size)
            level.rooms += fresh.size
            scene.new_rooms = fresh.size
            self.rooms_found += fresh.size
        numbers[0] = 0
        level.room = numbers[labels]

    def _stand(self, level: LevelMemory, scene: Scene, before: Scene | None, arrived: bool) -> None:
        """What lies under the hero is hidden by the hero: it is known from the map and from what NetHack said."""
        cell, text = scene.cell, scene.text
        moved = arrived or before is None or before.cell != cell
        scene.moved = moved and before is not None
        if not scene.swallowed and not level.explored.item(cell):
            level.explored.flat[cell] = True
            scene.new_tiles += 1
        level.tiles_known += scene.new_tiles
        self.unique_tiles += scene.new_tiles
        if text and not scene.swallowed:
            picked_up = PICKED_UP.search(text) is not None
            scene.picked_up = picked_up and scene.command == "pickup" and cell not in level.dropped
            dropped = scene.command == "drop" and "You drop" in text and "falls down the" not in text
            if dropped:
                level.dropped.add(cell)
                level.credited.flat[cell] = True  # no find, whatever lay there before
            elif picked_up and scene.command == "pickup":
                level.dropped.discard(cell)
            if dropped or LIES_HERE.search(text):
                if level.items.flat[cell] == NO_ITEM:
                    level.put_item(cell, glyphs.SOME_OBJECT)
                    level.credited.flat[cell] = True  # it came unseen under the hero
            elif (picked_up and (moved or scene.command == "pickup")) or NOTHING_HERE.search(text):
                level.put_item(cell, NO_ITEM)
            if TRAP_HERE.search(text):
                level.traps.add(cell)
            if (stairs := STAIRS_HERE.search(text)) is not None:
                self._know_stairs(level, scene, cell, Tile.STAIRS_DOWN if stairs.group(1) == "down" else Tile.STAIRS_UP)
        if not moved and before is not None and scene.action in DIRECTIONS and not scene.swallowed:
            self._bump(level, scene, before)
        level.visits[scene.y, scene.x] += 1
        level.last_visit[scene.y, scene.x] = self.steps
        scene.ground = level.tiles.item(cell)
        scene.item_here = level.lying.item(cell)
        scene.stairs_down_distance = FAR
        for stair, tile in level.stairs.items():
            if tile == _STAIRS_DOWN:
                distance = max(abs(stair // WIDTH - scene.y), abs(stair % WIDTH - scene.x))
                scene.stairs_down_distance = min(scene.stairs_down_distance, distance)

    def _bump(self, level: LevelMemory, scene: Scene, before: Scene) -> None:
        """A step has led nowhere: notes what will not let the hero pass the next time either."""
        assert scene.action is not None
        dy, dx = DIRECTIONS[scene.action]
        y, x, into = scene.y + dy, scene.x + dx, before.tile(scene.action)
        if not (0 <= y < HEIGHT and 0 <= x < WIDTH):
            return
        if SOLID.search(scene.text) and level.tiles[y, x] == _UNKNOWN:
            level.tiles[y, x] = level.base[y, x] = level.board[y + 1, x + 1] = _WALL
        # Not a boulder, behind which a monster may have been, nor where the hero does not know where he stumbles.
        if not scene.took_time and into not in _MONSTERS and into != _BOULDER and not scene.condition & _ASTRAY:
            level.barred[y * WIDTH + x] = level.barred.get(y * WIDTH + x, frozenset()) | {scene.cell}
        if dy and dx:
            return  # doors and narrow gaps can be passed straight
        if into == _CLOSED_DOOR:
            level.blocked[y, x] = "is locked" in scene.text  # one that resists may open yet
        elif into not in _MONSTERS:
            # Time goes by on open ground where the hero is held, or where somebody unseen is in the way.
            level.blocked[y, x] = into == _BOULDER or not scene.took_time

    def _meet(self, level: LevelMemory, scene: Scene, observation: dict[str, np.ndarray]) -> None:
        """Who is in view, and what is on the eight tiles around the hero."""
        screen = observation["glyphs"]
        if level.present and not scene.swallowed:  # from inside a monster nobody else is seen
            peaceful, board = observation["peaceful"], level.board.ravel()
            for cell in sorted(level.present):
                if cell == scene.cell:
                    continue
                glyph = screen.item(cell)
                tile = glyphs.MONSTER_TILE.item(glyph)
                if tile == _HOSTILE and peaceful.item(cell):
                    tile = _PEACEFUL
                board[_ON_BOARD.item(cell)] = tile  # who is peaceful changes without a change on the screen
                scene.in_view.append((cell, glyph, tile))
                level.monsters[cell] = (glyph, scene.turn)
        if len(level.monsters) > len(scene.in_view):
            for cell, (_, seen) in list(level.monsters.items()):
                if seen != scene.turn and glyphs.SHOWS_GROUND[screen.item(cell)]:
                    del level.monsters[cell]  # the tile is drawn as ground again: whoever was there has left
        scene.adjacent = level.board.take(_AROUND + ((scene.y + 1) * _STRIDE + scene.x + 1))
        scene.items_in_view = level.items_known

    def _account(self, level: LevelMemory, scene: Scene, before: Scene | None) -> None:
        """Compares with everything before: firsts, records and repetitions."""
        scene.kills = len(KILL.findall(scene.text)) if scene.text else 0
        self.kills += scene.kills
        if before is None:
            self.max_depth, self.max_gold, self.first_gold = scene.depth, scene.gold, scene.gold
        scene.hp_change = scene.hp - before.hp if before is not None else 0
        scene.points = scene.score - max(0, scene.gold - self.first_gold)
        scene.deeper = max(0, scene.depth - self.max_depth)
        scene.gold_record = max(0, scene.gold - self.max_gold)
        self.max_depth += scene.deeper
        self.max_gold += scene.gold_record
        scene.explored = level.tiles_known
        scene.rooms = level.rooms
        scene.unique_tiles, scene.rooms_found = self.unique_tiles, self.rooms_found
        where = (scene.level, scene.cell)
        state = (where, scene.hp, scene.gold, scene.score, scene.explored, scene.items_in_view)
        scene.repeated_state = state in self.states
        scene.recent_tile = scene.moved and where in self.positions
        self.states.append(state)
        self.positions.append(where)
