"""What samples say about actions, against numbers worked out by hand and by SciPy's own test."""

import numpy as np
import pytest
from scipy import stats

from nethack_pipe.counterfactuals import estimates


def test_means_and_standard_errors():
    samples = np.array([[1.0, 2.0, 6.0], [4.0, 4.0, 4.0]])
    assert estimates.mean(samples).tolist() == [3.0, 4.0] and estimates.mean(samples).dtype == np.float32
    # Squared deviations 4, 1 and 9, over n - 1 = 2 and over n = 3.
    assert estimates.standard_error(samples) == pytest.approx([np.sqrt(14 / 2 / 3), 0.0])
    assert estimates.standard_error(samples[:, :1]) is None


def test_differences_are_taken_sample_by_sample():
    paired = estimates.differences(np.array([[1.0, 20.0], [0.0, 17.0]]))
    assert paired.tolist() == [[[0, 0], [1, 3]], [[-1, -3], [0, 0]]]


def test_what_is_sure_is_what_a_paired_t_test_says():
    rng = np.random.default_rng(0)
    shared = 10 * rng.normal(size=6)  # what all actions meet alike
    samples = np.array([[0.0], [1.0], [1.2], [3.0]]) + shared + rng.normal(size=(4, 6))
    for confidence in (0.6, 0.9, 0.99):
        sure = estimates.surely_better(samples, confidence)
        for a in range(4):
            for b in range(4):
                test = stats.ttest_rel(samples[a], samples[b]) if a != b else None
                assert sure[a, b] == (test is not None and test.statistic > 0 and test.pvalue < 1 - confidence)
    # Unpaired, the same samples say nothing: what is shared hides it.
    assert estimates.surely_better(samples, 0.99)[3, 0] and stats.ttest_ind(samples[3], samples[0]).pvalue > 0.1


def test_equal_differences_are_sure_and_one_sample_never_is():
    samples = np.array([[1.0, 5.0, -2.0], [0.5, 4.5, -2.5], [1.0, 5.0, -2.0]])
    assert estimates.surely_better(samples, 0.999).tolist() == [[False, True, False], [False] * 3, [False, True, False]]
    assert not estimates.surely_better(np.array([[5.0], [1.0]]), 0.6).any()


def test_more_samples_make_smaller_differences_sure():
    noise = np.array([-1.0, 1.0])
    for repeats, expected in ((1, False), (2, False), (16, True)):
        samples = np.stack([1 + np.tile(noise, repeats), np.zeros(2 * repeats)])
        assert estimates.surely_better(samples, 0.95)[0, 1] == expected


def test_common_random_numbers_take_the_shared_part_out_of_differences():
    rng = np.random.default_rng(1)
    shared, own = 3 * rng.normal(size=4000), rng.normal(size=(3, 4000))
    common, independent = estimates.variances_of_differences(shared + own)
    # Three pairs; the variance of a difference is 1 + 1 under common, 10 + 10 under independent random numbers.
    assert common == pytest.approx(3 * 2, rel=0.1) and independent == pytest.approx(3 * 20, rel=0.1)
    without = rng.permuted(shared[None, :].repeat(3, 0), axis=1) + own
    assert estimates.variances_of_differences(without)[0] == pytest.approx(independent, rel=0.1)
