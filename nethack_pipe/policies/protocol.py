"""What every policy looks like: one call chooses an action for each of a batch of games."""

from collections.abc import Sequence
from typing import Protocol

from nethack_pipe.tasks.playthrough import Playthrough


class Policy(Protocol):
    """A policy plays several games at a time, each in a slot of its own.

    What it does in one slot depends on that slot's game and seed alone, never on the company it is in: a game is the
    same game in any batch.
    """

    def reset(self, slot: int, seed: int) -> None:
        """A new game starts in `slot`; `seed` is for the policy's own draws there."""

    def act(self, slots: Sequence[int], games: Sequence[Playthrough]) -> list[str]:
        """One action name for each game; ``games[i]`` is the one in ``slots[i]``."""
