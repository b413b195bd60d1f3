"""Skills as options (Sutton, Precup & Singh 1999): when one may start, when it stops, which actions it allows.

There is one skill for each task, by the same name.
"""

import random
from collections.abc import Sequence
from typing import Literal, get_args

from nethack_pipe.perception.scene import Scene

Skill = Literal["explore", "survive", "combat", "descend", "resource"]
SKILLS: tuple[Skill, ...] = get_args(Skill)
TASKS = SKILLS

SchedulerName = Literal["rule_based", "random", "round_robin"]

MAX_STEPS = 8  # a skill hands over to the scheduler after this many steps
STAIRS_NEAR = 5  # tiles, Chebyshev

_MOVES = {"north", "south", "east", "west", "northeast", "northwest", "southeast", "southwest"}
ALLOWED: dict[Skill, frozenset[str]] = {
    "explore": frozenset(_MOVES | {"wait", "search", "down", "up", "kick", "open"}),
    "survive": frozenset(_MOVES | {"wait", "search", "up", "down", "eat", "drink"}),
    "combat": frozenset(_MOVES | {"wait", "search", "kick"}),
    "descend": frozenset(_MOVES | {"wait", "search", "down", "kick", "open"}),
    "resource": frozenset(_MOVES | {"wait", "search", "pickup", "eat", "drink", "drop", "up", "down", "kick", "open"}),
}


def stairs_near(scene: Scene) -> bool:
    """Downstairs under the hero or, known, within five tiles."""
    return scene.stairs_down_distance <= STAIRS_NEAR


def can_start(skill: Skill, scene: Scene) -> bool:
    """Whether there is something for the skill to do in this state."""
    match skill:
        case "survive":
            return scene.low_hp
        case "combat":
            return scene.hostiles.size > 0 or scene.hostile_adjacent
        case "resource":
            return bool(scene.item_here)
        case "descend":
            return stairs_near(scene)
        case "explore":
            return True


def should_stop(skill: Skill, scene: Scene, steps: int) -> bool:
    """Whether the skill is over after `steps` steps: time is up, or what it was for is done."""
    if steps >= MAX_STEPS:
        return True
    return skill in ("combat", "survive") and not can_start(skill, scene)


PRIORITY: tuple[Skill, ...] = ("survive", "combat", "resource", "descend", "explore")


class Scheduler:
    """Chooses the next skill among `enabled`.

    ``rule_based`` takes the first of `PRIORITY` that can start, ``round_robin`` the next one in turn, ``random`` draws
    one from a generator seeded by `reset`. Where none can start, the first enabled skill is taken.
    """

    def __init__(self, name: SchedulerName, enabled: Sequence[Skill]) -> None:
        self.name, self.enabled = name, tuple(enabled)
        self.reset(0)

    def reset(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._last = -1

    def next(self, scene: Scene) -> Skill:
        possible = [skill for skill in PRIORITY if skill in self.enabled and can_start(skill, scene)]
        if not possible:
            return self.enabled[0]
        match self.name:
            case "rule_based":
                return possible[0]
            case "random":
                return self._random.choice(possible)
            case "round_robin":
                order = [SKILLS.index(skill) for skill in possible]
                self._last = min(order, key=lambda index: (index - self._last - 1) % len(SKILLS))
                return SKILLS[self._last]
