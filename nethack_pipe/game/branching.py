"""What would follow from a moment: actions and what comes after them, under one or many random streams."""

from collections.abc import Callable, Sequence

from nethack_pipe import seeds
from nethack_pipe.game.game import Game, GameState, Step

Action = str | int


def branch(
    game: Game,
    actions: Sequence[Action | list[Action] | tuple[Action, ...]],
    *,
    state: GameState | None = None,
    horizon: int | None = None,
    policy: Callable[[Game], Action] | None = None,
    samples: int | None = None,
    seed: int = 0,
) -> list[list[list[Step]]]:
    """Play each of `actions` from one moment; the game is afterwards as it was.

    Args:
        actions: what is tried, each one action, or a list or tuple of them.
        state: the moment, from `Game.save`; None for the present one.
        horizon: how many actions are played in all; None for those given, needed with a policy.
        policy: chooses, from the game as it then stands, each action after the given ones. It must not change it.
        samples: how many random streams each of `actions` is played under; None for the game's own stream, once. The
            streams come from `seed` and are the same for all actions (common random numbers), so that differences
            between actions vary less. Levels not yet made are in all of them those of the game's own seed.

    Returns:
        The steps by action, by sample, in order of time; fewer where the game ended. They own their data.

    Raises:
        ValueError: a horizon without a policy, or shorter than a sequence; no samples.
        SaveError: `state` is not of this game as it is since its last reset.
    """
    plans = [list(plan) if isinstance(plan, list | tuple) else [plan] for plan in actions]
    longest = max(map(len, plans), default=0)
    if (policy is None) != (horizon is None):
        raise ValueError("a policy needs a horizon, and a horizon a policy that goes on to it")
    if horizon is not None and horizon < longest:
        raise ValueError(f"horizon is {horizon}, but one of the actions is a sequence of {longest}")
    if samples is not None and samples < 1:
        raise ValueError(f"samples must be None or at least 1, not {samples}")
    streams = [None] if samples is None else [seeds.integer(seed, "branch", sample) for sample in range(samples)]

    def continuation(plan: Sequence[Action], stream: int | None) -> Callable[[Game], list[Step]]:
        def play(game: Game) -> list[Step]:
            if stream is not None:
                game.reseed(stream)
            steps: list[Step] = []
            while not game.last.done and len(steps) < (horizon or len(plan)):
                action = plan[len(steps)] if len(steps) < len(plan) else policy(game)  # type: ignore[misc]
                steps.append(game.step(action).copy())
            return steps

        return play

    plays = [[continuation(plan, stream) for stream in streams] for plan in plans]
    if state is None:
        return [[game.branch(play) for play in of_action] for of_action in plays]
    present = game.save()
    try:
        game.load(state)
        return [[game.branch(play) for play in of_action] for of_action in plays]
    finally:
        game.load(present)
