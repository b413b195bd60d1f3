"""Skills as options (Sutton, Precup & Singh 1999): when one may start, when it stops, which actions it allows.

There is one skill for each task, by the same name.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np

from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.scene import WIDTH, Scene
from nethack_pipe.tasks.playthrough import Playthrough

Skill = Literal["explore", "survive", "combat", "descend", "resource"]
SKILLS: tuple[Skill, ...] = get_args(Skill)
TASKS = SKILLS

SchedulerName = Literal["per_episode", "rule_based", "random", "round_robin"]

MAX_STEPS = 8  # a skill hands over to the scheduler after this many steps
STAIRS_NEAR = 5  # tiles, Chebyshev
_UNKNOWN, _HOSTILE = int(Tile.UNKNOWN), int(Tile.HOSTILE)

_ALWAYS = {*DIRECTIONS, "wait", "search", "pray"}
ALLOWED: dict[Skill, frozenset[str]] = {
    "explore": frozenset(_ALWAYS | {"down", "up", "kick", "open"}),
    "survive": frozenset(_ALWAYS | {"up", "down", "eat", "drink"}),
    "combat": frozenset(_ALWAYS | {"kick"}),
    "descend": frozenset(_ALWAYS | {"down", "kick", "open"}),
    "resource": frozenset(_ALWAYS | {"pickup", "eat", "drink", "drop", "up", "down", "kick", "open"}),
}

WARY: frozenset[Skill] = frozenset(("survive", "combat"))
"""The skills that are for staying alive, not for getting anywhere."""


class SkillMask:
    """The legal actions that one skill chooses from, among `actions`.

    Those are the playthrough's legal ones that `ALLOWED` has, without steps into the unknown: what is next to the hero
    is seen, and what is not is rock. Where nothing at all around him is known (he is blind), these are left. Steps that
    did not even cost time when they were tried from here (a locked door, a gap too narrow for his load) are out, and so
    is any action that has just done nothing. With `avoid_traps` so are, for the skills of `WARY`, steps onto known
    traps that hurt (`glyphs.HURTING_TRAPS`), unless a hostile stands there to be fought. With `all_actions` everything
    passes, whether NetHack can make sense of it or not.
    """

    def __init__(
        self, skill: Skill, actions: Sequence[str], *, all_actions: bool = False, avoid_traps: bool = False
    ) -> None:
        self._wary = avoid_traps and skill in WARY
        self._all = np.ones(len(actions), dtype=bool) if all_actions else None
        self._allowed = np.array([name in ALLOWED[skill] for name in actions])
        directions = list(DIRECTIONS)
        self._moves = np.array([i for i, name in enumerate(actions) if name in DIRECTIONS])
        self._index = {name: i for i, name in enumerate(actions)}
        self._towards = np.array([directions.index(name) for name in actions if name in DIRECTIONS])
        offsets = [WIDTH * dy + dx for dy, dx in (DIRECTIONS[name] for name in actions if name in DIRECTIONS)]
        self._ways = list(zip(self._moves.tolist(), offsets, self._towards.tolist(), strict=True))

    def of(self, game: Playthrough) -> np.ndarray:
        """(len(actions),) bool for the present moment of `game`; never empty, since waiting or searching is legal."""
        if self._all is not None:
            return self._all
        mask = game.mask & self._allowed
        known = mask[self._moves] & (game.scene.adjacent[self._towards] != _UNKNOWN)
        if known.any():
            mask[self._moves] = known
        if not game.scene.took_time and game.scene.command in self._index:
            mask[self._index[game.scene.command]] = False
        level, here, around = game.memory.level, game.scene.cell, game.scene.adjacent
        traps = level.traps if self._wary and not game.scene.swallowed else ()
        if level.barred or traps:
            for move, offset, towards in self._ways:
                tile = here + offset
                if here in level.barred.get(tile, ()) or (tile in traps and around.item(towards) != _HOSTILE):
                    mask[move] = False
        return mask


def skill_masks(actions: Sequence[str], *, action_masks: bool, avoid_traps: bool) -> dict[Skill, SkillMask]:
    """The mask of every skill, by the settings of `tasks.env.EnvConfig` of these names."""
    return {skill: SkillMask(skill, actions, all_actions=not action_masks, avoid_traps=avoid_traps) for skill in SKILLS}


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


DECISIVE: dict[Skill, Callable[[Scene], bool]] = {
    "survive": lambda scene: scene.low_hp,
    "combat": lambda scene: scene.hostile_adjacent,
}
"""By skill, the moments at which it has something to do; the others have it from the beginning of a game."""


def should_stop(skill: Skill, scene: Scene, steps: int) -> bool:
    """Whether the skill is over after `steps` steps: time is up, or what it was for is done."""
    if steps >= MAX_STEPS:
        return True
    return skill in ("combat", "survive") and not can_start(skill, scene)


PRIORITY: tuple[Skill, ...] = ("survive", "combat", "resource", "descend", "explore")


class Scheduler:
    """Chooses the next skill among `enabled`.

    ``per_episode`` draws one skill for the whole game, in proportion to `shares` (alike without), ``rule_based`` takes
    the first of `PRIORITY` that can start, ``round_robin`` the next one in turn, ``random`` draws one of those that can
    start. Draws come from a generator seeded by `reset`. Where none can start, the first enabled skill is taken.
    """

    def __init__(
        self, name: SchedulerName, enabled: Sequence[Skill], shares: Mapping[Skill, float] | None = None
    ) -> None:
        self.name, self.enabled = name, tuple(enabled)
        self._shares = [1.0 if shares is None else shares[skill] for skill in self.enabled]
        self.reset(0)

    def reset(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._last = -1
        self._of_game = self._random.choices(self.enabled, self._shares)[0]

    def settle(self, skill: Skill) -> None:
        """From now on ``per_episode`` means `skill`, until the next reset."""
        self._of_game = skill

    def first(self, bootstrap: Skill) -> Skill:
        """The skill that a game begins with: `bootstrap`, unless the game has one of its own."""
        return self._of_game if self.name == "per_episode" else bootstrap

    def next(self, scene: Scene) -> Skill:
        if self.name == "per_episode":
            return self._of_game
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
