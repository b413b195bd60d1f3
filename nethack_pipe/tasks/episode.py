"""Trajectory metrics of one episode."""

from collections import Counter

from nethack_pipe.perception.scene import Scene
from nethack_pipe.tasks.rewards import Components, repeated_action, senseless


class Episode:
    """Sums up an episode, transition by transition.

    `summary` gives a flat dict of floats: ``task_reward`` and its component sums ``reward_<task>_<term>``,
    ``env_reward`` (NetHack's score change), ``length``, ``unique_tiles``, ``rooms``, ``kills``, ``final_hp`` (of the
    last living moment), ``depth`` (deepest level), ``gold``, ``alive`` (1 or 0), the shares of steps
    ``repeated_state_rate``, ``repeated_action_rate``, ``recent_tile_rate``, ``senseless_rate``, and
    ``action_<name>`` (share of steps).
    """

    def __init__(self, start: Scene) -> None:
        self.start = self.end = start
        self.length = 0
        self.depth = start.depth
        self.kills = 0
        self.terms: Counter[str] = Counter()
        self.actions: Counter[str] = Counter()
        self.flaws: Counter[str] = Counter()

    def add(self, task: str, action: str, before: Scene, after: Scene, components: Components) -> None:
        """Takes in one transition and its reward components for `task`."""
        self.length += 1
        self.end = after
        self.depth = max(self.depth, after.depth)
        self.kills += after.kills
        for term, value in components.items():
            if value:
                self.terms[f"{task}_{term}"] += value  # type: ignore[assignment]
        self.actions[action] += 1
        for flaw, committed in (
            ("repeated_state", after.repeated_state),
            ("recent_tile", after.recent_tile),
            ("repeated_action", repeated_action(before, action, after)),
            ("senseless", senseless(before, action, after)),
        ):
            if committed:
                self.flaws[flaw] += 1

    @property
    def task_reward(self) -> float:
        return float(sum(self.terms.values()))

    def summary(self) -> dict[str, float]:
        steps = max(self.length, 1)
        return {
            "task_reward": self.task_reward,
            "env_reward": float(self.end.score - self.start.score),
            "length": float(self.length),
            "unique_tiles": float(self.end.unique_tiles),
            "rooms": float(self.end.rooms_found),
            "kills": float(self.kills),
            "final_hp": float(self.end.hp),
            "depth": float(self.depth),
            "gold": float(self.end.gold),
            "alive": float(self.end.alive),
            **{
                f"{flaw}_rate": self.flaws[flaw] / steps
                for flaw in ("repeated_state", "repeated_action", "recent_tile", "senseless")
            },
            **{f"reward_{term}": float(value) for term, value in sorted(self.terms.items())},
            **{f"action_{name}": count / steps for name, count in sorted(self.actions.items())},
        }
