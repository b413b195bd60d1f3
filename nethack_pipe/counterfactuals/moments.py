"""Decisive moments: where what the player does next matters."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from nethack_pipe.perception.scene import Scene
from nethack_pipe.tasks.skills import stairs_near

Kind = Literal["combat", "threat", "survival", "descent", "pickup"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def kinds(scene: Scene) -> tuple[Kind, ...]:
    """What makes this moment decisive; empty when nothing does.

    combat: a hostile adjacent; threat: a hostile in view; survival: HP at or below half; descent: a known way down
    within five tiles; pickup: an item underfoot.
    """
    found: list[Kind] = []
    if scene.hostile_adjacent:
        found.append("combat")
    if scene.hostiles.size:
        found.append("threat")
    if scene.low_hp:
        found.append("survival")
    if stairs_near(scene):
        found.append("descent")
    if scene.item_here:
        found.append("pickup")
    return tuple(found)


def choose(moments: Sequence[tuple[int, tuple[Kind, ...]]], count: int, rng: np.random.Generator) -> list[int]:
    """At most `count` steps out of a game's decisive (step, kinds), in order of time.

    Kinds take turns, rarest first, so that a frequent kind does not drown the others; within a kind every moment is
    equally likely.
    """
    by_kind = {kind: [step for step, found in moments if kind in found] for kind in KINDS}
    queues = [
        list(rng.permutation(steps)) for _, steps in sorted(by_kind.items(), key=lambda item: len(item[1])) if steps
    ]
    chosen: set[int] = set()
    while queues and len(chosen) < count:
        for queue in queues:
            while queue:
                step = int(queue.pop())
                if step not in chosen:
                    chosen.add(step)
                    break
            if len(chosen) == count:
                break
        queues = [queue for queue in queues if queue]
    return sorted(chosen)
