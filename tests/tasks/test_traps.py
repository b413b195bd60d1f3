"""Which traps are known, and who keeps off them."""

import re
from collections import Counter

import pytest

from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS, KEYS
from nethack_pipe.game.game import Game, _text
from nethack_pipe.perception.glyphs import HURTING_TRAPS, Tile
from nethack_pipe.perception.scene import WIDTH
from nethack_pipe.policies.scripted import Frontier
from nethack_pipe.tasks.playthrough import Playthrough
from tests.helpers.scenes import cmap

COMPASS = ACTION_SETS["compass"]
IN_VIEW = (29, 47, 122, 205, 240, 254)  # games in which the script comes past traps early on
MONSTERS = (Tile.PET, Tile.PEACEFUL, Tile.HOSTILE)
# NetHack's answer to "^" and a direction.
THAT_IS = re.compile(r"That is an? (.+?)\.")


def tiles_around(playthrough: Playthrough) -> dict[str, int]:
    return {name: playthrough.scene.cell + dy * WIDTH + dx for name, (dy, dx) in DIRECTIONS.items()}


def asked(game: Game, direction: str) -> str:
    """The trap that NetHack's own command says is in `direction`, or ""."""

    def ask(branch: Game) -> str:
        for key in (ord("^"), KEYS[direction]):
            branch._press(key)
        said = THAT_IS.search(_text(branch._message))
        return said.group(1) if said else ""

    return game.branch(ask)


@pytest.fixture(scope="module")
def explored() -> dict[int, list[str]]:
    """The script's actions in each game, to the first moment with a trap that hurts beside the hero."""
    met = {}
    with Game() as game:
        playthrough, script = Playthrough(game, COMPASS), Frontier("explore")
        for seed in IN_VIEW:
            playthrough.reset(seed)
            script.reset(0, seed)
            while not playthrough.memory.level.traps.intersection(tiles_around(playthrough).values()):
                assert len(game.actions) < 100
                playthrough.step(script.act([0], [playthrough])[0])
            met[seed] = game.actions
    return met


def test_what_is_known_of_traps_is_what_netHack_says_of_them(explored):
    said: Counter[str] = Counter()
    hidden = 0
    with Game() as game:
        playthrough, script = Playthrough(game, COMPASS), Frontier("explore")
        for seed in explored:
            playthrough.reset(seed)
            script.reset(0, seed)
            for step in range(80):
                if playthrough.scene.done:
                    break
                for direction, cell in tiles_around(playthrough).items():
                    kind = asked(game, direction)
                    known = cell in playthrough.memory.level.traps
                    if playthrough.scene.tile(direction) in MONSTERS and not known:
                        continue  # it hides the trap into which it fell
                    assert known == (kind in HURTING_TRAPS), f"game {seed}, step {step}: {kind!r} in the {direction}"
                    said[kind] += 1
                    hidden += known and game.last.observation["glyphs"].flat[cell] not in range(cmap(0), cmap(80))
                playthrough.step(script.act([0], [playthrough])[0])
    assert len(HURTING_TRAPS & said.keys()) >= 3 and hidden > 5, (said, hidden)
