"""Policies by name."""

from typing import Literal, get_args

from nethack_pipe.policies.greedy import TaskGreedy
from nethack_pipe.policies.protocol import Policy
from nethack_pipe.policies.scripted import Frontier, Random, WallAvoidance
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import Skill

PolicyName = Literal["random", "wall_avoidance", "frontier", "task_greedy", "task_greedy_fair"]
POLICY_NAMES: tuple[PolicyName, ...] = get_args(PolicyName)


def make(name: PolicyName, task: Skill, weights: RewardWeights) -> Policy:
    """The policy `name`, playing for `task` where it has a notion of one."""
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
