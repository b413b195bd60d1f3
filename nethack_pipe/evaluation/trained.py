"""The trained policy in the games of `closed_loop` and `world`: apart from these, so that the baselines' stage does not
depend on the network's code."""

from functools import partial
from pathlib import Path
from typing import Any

from nethack_pipe.evaluation import closed_loop, world
from nethack_pipe.policies.trained import TrainedPolicy

NAME = "appo"  # of the policy among the others


def play_match(folder: Path, match: closed_loop.Match) -> list[dict[str, Any]]:
    """As `closed_loop.play_with`; `folder` has the exported policy."""
    return closed_loop.play_with(TrainedPolicy(folder, match.tasks[0]), match)


def play_whole_game(folder: Path, whole: world.WholeGame) -> dict[str, Any]:
    """As `world.play_with`; `folder` has the exported policy."""
    policy = TrainedPolicy(folder, whole.skills[0])
    return world.play_with(policy, partial(policy.set_skill, 0), whole)
