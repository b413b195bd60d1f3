"""Plays batches of games with a policy."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.policies.protocol import Policy
from nethack_pipe.tasks.playthrough import Playthrough


@dataclass(frozen=True, slots=True)
class GameSpec:
    """One game to play: NetHack's seed, and the seed of the policy's own draws."""

    seed: int
    policy_seed: int


Before = Callable[[int, Playthrough], None]
After = Callable[[int, Playthrough, str], None]


def play(
    policy: Policy,
    specs: Sequence[GameSpec],
    max_steps: int,
    *,
    actions: Sequence[str] = ACTION_SETS["reference"],
    start: Before,
    before: Before,
    after: After,
) -> None:
    """Plays all games of `specs` side by side, each until it is over or `max_steps` actions long.

    Args:
        start, before, after: called with the index of the game in `specs` and its playthrough: when the game has begun,
            when an action is about to be chosen, and when it has been played (with the action's name).
    """
    with ExitStack() as stack:
        games = [Playthrough(stack.enter_context(Game()), actions) for _ in specs]
        for slot, (game, spec) in enumerate(zip(games, specs, strict=True)):
            game.reset(spec.seed)
            policy.reset(slot, spec.policy_seed)
            start(slot, game)
        live = list(range(len(specs)))
        for _ in range(max_steps):
            for slot in live:
                before(slot, games[slot])
            for slot, action in zip(live, policy.act(live, [games[slot] for slot in live]), strict=True):
                games[slot].step(action)
                after(slot, games[slot], action)
            live = [slot for slot in live if not games[slot].scene.done]
            if not live:
                return
