"""Run as a process of its own: play fixed games and print the digest of each, as JSON."""

import hashlib
import json

from nethack_pipe.game.game import Game
from tests.helpers.games import WIZARD_KEYS, play, random_actions, tour

SEEDS = (1, 2, 2**61 + 5)
# In these two dungeons an ant hole and a shop depend on the hero's birth time, to the second.
TOUR_SEEDS = (20, 59)
TOUR_LEVELS = (2, 5, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22)


def hashed(digests: list[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def digests() -> dict[str, str]:
    """One hash per game, over all of its steps."""
    result = {}
    with Game() as game:
        for seed in SEEDS:
            result[f"game {seed}"] = hashed(play(game, seed, random_actions(seed, 150)))
    with Game(WIZARD_KEYS, wizard=True) as game:
        for seed in TOUR_SEEDS:
            result[f"tour {seed}"] = hashed(tour(game, seed, TOUR_LEVELS, steps=4))
    return result


if __name__ == "__main__":
    print(json.dumps(digests()))
