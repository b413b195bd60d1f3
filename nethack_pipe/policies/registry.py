"""Policies by name."""

from typing import Literal, get_args

from nethack_pipe.policies.greedy import TaskGreedy
from nethack_pipe.policies.n_step import DEFAULT, NStep, NStepGreedy
from nethack_pipe.policies.protocol import Policy
from nethack_pipe.policies.scripted import Frontier, Random, WallAvoidance
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import Skill

PolicyName = Literal["random", "wall_avoidance", "frontier", "task_greedy", "task_greedy_fair", "n_step_greedy"]
POLICY_NAMES: tuple[PolicyName, ...] = get_args(PolicyName)

# Without a notion of what they play for.
TASK_BLIND: frozenset[PolicyName] = frozenset(("random", "wall_avoidance"))


def make(name: PolicyName, task: Skill, weights: RewardWeights, n_step: NStep = DEFAULT) -> Policy:
    """The policy `name`, playing for `task` unless it is one of `TASK_BLIND`; `n_step` is for n_step_greedy."""
    match name:
        case "random":
            return Random()
        case "wall_avoidance":
            return WallAvoidance()
        case "frontier":
            return Frontier(task)
        case "task_greedy":
            return TaskGreedy(task, weights)
        case "task_greedy_fair":
            return TaskGreedy(task, weights, fair=True)
        case "n_step_greedy":
            return NStepGreedy(task, weights, n_step)
