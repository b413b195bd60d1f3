"""What samples under common random numbers say about the actions of one moment.

Sample i of every action of a moment is played under the same random streams, so actions are compared sample by sample:
what all of them meet alike cancels out of the differences (common random numbers; Law, Simulation Modeling and
Analysis, 5th ed., section 11.2).
"""

import numpy as np
from scipy import stats


def mean(samples: np.ndarray) -> np.ndarray:
    """(..., samples) -> (...) float32, as the table has it: sums that differ by rounding alone are the same number."""
    return samples.mean(axis=-1).astype(np.float32)


def standard_error(samples: np.ndarray) -> np.ndarray | None:
    """(..., samples) float64 -> (...): standard error of the mean over samples; None for a single sample."""
    count = samples.shape[-1]
    return samples.std(axis=-1, ddof=1) / np.sqrt(count) if count > 1 else None


def differences(samples: np.ndarray) -> np.ndarray:
    """(actions, samples) -> (actions, actions, samples): [a, b] is what a gets more than b, sample by sample."""
    return samples[:, None, :] - samples[None, :, :]


def surely_better(samples: np.ndarray, confidence: float) -> np.ndarray:
    """(actions, samples) float64 -> (actions, actions) bool: a is better than b by more than chance explains.

    A paired two-sided t test at level `confidence` (0.95, say) for each pair by itself: the mean of the differences is
    greater than their standard error times Student's t quantile with samples - 1 degrees of freedom. Where they are all
    the same there is no error, and any difference counts. One sample makes nothing sure.
    """
    paired = differences(samples)
    error = standard_error(paired)
    if error is None:
        return np.zeros(paired.shape[:2], dtype=bool)
    quantile = stats.t.ppf((1 + confidence) / 2, samples.shape[-1] - 1)
    margin = mean(paired)
    return (margin > 0) & (margin > quantile * error)


def variances_of_differences(samples: np.ndarray) -> tuple[float, float]:
    """Variances of the difference between two actions, summed over all pairs of actions: (common, independent).

    `common` is that of differences within a sample. `independent` is that between samples, the sum of the two actions'
    own variances: what the difference would have if each action had random streams of its own, since streams of
    different samples are independent.

    Args:
        samples: (actions, samples) float64, at least two samples.
    """
    pair = np.triu_indices(len(samples), 1)
    common = differences(samples).var(axis=-1, ddof=1)[pair]
    own = samples.var(axis=-1, ddof=1)
    return float(common.sum()), float((own[:, None] + own[None, :])[pair].sum())
