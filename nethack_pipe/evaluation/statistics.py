"""Means with confidence intervals over games."""

from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 10_000


def mean_interval(values: Sequence[float], rng: np.random.Generator) -> dict[str, float]:
    """Mean with its percentile bootstrap interval (Efron 1979) at 95 %: ``{"mean", "low", "high"}``.

    The percentile method needs no special functions, so that it gives the same digits on every processor. A single
    value, or equal ones, are their own interval.
    """
    from scipy import stats  # large: processes that branch games import this module, and a fork copies what is loaded

    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        raise ValueError("no values to take the mean of")
    mean = float(sample.mean())
    if sample.size == 1 or np.ptp(sample) == 0:
        return {"mean": mean, "low": mean, "high": mean}
    interval = stats.bootstrap(
        (sample,), np.mean, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, method="percentile", rng=rng
    ).confidence_interval
    return {"mean": mean, "low": float(interval.low), "high": float(interval.high)}


def paired_difference(values: Sequence[float], baseline: Sequence[float], rng: np.random.Generator) -> dict[str, float]:
    """Mean of ``values[i] - baseline[i]`` over games that both played, with its interval."""
    if len(values) != len(baseline):
        raise ValueError(f"{len(values)} values cannot be paired with {len(baseline)}")
    return mean_interval(np.asarray(values, dtype=np.float64) - np.asarray(baseline, dtype=np.float64), rng)  # type: ignore[arg-type]
