"""Turns games being played into rows of the table of transitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nethack_pipe.perception import features, text
from nethack_pipe.policies.registry import PolicyName, make
from nethack_pipe.rollouts.play import GameSpec, play
from nethack_pipe.rollouts.schema import SCHEMA
from nethack_pipe.seeds import Split
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import SKILLS, TASKS, Skill


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who plays which game: `game` is its number within `split`."""

    split: Split
    game: int
    spec: GameSpec
    policy: PolicyName
    task: Skill


def record(assignments: Sequence[Assignment], max_steps: int, weights: RewardWeights) -> pa.Table:
    """Plays the games and returns their transitions, in the order of `assignments`, then of steps.

    Games that share policy and task are played side by side.
    """
    rows: dict[int, list[dict[str, Any]]] = {i: [] for i in range(len(assignments))}
    groups: dict[tuple[PolicyName, Skill], list[int]] = {}
    for i, assignment in enumerate(assignments):
        groups.setdefault((assignment.policy, assignment.task), []).append(i)
    for (policy, task), members in groups.items():
        recorder = _Recorder([assignments[i] for i in members], [rows[i] for i in members], weights)
        play(
            make(policy, task, weights),
            [assignments[i].spec for i in members],
            max_steps,
            start=lambda slot, game: None,
            before=recorder.before,
            after=recorder.after,
        )
    return pa.Table.from_pylist([row for i in sorted(rows) for row in rows[i]], schema=SCHEMA)


class _Recorder:
    def __init__(
        self, assignments: Sequence[Assignment], rows: Sequence[list[dict[str, Any]]], weights: RewardWeights
    ) -> None:
        self.assignments, self.rows, self.weights = assignments, rows, weights

    def before(self, slot: int, game: Playthrough) -> None:
        assignment, scene = self.assignments[slot], game.scene
        self.rows[slot].append(
            {
                "game_seed": assignment.spec.seed,
                "split": assignment.split,
                "game": assignment.game,
                "step": len(self.rows[slot]),
                "turn": scene.turn,
                "policy": assignment.policy,
                "task": assignment.task,
                "state_text": text.state_text(scene, game.game.last),
                "features": features.vector(scene, SKILLS.index(assignment.task), game.mask),
                "hp": scene.hp,
                "max_hp": scene.max_hp,
                "gold": scene.gold,
                "depth": scene.depth,
                "x": scene.x,
                "y": scene.y,
                "explored": scene.explored,
                "rooms": scene.rooms,
                "items": scene.items_in_view,
                "hostiles": scene.hostiles.size,
                "visits": int(game.memory.level.visits.flat[scene.cell]),
            }
        )

    def after(self, slot: int, game: Playthrough, action: str) -> None:
        before, scene = game.before, game.scene
        assert before is not None
        self.rows[slot][-1].update(
            action=action,
            target=text.target(text.delta(before, scene)),
            message=scene.text,
            took_time=scene.took_time,
            done=scene.done,
            end_status=int(game.game.last.end_status),
            env_reward=float(scene.score - before.score),
            **{f"reward_{task}": rewards.reward(task, before, action, scene, self.weights) for task in TASKS},
        )
