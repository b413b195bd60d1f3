"""Which moments are decisive, and which of them are chosen."""

from collections import Counter

import numpy as np
import pytest

from nethack_pipe.counterfactuals.moments import DRAWN_AS, KINDS, choose, kinds
from tests.helpers.scenes import Story

ALL = dict.fromkeys(KINDS, 100)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.mark.parametrize(
    ("painting", "stats", "expected"),
    [
        ("|...@...|", {}, ()),
        ("|...@n..|", {}, ("combat", "threat")),
        ("|...@..n|", {}, ("threat",)),
        ("|n..@n..|", {}, ("combat", "threat")),
        ("|...@I..|", {}, ("combat", "threat")),
        ("|fG.@fGS|", {}, ()),  # pets, peacefuls, a statue
        ("|...@...|", {"hp": 7}, ("survival",)),
        ("|...@...|", {"hp": 8}, ()),
        ("|@....>..|", {}, ("descent",)),
        ("|@.....>.|", {}, ()),  # six tiles away
        ("|@.<.....|", {}, ()),
        ("|@).......|", {}, ()),  # beside him
        ("|n..@.>..|", {"hp": 3}, ("threat", "survival", "descent")),
    ],
)
def test_kinds_of_moments(painting, stats, expected):
    assert kinds(Story().show(painting, **stats)) == expected


def test_an_item_underfoot_and_stairs_underfoot():
    story = Story()
    story.show("|@)>.|")
    assert kinds(story.show("|.@>.|", "east", "You see here a dagger.")) == ("descent", "pickup")
    assert kinds(story.show("|.)@.|", "east")) == ("descent",)


def test_a_quota_holds_for_each_kind_by_itself():
    moments = [(step, ("threat",)) for step in range(90)] + [(90 + i, ("survival", "threat")) for i in range(5)]
    chosen = choose(moments, ALL | {"threat": 3, "survival": 2}, rng())
    assert [moment.step for moment in chosen] == sorted({moment.step for moment in chosen})
    assert Counter(moment.kind for moment in chosen) == {"threat": 3, "survival": 2}
    assert all(type(moment.step) is int and dict(moments)[moment.step] == moment.kinds for moment in chosen)
    assert choose(moments, dict.fromkeys(KINDS, 0), rng()) == [] == choose([], ALL, rng())
    assert [moment.step for moment in choose(moments, ALL, rng())] == list(range(95))


def test_a_moment_of_several_kinds_is_drawn_as_the_rarest():
    assert set(DRAWN_AS) == set(KINDS)
    moments = [(i, tuple(kind for kind in KINDS if kind in DRAWN_AS[i:])) for i in range(5)]
    assert [moment.kind for moment in choose(moments, ALL, rng())] == list(DRAWN_AS)
    (both,) = choose([(0, ("combat", "threat"))], ALL, rng())
    assert (both.kind, both.kinds, both.weight) == ("combat", ("combat", "threat"), 1.0)


def test_the_same_draws_give_the_same_choice():
    moments = [(step, ("threat",)) for step in range(200)]
    first, again, other = (choose(moments, ALL | {"threat": 10}, rng(seed)) for seed in (1, 1, 2))
    assert first == again != other and len(first) == len(other) == 10


def test_within_a_kind_every_moment_is_as_likely():
    moments = [(step, ("threat", "combat") if step < 5 else ("threat",)) for step in range(15)]
    quotas = ALL | {"threat": 3, "combat": 2}
    counts = Counter(moment.step for seed in range(2000) for moment in choose(moments, quotas, rng(seed)))
    assert all(720 < counts[step] < 880 for step in range(5))  # 800 expected, standard deviation 22
    assert all(540 < counts[step] < 660 for step in range(5, 15))  # 600 expected, standard deviation 20


def test_weights_make_sums_over_the_drawn_those_over_all():
    moments = [(step, ("threat",) if step % 3 else ("pickup",)) for step in range(90)]
    quotas = ALL | {"threat": 7, "pickup": 4}
    draws = [choose(moments, quotas, rng(seed)) for seed in range(500)]
    assert all(sum(moment.weight for moment in drawn) == pytest.approx(90) for drawn in draws)
    sums = [sum(moment.weight * moment.step**2 for moment in drawn) for drawn in draws]
    truth = sum(step**2 for step, _ in moments)
    assert np.mean(sums) == pytest.approx(truth, abs=4 * np.std(sums) / 500**0.5) and np.std(sums) > 0
