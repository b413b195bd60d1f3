"""Means with confidence intervals over games."""

from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 5_000

Values = Sequence[float] | np.ndarray


def mean_interval(values: Values, rng: np.random.Generator, games: Values | None = None) -> dict[str, float]:
    """Mean with its percentile bootstrap interval (Efron 1979) at 95 %: ``{"mean", "low", "high"}``.

    Whole games are re-drawn, since the values of one game are alike. The percentile method needs no special functions,
    so that it gives the same digits on every processor. A single game, or games with equal means, are their own
    interval.

    Args:
        values: at least one; ValueError if there is none.
        games: which game each value is of (any number that tells games apart); None for one value a game.
    """
    from scipy import stats  # large: processes that branch games import this module, and a fork copies what is loaded

    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        raise ValueError("no values to take the mean of")
    _, game = np.unique(np.arange(sample.size) if games is None else games, return_inverse=True)
    sums, counts = np.bincount(game, weights=sample), np.bincount(game)
    mean = float(sums.sum() / counts.sum())
    if np.ptp(sums / counts) == 0:
        return {"mean": mean, "low": mean, "high": mean}

    def statistic(sums: np.ndarray, counts: np.ndarray, axis: int) -> np.ndarray:
        return sums.sum(axis=axis) / counts.sum(axis=axis)

    interval = stats.bootstrap(
        (sums, counts),
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=rng,
    ).confidence_interval
    return {"mean": mean, "low": float(interval.low), "high": float(interval.high)}


def paired_difference(values: Values, baseline: Values, rng: np.random.Generator) -> dict[str, float]:
    """Mean of ``values[i] - baseline[i]`` over games that both played, one value a game, with its interval."""
    if len(values) != len(baseline):
        raise ValueError(f"{len(values)} values cannot be paired with {len(baseline)}")
    return mean_interval(np.asarray(values, dtype=np.float64) - np.asarray(baseline, dtype=np.float64), rng)
