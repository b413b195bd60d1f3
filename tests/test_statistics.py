"""Means with bootstrap intervals: cases that can be worked out, and how often the interval covers the mean."""

import numpy as np
import pytest

from nethack_pipe.statistics import mean_interval, paired_difference


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.mark.parametrize("values", [[3.5], [3.5, 3.5, 3.5]])
def test_equal_values_are_their_own_interval(values):
    assert mean_interval(values, rng()) == {"mean": 3.5, "low": 3.5, "high": 3.5}


def test_two_values():
    # The bootstrap means are 0, 1/2 and 1 with chances 1/4, 1/2, 1/4.
    assert mean_interval([0, 1], rng()) == {"mean": 0.5, "low": 0.0, "high": 1.0}


def test_one_success_in_eight():
    # The mean of a resample is Binomial(8, 1/8) / 8: P(X = 0) = 0.34, P(X <= 2) = 0.933, P(X <= 3) = 0.988.
    assert mean_interval([0] * 7 + [8], rng()) == {"mean": 1.0, "low": 0.0, "high": 3.0}


def test_whole_games_are_redrawn():
    # Game 1 has the mean 3/4, game 3 the mean 1/2: re-drawing two games gives 1/2, 5/8 or 3/4.
    right = [1, 1, 1, 0, 1, 1, 0, 0]
    assert mean_interval(right, rng(), [1, 1, 1, 1, 3, 3, 3, 3]) == {"mean": 0.625, "low": 0.5, "high": 0.75}
    assert mean_interval(right, rng(), [1] * 8) == {"mean": 0.625, "low": 0.625, "high": 0.625}
    # Longer games weigh more, in the mean and in its interval.
    assert mean_interval([1, 0, 0, 0], rng(), [1, 3, 3, 3]) == {"mean": 0.25, "low": 0.0, "high": 1.0}


def test_an_interval_of_many_games_is_that_of_theory():
    games = np.repeat(np.arange(200), 5)
    values = np.repeat(rng(0).random(200) < 0.3, 5).astype(float)  # rows of a game are all alike: 200 draws, not 1000
    interval = mean_interval(values, rng(1), games)
    assert interval["mean"] == values.mean()
    error = 1.96 * np.sqrt(values.mean() * (1 - values.mean()) / 200)
    assert interval["high"] - interval["mean"] == pytest.approx(error, rel=0.15)


def test_nothing_has_no_mean():
    with pytest.raises(ValueError, match="no values"):
        mean_interval([], rng())


def test_the_interval_covers_the_mean_as_often_as_it_says():
    draws = rng(1)
    covered = 0
    widths = []
    for i in range(150):
        interval = mean_interval(draws.normal(10, 2, size=30), rng(i))
        assert interval["low"] < interval["mean"] < interval["high"]
        covered += interval["low"] <= 10 <= interval["high"]
        widths.append(interval["high"] - interval["low"])
    assert 0.88 <= covered / 150 <= 0.99
    assert np.mean(widths) == pytest.approx(2 * 1.96 * 2 / np.sqrt(30), rel=0.1)


def test_the_same_generator_gives_the_same_digits():
    values = [1.0, 5.0, 2.0, 8.0, 13.0]
    assert mean_interval(values, rng(4)) == mean_interval(values, rng(4))


def test_paired_differences():
    # Games differ far more than policies do: only the pairs show it.
    baseline = [0.0, 100.0, 50.0, 200.0]
    assert paired_difference([value + 2 for value in baseline], baseline, rng()) == {"mean": 2, "low": 2, "high": 2}
    interval = paired_difference([1, 101, 53, 201], baseline, rng())
    assert interval["mean"] == 1.5 and 1 <= interval["low"] < 1.5 < interval["high"] <= 3
    assert paired_difference(baseline, [1, 101, 53, 201], rng())["mean"] == -1.5


def test_what_cannot_be_paired_is_refused():
    with pytest.raises(ValueError, match="3 values cannot be paired with 2"):
        paired_difference([1, 2, 3], [1, 2], rng())
