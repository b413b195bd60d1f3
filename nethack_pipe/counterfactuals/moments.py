"""Decisive moments: where what the player does next matters. How they are told, and which of them are labelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from nethack_pipe.perception.scene import Scene
from nethack_pipe.tasks.skills import stairs_near

Kind = Literal["combat", "threat", "survival", "descent", "pickup"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# A moment of several kinds is drawn as the first of these: the rarer ones first, and before `threat`, which a hostile
# adjacent always is as well, `combat`.
DRAWN_AS: tuple[Kind, ...] = ("survival", "descent", "combat", "pickup", "threat")


@dataclass(frozen=True, slots=True)
class Moment:
    """A decisive moment of a game that was chosen to be labelled.

    Attributes:
        step: actions played before it.
        kinds: everything that makes it decisive.
        kind: the one it was drawn as.
        weight: how many of its game's moments of this kind it stands for, itself included: their number over the number
            that was drawn. Sums and means under these weights are unbiased for all decisive moments of the games.
    """

    step: int
    kinds: tuple[Kind, ...]
    kind: Kind
    weight: float


def kinds(scene: Scene) -> tuple[Kind, ...]:
    """What makes this moment decisive; empty when nothing does.

    combat: a hostile adjacent; threat: a hostile in view; survival: HP at or below half; descent: a known way down
    within five tiles; pickup: an item underfoot. Hostile is what its glyph and NetHack's own look command call so.
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


def choose(
    moments: Sequence[tuple[int, tuple[Kind, ...]]], quotas: Mapping[Kind, int], rng: np.random.Generator
) -> list[Moment]:
    """Draws from one game's decisive (step, kinds), in order of time: a sample stratified by kind.

    Each moment belongs to one kind, by `DRAWN_AS`; of each kind at most `quotas[kind]` are drawn, all of them equally
    likely and without replacement, so that a frequent kind takes nothing from a rare one. Quotas hold per game: what is
    chosen of a game depends on this game, the quotas and `rng` alone.
    """
    chosen = []
    for kind in DRAWN_AS:
        found = [moment for moment in moments if _drawn_as(moment[1]) == kind]
        count = min(quotas[kind], len(found))
        drawn = rng.choice(len(found), size=count, replace=False) if count else ()
        chosen += [Moment(step, kinds, kind, len(found) / count) for step, kinds in (found[index] for index in drawn)]
    return sorted(chosen, key=lambda moment: moment.step)


def _drawn_as(found: tuple[Kind, ...]) -> Kind:
    return next(kind for kind in DRAWN_AS if kind in found)
