"""Games played by a policy, as lists of what was done."""

from collections.abc import Callable, Sequence

from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.policies.protocol import Policy
from nethack_pipe.rollouts.play import GameSpec, play
from nethack_pipe.tasks.playthrough import Playthrough


def played(
    policy: Policy,
    specs: Sequence[GameSpec],
    steps: int,
    actions: Sequence[str] = ACTION_SETS["reference"],
    watch: Callable[[int, Playthrough], None] = lambda slot, game: None,
) -> list[list[tuple[str, int, int, int]]]:
    """For each game (action, turn, cell, hit points) of every step. `watch` is called before each action."""
    logs: list[list[tuple[str, int, int, int]]] = [[] for _ in specs]

    def after(slot: int, game: Playthrough, action: str) -> None:
        logs[slot].append((action, game.scene.turn, game.scene.cell, game.scene.hp))

    play(policy, specs, steps, actions=actions, start=lambda slot, game: None, before=watch, after=after)
    return logs
