"""Shaped rewards of one transition, per task, term by term.

A reward is paid for what really happened, once: every "first" and every record is kept by `perception.memory.Memory`
over the whole game, and arrives here as a count in the `Scene` after the step.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from nethack_pipe.params import Section

if TYPE_CHECKING:
    from nethack_pipe.perception.scene import Scene

Components = dict[str, float]


class ExploreWeights(Section):
    new_tile: float = 1.0
    new_room: float = 5.0
    new_stairs: float = 10.0
    new_item: float = 2.0
    repeated_state: float = -0.25
    recent_tile: float = -0.10
    repeated_action: float = -0.35
    senseless: float = -0.5
    death: float = -100.0


class SurviveWeights(Section):
    death: float = -100.0
    hp_lost: float = -1.0
    low_hp_factor: float = 2.0
    hp_gained: float = 0.5
    repeated_state: float = -0.25
    recent_tile: float = -0.10
    repeated_action: float = -0.25
    senseless: float = -0.5


class CombatWeights(Section):
    kill: float = 15.0
    cleared: float = 5.0
    hp_lost: float = -1.5
    idle: float = -0.5
    death: float = -100.0


class DescendWeights(Section):
    new_down_stairs: float = 25.0
    deeper: float = 100.0
    score: float = 0.1
    gold: float = 0.2
    experience_level: float = 1.0
    no_progress: float = -0.1
    death: float = -100.0


class ResourceWeights(Section):
    pickup: float = 2.0
    gold: float = 1.0
    new_item: float = 1.0
    senseless: float = -1.0
    waste: float = -2.0
    death: float = -100.0


class RewardWeights(Section):
    """One weight per term; `low_hp_factor` multiplies `hp_lost` while HP was at or below half."""

    explore: ExploreWeights = ExploreWeights()
    survive: SurviveWeights = SurviveWeights()
    combat: CombatWeights = CombatWeights()
    descend: DescendWeights = DescendWeights()
    resource: ResourceWeights = ResourceWeights()


def name_of(action: str) -> str:
    """``"kick:north"`` is a kick."""
    return action.partition(":")[0]


def senseless(before: "Scene", action: str, after: "Scene") -> bool:
    """Waiting beside a hostile, pickup on an empty tile, opening where no door is, anything that takes no game time."""
    return (
        not after.took_time
        or (action == "wait" and before.hostile_adjacent)
        or (action == "pickup" and not before.item_here and not after.picked_up)
    )


def repeated_action(before: "Scene", action: str, after: "Scene") -> bool:
    """The same action as the step before, and the hero is where he was."""
    return action == before.action and not after.moved


def explore(before: "Scene", action: str, after: "Scene", w: ExploreWeights) -> Components:
    return {
        "new_tile": w.new_tile * after.new_tiles,
        "new_room": w.new_room * after.new_rooms,
        "new_stairs": w.new_stairs * (after.new_down_stairs + after.new_up_stairs),
        "new_item": w.new_item * after.new_items,
        "repeated_state": w.repeated_state * after.repeated_state,
        "recent_tile": w.recent_tile * after.recent_tile,
        "repeated_action": w.repeated_action * repeated_action(before, action, after),
        "senseless": w.senseless * senseless(before, action, after),
        "death": w.death * (not after.alive),
    }


def survive(before: "Scene", action: str, after: "Scene", w: SurviveWeights) -> Components:
    change = after.hp - before.hp
    return {
        "death": w.death * (not after.alive),
        "hp_lost": w.hp_lost * max(0, -change) * (w.low_hp_factor if before.low_hp else 1.0),
        "hp_gained": w.hp_gained * max(0, change),
        "repeated_state": w.repeated_state * after.repeated_state,
        "recent_tile": w.recent_tile * after.recent_tile,
        "repeated_action": w.repeated_action * repeated_action(before, action, after),
        "senseless": w.senseless * senseless(before, action, after),
    }


def combat(before: "Scene", action: str, after: "Scene", w: CombatWeights) -> Components:
    cleared = after.kills > 0 and before.hostile_adjacent and not after.hostile_adjacent
    idle = before.hostile_adjacent and name_of(action) in ("wait", "search")
    return {
        "kill": w.kill * after.kills,
        "cleared": w.cleared * cleared,
        "hp_lost": w.hp_lost * max(0, before.hp - after.hp),
        "idle": w.idle * idle,
        "death": w.death * (not after.alive),
    }


def descend(before: "Scene", action: str, after: "Scene", w: DescendWeights) -> Components:
    score = max(0, after.points - before.points)
    progress = after.new_tiles > 0 or after.deeper > 0 or score > 0
    return {
        "new_down_stairs": w.new_down_stairs * after.new_down_stairs,
        "deeper": w.deeper * after.deeper,
        "score": w.score * score,
        "gold": w.gold * after.gold_record,
        "experience_level": w.experience_level * max(0, after.experience_level - before.experience_level),
        "no_progress": w.no_progress * (not progress),
        "death": w.death * (not after.alive),
    }


def resource(before: "Scene", action: str, after: "Scene", w: ResourceWeights) -> Components:
    name = name_of(action)
    wasted = after.took_time and (
        (name == "eat" and before.hunger < HUNGRY)
        or (name == "drink" and not before.low_hp)
        or (name == "drop" and before.burden == 0)
    )
    return {
        "pickup": w.pickup * after.picked_up,
        "gold": w.gold * after.gold_record,
        "new_item": w.new_item * after.new_items,
        "senseless": w.senseless * senseless(before, action, after),
        "waste": w.waste * wasted,
        "death": w.death * (not after.alive),
    }


# blstats hunger: 0 satiated, 1 not hungry, 2 hungry, 3 weak, 4 fainting (NetHack's hunger states)
SATIATED, HUNGRY, WEAK = 0, 2, 3

TERMS: dict[str, Callable[..., Components]] = {
    "explore": explore,
    "survive": survive,
    "combat": combat,
    "descend": descend,
    "resource": resource,
}


def components(task: str, before: "Scene", action: str, after: "Scene", weights: RewardWeights) -> Components:
    """The reward of one transition, term by term; its sum is the task reward.

    Args:
        before, after: consecutive scenes of one `Memory`. Both are needed as they are: nothing of them is shared.
        action: the action's name, with or without target.
    """
    return TERMS[task](before, action, after, getattr(weights, task))


def reward(task: str, before: "Scene", action: str, after: "Scene", weights: RewardWeights) -> float:
    """Sum of `components`."""
    return float(sum(components(task, before, action, after, weights).values()))
