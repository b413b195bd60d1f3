"""Which moments are decisive, and which of them are chosen."""

from collections import Counter

import numpy as np
import pytest

from nethack_pipe.counterfactuals.moments import KINDS, choose, kinds
from tests.helpers.scenes import Story


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


def test_at_most_so_many_are_chosen_in_order_of_time():
    moments = [(step, ("threat",)) for step in range(50)]
    chosen = choose(moments, 8, rng())
    assert len(chosen) == len(set(chosen)) == 8 and chosen == sorted(chosen) and set(chosen) <= set(range(50))
    assert all(type(step) is int for step in chosen)
    assert choose(moments, 100, rng()) == list(range(50))
    assert choose([], 5, rng()) == [] and choose(moments, 0, rng()) == []


def test_the_same_draws_give_the_same_choice():
    moments = [(step, ("threat",)) for step in range(200)]
    assert choose(moments, 10, rng(1)) == choose(moments, 10, rng(1)) != choose(moments, 10, rng(2))


def test_kinds_take_turns_so_that_threats_drown_nothing():
    moments = [(step, ("threat",)) for step in range(97)] + [(97, ("descent",)), (98, ("pickup",)), (99, ("combat",))]
    for seed in range(20):
        chosen = choose(moments, 6, rng(seed))
        assert chosen[-3:] == [97, 98, 99] and len(chosen) == 6
    many = [(step, (kind,)) for i, kind in enumerate(KINDS) for step in range(100 * i, 100 * i + 20)]
    assert Counter(step // 100 for step in choose(many, 15, rng())) == dict.fromkeys(range(5), 3)


def test_a_moment_of_two_kinds_is_chosen_once():
    moments = [(0, ("combat", "survival", "descent")), (1, ("combat",)), (2, ("threat",))]
    assert choose(moments, 3, rng()) == [0, 1, 2]
    assert choose(moments, 10, rng()) == [0, 1, 2]


def test_within_a_kind_every_moment_is_as_likely():
    moments = [(step, ("threat",)) for step in range(10)]
    counts = Counter(step for seed in range(2000) for step in choose(moments, 3, rng(seed)))
    assert all(540 < counts[step] < 660 for step in range(10))  # 600 expected, standard deviation 20
