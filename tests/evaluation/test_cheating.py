"""Scripts that try to milk the rewards in real games: none earns more than standing still does, in any task.

Standing still is searching and waiting in turn. The first round of a script is not counted: it may find something.
"""

from collections.abc import Callable, Sequence

import pytest

from nethack_pipe.evaluation.starts import find_moments
from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS, KEYS
from nethack_pipe.game.game import Game
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.scene import Scene
from nethack_pipe.policies.scripted import OPPOSITE, Frontier
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS, Skill
from tests.helpers.games import press, replayed

WEIGHTS = RewardWeights()
ROUNDS = 6
STRAIGHT = ("north", "south", "east", "west")

Paid = list[dict[str, dict[str, float]]]  # by step and task the terms that are not zero


class Cheat:
    """A hero in a real game, played by a script."""

    def __init__(self, game: Game, seed: int) -> None:
        self.playthrough = Playthrough(game, ACTION_SETS["compass"])
        self.playthrough.reset(seed)

    @property
    def scene(self) -> Scene:
        return self.playthrough.scene

    def does(self, action: str) -> dict[str, dict[str, float]]:
        before = self.scene
        if action.startswith("close:"):  # no action of ours, so that a hero would need somebody else to shut the door
            self.playthrough.before = before
            key = chr(KEYS[action.removeprefix("close:")])
            after = self.playthrough._look(press(self.playthrough.game, "c" + key), action)
        else:
            after = self.playthrough.step(action)
        assert after.alive and after.hp == before.hp, "luck would be compared, not the script"
        return {
            task: {term: value for term, value in parts.items() if value}
            for task in TASKS
            for parts in [rewards.components(task, before, action, after, WEIGHTS)]
        }

    def follow(self, task: Skill, until: Callable[[Scene], bool], limit: int = 300) -> None:
        scout = Frontier(task)
        scout.reset(0, 0)
        for _ in range(limit):
            if until(self.scene):
                return
            self.playthrough.step(scout.act([0], [self.playthrough])[0])
        raise AssertionError("the scout did not get there")


def there_and_back(scene: Scene) -> tuple[str, str]:
    step = next(name for name in STRAIGHT if scene.tile(name) == Tile.FLOOR)
    return step, OPPOSITE[step]


def at_a_door(scene: Scene) -> bool:
    return any(scene.tile(name) == Tile.CLOSED_DOOR for name in STRAIGHT)


def drop_and_pick_up(cheat: Cheat) -> list[str]:
    return ["drop", *there_and_back(cheat.scene), "pickup"]


def drop_gold_and_walk_over_it(cheat: Cheat) -> list[str]:
    assert cheat.scene.gold > 100
    return ["drop:$", *there_and_back(cheat.scene)]


def commands_that_take_no_time(cheat: Cheat) -> list[str]:
    cheat.does(there_and_back(cheat.scene)[0])  # off the stairs
    return ["up", "pickup", "down", "pickup"]


def stairs_up_and_down(cheat: Cheat) -> list[str]:
    cheat.follow("descend", lambda scene: scene.depth == 2)
    return ["up", "down", *there_and_back(cheat.scene)]


def a_door_open_and_shut(cheat: Cheat) -> list[str]:
    cheat.follow("explore", at_a_door)
    door = next(name for name in STRAIGHT if cheat.scene.tile(name) == Tile.CLOSED_DOOR)
    return [f"open:{door}", f"close:{door}"]


def rounds(cheat: Cheat, actions: Sequence[str]) -> Paid:
    """What all rounds but the first are paid."""
    for action in actions:
        cheat.does(action)
    return [cheat.does(action) for _ in range(ROUNDS) for action in actions]


def total(paid: Paid, task: str) -> float:
    return sum(sum(step[task].values()) for step in paid)


@pytest.mark.parametrize(
    ("script", "seed", "character"),
    [
        (drop_and_pick_up, 0, "mon-hum-neu-mal"),
        (drop_gold_and_walk_over_it, 2, "tou-hum-neu-fem"),
        (commands_that_take_no_time, 5, "mon-hum-neu-mal"),
        (stairs_up_and_down, 20, "mon-hum-neu-mal"),
        (a_door_open_and_shut, 40, "mon-hum-neu-mal"),
    ],
)
def test_no_script_earns_more_than_standing_still(script, seed, character):
    with Game(character=character) as game:
        cheat = Cheat(game, seed)
        actions = script(cheat)
        paid = rounds(cheat, actions)
    with Game(character=character) as game:
        still = Cheat(game, seed)
        script(still)  # to the same moment
        stood = [still.does(("search", "wait")[i % 2]) for i in range(len(actions) + len(paid))][len(actions) :]
    for task in TASKS:
        assert not [step[task] for step in paid if any(value > 0 for value in step[task].values())], task
        assert total(paid, task) <= total(stood, task) + 1e-9, task


@pytest.mark.parametrize("seed", [38, 83])
def test_watching_a_pet_that_carries_things_about_pays_nothing(seed):
    with Game() as game:
        cheat = Cheat(game, seed)
        drops = 0
        for _ in range(100):
            paid = cheat.does("search")
            assert all(value <= 0 for task in TASKS for value in paid[task].values()), (paid, cheat.scene.text)
            drops += " drops " in cheat.scene.text
    assert drops >= 6


def test_walking_past_old_rooms_pays_nothing():
    with Game() as game:
        cheat = Cheat(game, 14)
        way: list[str] = []
        scout = Frontier("explore")
        scout.reset(0, 0)
        while cheat.scene.rooms_found < 2 or len(way) < 20:
            action = scout.act([0], [cheat.playthrough])[0]
            cheat.playthrough.step(action)
            if cheat.scene.moved:
                way.append(action)
        back = [OPPOSITE[action] for action in reversed(way)]
        legs, ends = [], [cheat.scene.cell]
        for leg in (back, way, back, way):
            legs.append([cheat.does(action) for action in leg])
            ends.append(cheat.scene.cell)
        assert ends == [ends[0], ends[1]] * 2 + [ends[0]]
        rooms = cheat.playthrough.memory.level.room.ravel()
        assert {rooms[ends[0]], rooms[ends[1]]} <= {1, 2} and rooms[ends[0]] != rooms[ends[1]]
    paid = [step for leg in legs[1:] for step in leg]  # the first way back may find something
    for task in TASKS:
        assert all(value <= 0 for step in paid for value in step[task].values()), task


def test_stepping_away_from_a_fight_and_back_pays_nothing():
    moment = find_moments(42, ["combat"], 1, 100)["combat"][0]
    with Game() as game:
        playthrough = replayed(game, moment.seed, moment.actions, ACTION_SETS["compass"])
        left = 0
        for _ in range(20):
            before = playthrough.scene
            free = [name for name in DIRECTIONS if before.tile(name) in (Tile.FLOOR, Tile.CORRIDOR)]
            action = free[0] if before.hostile_adjacent and free else "search"
            after = playthrough.step(action)
            left += before.hostile_adjacent and not after.hostile_adjacent
            parts = rewards.components("combat", before, action, after, WEIGHTS)
            assert after.kills or all(value <= 0 for value in parts.values())
        assert left > 0
