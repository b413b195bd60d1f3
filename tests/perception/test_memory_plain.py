"""Memory, which looks only at what changed on the screen, against a plain one that looks at every cell every time."""

import random

import numpy as np
import pytest
from scipy import ndimage

from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS
from nethack_pipe.game.game import Game, Step
from nethack_pipe.game.tables import BL
from nethack_pipe.perception import glyphs
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.memory import FAR, LIES_HERE, PICKED_UP, SOLID, STAIRS_HERE
from nethack_pipe.policies.scripted import Frontier
from nethack_pipe.tasks.playthrough import Playthrough

GROUND, FLAGS = glyphs.GROUND.tolist(), glyphs.FLAGS.tolist()
CELLS = [(y, x) for y in range(21) for x in range(79)]


class PlainLevel:
    def __init__(self) -> None:
        self.tiles: dict[tuple[int, int], int] = {}
        self.items: dict[tuple[int, int], int] = {}
        self.explored: set[tuple[int, int]] = set()
        self.credited: set[tuple[int, int]] = set()
        self.stairs: set[tuple[int, int]] = set()
        self.rooms: list[set[tuple[int, int]]] = []
        self.monsters: dict[tuple[int, int], int] = {}  # of each tile who was there when it was seen last


class Plain:
    """Everything that `Scene` counts, the slow way."""

    def __init__(self) -> None:
        self.levels: dict[tuple[int, int], PlainLevel] = {}
        self.at: tuple[tuple[int, int], int, tuple[int, int]] | None = None  # level, depth, hero
        self.hp: int | None = None

    def update(self, step: Step, action: str | None) -> dict[str, object]:
        screen = step.observation["glyphs"].tolist()
        stats = step.observation["blstats"].tolist()
        where, depth, hero = (stats[BL.DNUM], stats[BL.DLEVEL]), stats[BL.DEPTH], (stats[BL.Y], stats[BL.X])
        arrived = self.at is None or self.at[0] != where
        level = self.level = self.levels.setdefault(where, PlainLevel())
        if arrived and (self.at is None or action in ("down", "up")):
            up = self.at is None or (action == "down" and depth > self.at[1])
            level.tiles[hero] = Tile.STAIRS_UP if up else Tile.STAIRS_DOWN
            level.stairs.add(hero)
        self.found = dict.fromkeys(("new_tiles", "new_items", "new_down_stairs", "new_up_stairs", "new_rooms"), 0)
        if not glyphs.IS_SWALLOW[screen[max(hero[0] - 1, 0)][hero[1]]]:
            for cell in CELLS:
                glyph = screen[cell[0]][cell[1]]
                if cell != hero or not glyphs.IS_MONSTER[glyph]:
                    brought = self._brought(cell, step.text)
                    self._look(cell, glyph, count_items=action not in ("drop", "kick") and not brought)
            self._find_rooms()
            self._explore(hero)
            self._listen(step, action, hero, arrived or self.at is None or self.at[2] != hero)
        self.at = where, depth, hero
        monsters = {
            cell: Tile.PEACEFUL
            if glyphs.MONSTER_TILE[screen[cell[0]][cell[1]]] == Tile.HOSTILE and step.observation["peaceful"][cell]
            else Tile(int(glyphs.MONSTER_TILE[screen[cell[0]][cell[1]]]))
            for cell in CELLS
            if cell != hero and glyphs.IS_MONSTER[screen[cell[0]][cell[1]]]
        }
        if not glyphs.IS_SWALLOW[screen[max(hero[0] - 1, 0)][hero[1]]]:
            # The hero hides what became of the one who was there before him.
            level.monsters = {cell: tile for cell, tile in level.monsters.items() if cell == hero} | monsters
        before, self.hp = self.hp, stats[BL.HP]
        ways_down = [cell for cell in level.stairs if level.tiles[cell] == Tile.STAIRS_DOWN]
        return {
            **self.found,
            "hp_change": 0 if before is None else self.hp - before,
            "explored": len(level.explored),
            "items_in_view": sum(bool(glyphs.IS_ITEM[item]) for item in level.items.values()),
            "item_here": hero in level.items and bool(glyphs.IS_ITEM[level.items[hero]]),
            "ground": level.tiles.get(hero, 0),
            "monsters": [79 * y + x for y, x in monsters],
            "monster_tiles": list(monsters.values()),
            "adjacent": [self._on((hero[0] + dy, hero[1] + dx), monsters) for dy, dx in DIRECTIONS.values()],
            "stairs_down_distance": min((max(abs(y - hero[0]), abs(x - hero[1])) for y, x in ways_down), default=FAR),
        }

    def _brought(self, cell: tuple[int, int], text: str) -> bool:
        """Whether a thing that shows on this tile now is what a pet has dropped."""
        level = self.level
        if cell not in level.tiles or level.tiles[cell] == Tile.UNKNOWN or cell in level.items:
            return False
        around = [level.monsters.get((cell[0] + dy, cell[1] + dx)) for dy, dx in DIRECTIONS.values()]
        on = level.monsters.get(cell)
        return on == Tile.PET or (on != Tile.HOSTILE and " drops " in text and Tile.PET in around)

    def _look(self, cell: tuple[int, int], glyph: int, count_items: bool) -> None:
        level, flags = self.level, FLAGS[glyph]
        if GROUND[glyph] != glyphs.HIDDEN:
            level.tiles[cell] = GROUND[glyph]
            level.items.pop(cell, None)
            if flags & glyphs.STAIRS and cell not in level.stairs:
                level.stairs.add(cell)
                self.found["new_down_stairs" if GROUND[glyph] == Tile.STAIRS_DOWN else "new_up_stairs"] += 1
        if flags & glyphs.OBJECT:
            level.items[cell] = glyph
            if flags & glyphs.USEFUL and cell not in level.credited:
                level.credited.add(cell)
                self.found["new_items"] += count_items
        if flags & glyphs.EXPLORES:
            self._explore(cell)

    def _explore(self, cell: tuple[int, int]) -> None:
        if cell not in self.level.explored:
            self.level.explored.add(cell)
            self.found["new_tiles"] += 1

    def _find_rooms(self) -> None:
        floor = np.zeros((21, 79), dtype=bool)
        for cell, tile in self.level.tiles.items():
            floor[cell] = tile in (Tile.FLOOR, Tile.STAIRS_UP, Tile.STAIRS_DOWN, Tile.FIXTURE, Tile.TRAP)
        labels, count = ndimage.label(floor, structure=np.ones((3, 3)))
        for i in range(1, count + 1):
            region = set(map(tuple, np.argwhere(labels == i).tolist()))
            known = [room for room in self.level.rooms if room & region]
            if len(region) >= 4 and not known:
                self.found["new_rooms"] += 1
            if known or len(region) >= 4:
                self.level.rooms = [room for room in self.level.rooms if room not in known]
                self.level.rooms.append(region.union(*known))

    def _listen(self, step: Step, action: str | None, hero: tuple[int, int], moved: bool) -> None:
        level, text = self.level, step.text
        dropped = action == "drop" and "You drop" in text and "falls down" not in text
        nothing = action == "pickup" and not step.took_time and "here, but" not in text
        if dropped:
            level.credited.add(hero)
        if dropped or LIES_HERE.search(text):
            if hero not in level.items:
                level.items[hero] = glyphs.SOME_OBJECT
                level.credited.add(hero)
        elif nothing or (PICKED_UP.search(text) and (moved or action == "pickup")):
            level.items.pop(hero, None)
        if found := STAIRS_HERE.search(text):
            down = found.group(1) == "down"
            if hero not in level.stairs:
                self.found["new_down_stairs" if down else "new_up_stairs"] += 1
            level.stairs.add(hero)
            level.tiles[hero] = Tile.STAIRS_DOWN if down else Tile.STAIRS_UP
        if not moved and action in DIRECTIONS and SOLID.search(text):
            ahead = hero[0] + DIRECTIONS[action][0], hero[1] + DIRECTIONS[action][1]
            if level.tiles.get(ahead, Tile.UNKNOWN) == Tile.UNKNOWN:
                level.tiles[ahead] = Tile.WALL

    def _on(self, cell: tuple[int, int], monsters: dict[tuple[int, int], Tile]) -> int:
        if not (0 <= cell[0] < 21 and 0 <= cell[1] < 79):
            return Tile.WALL
        if cell in monsters:
            return monsters[cell]
        if cell in self.level.items:
            return glyphs.ITEM_TILE[self.level.items[cell]]
        return self.level.tiles.get(cell, Tile.UNKNOWN)


@pytest.mark.parametrize("seed", [101, 102, 103, 104, 1003, 1007, 1017, 1019])
def test_what_is_remembered_is_what_a_plain_memory_remembers(seed):
    rng = random.Random(seed)
    policies = [Frontier(task) for task in ("resource", "combat", "descend")]
    with Game() as game:
        playthrough = Playthrough(game, ACTION_SETS["compass"])
        scene = playthrough.reset(seed)
        plain = Plain()
        for policy in policies:
            policy.reset(0, 0)
        action = None
        for step in range(300):
            expected = plain.update(game.last, action)
            found = {
                name: value.tolist() if isinstance(value, np.ndarray) else value
                for name in expected
                for value in [getattr(scene, name)]
            }
            assert found == expected, (step, playthrough.game.actions, scene.text)
            if scene.done:
                break
            if rng.random() < 0.1:
                playthrough.memory = playthrough.memory.copy()
            action = rng.choice(playthrough.legal)
            if rng.random() < 0.7:
                action = policies[step // 100].act([0], [playthrough])[0]
            scene = playthrough.step(action)


@pytest.mark.parametrize("seed", [38, 63, 83, 96, 119])
def test_what_a_pet_carries_about_is_found_by_nobody(seed):
    with Game() as game:
        playthrough = Playthrough(game, ACTION_SETS["compass"])
        playthrough.reset(seed)
        plain = Plain()
        plain.update(game.last, None)
        lying, drops = {playthrough.scene.items_in_view}, 0
        for _ in range(100):
            scene = playthrough.step("search")
            assert scene.new_items == plain.update(game.last, "search")["new_items"] == 0, scene.text
            lying.add(scene.items_in_view)
            drops += " drops " in scene.text
    assert drops >= 4 and len(lying) > 1  # the hero sees things vanish and lie elsewhere
