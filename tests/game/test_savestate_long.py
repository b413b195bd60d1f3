"""Thousands of branches of savestates against replays. To be run by hand, after a change to the C code:

    NETHACK_PIPE_LONG=1 python -m pytest -s tests/game/test_savestate_long.py

takes two to five minutes on two cores and says how much it compared. NETHACK_PIPE_LONG=3 plays three times as many
games; the first ones are always the same. What fails is told by the plan's name, which begins with the kind of game
and ends with its seed, and by the numbers of its branches.
"""

import os

import pytest

from nethack_pipe.game.savestate.saver import patched
from tests.helpers.key_games import DIGGER, Plan, branched, start
from tests.helpers.savestate_process import Process, plans

ROUNDS = int(os.environ.get("NETHACK_PIPE_LONG", "0"))
KINDS = (
    Plan(1),
    Plan(2, "val-hum-law-fem", lgen=False),
    Plan(3, DIGGER),
    Plan(4, DIGGER, lgen=False),
    Plan(5, wizard=True),
    Plan(6, "wiz-elf-cha-fem", wizard=True, lgen=False),
    Plan(7, env="NetHackScore-v0", limits=(250, 5000)),
    Plan(8, env="NetHackScore-v0", limits=(5000, 280), lgen=False),
    Plan(9, "@", env="NetHackChallenge-v0"),
)


@pytest.mark.slow
@pytest.mark.skipif(not ROUNDS, reason="set NETHACK_PIPE_LONG=1 to run it: it takes minutes")
def test_thousands_of_branches_equal_their_replays() -> None:
    chosen = [
        Plan(1000 * round + 10 * seed + kind.seed, kind.role, kind.wizard, kind.lgen, kind.env, kind.limits, 300, 60)
        for round in range(ROUNDS)
        for seed in range(1, 5)
        for kind in KINDS
    ]
    # The second process begins when this one has made its own branches.
    references = [Process("replays", plans(chosen[::2]), NETHACK_PIPE_BRANCHING="fork")]
    found = {}
    for plan in chosen:
        with patched():
            game = start(plan)
        found[str(plan)] = branched(game)
        game.close()
    references.append(Process("replays", plans(chosen[1::2]), NETHACK_PIPE_BRANCHING="fork"))

    replays = references[0].answer() | references[1].answer()
    different = []
    for name, result in found.items():
        main, digests = replays[name]
        different += [f"{name}: main line"] * (result.main != main)
        different += [f"{name}: branch {i}" for i, digest in enumerate(result.branches) if digest != digests[i]]
        different += [f"{name}: branch {i} again" for i, digest in result.again.items() if digest != digests[i]]
    results = found.values()
    compared = sum(bool(digest) for result in results for digest in result.branches)
    counts = {
        "games": len(found),
        "moments": sum(len(result.again) for result in results),
        "branches compared": compared,
        "steps in them": sum(result.steps for result in results),
        "from within a prompt": sum(result.asking for result in results),
        "to the game's end": sum(result.ended for result in results),
        "to another level": sum(result.changed_level for result in results),
        "different": len(different),
    }
    print(f"\n{counts}")
    assert different == []
    assert compared > 150 * len(found)
