import numpy as np
import pytest
import torch

from nethack_pipe.appo.reward_scale import RewardScale


def test_the_deviation_is_of_the_discounted_return_within_rollouts_and_games() -> None:
    scale = RewardScale(2, gamma=0.5)
    rewards = torch.tensor([[1.0, 2.0, 4.0], [8.0, 8.0, 0.0]])
    dones = torch.tensor([[False, True, False], [False, False, False]])
    skills = torch.tensor([[0, 0, 1], [1, 1, 1]])
    scale.take_in(rewards, dones, skills)
    of_first, of_second = [1.0, 2.5], [4.0, 8.0, 12.0, 6.0]
    expected = [[len(own), sum(own), float(np.square(own).sum())] for own in (of_first, of_second)]
    assert scale.statistics.tolist() == expected
    assert scale.factors().tolist() == pytest.approx([1 / np.std(of_first), 1 / np.std(of_second)])


def test_all_rollouts_so_far_count_in_whatever_order_they_come() -> None:
    random = torch.Generator().manual_seed(0)
    rewards = torch.randn(4, 5, 8, generator=random).round(decimals=1)
    dones = torch.rand(4, 5, 8, generator=random) < 0.1
    skills = torch.randint(3, (4, 5, 8), generator=random)
    one, other = RewardScale(3, 0.9), RewardScale(3, 0.9)
    for i in range(4):
        one.take_in(rewards[i], dones[i], skills[i])
    for i in reversed(range(4)):
        other.take_in(rewards[i], dones[i], skills[i])
    torch.testing.assert_close(one.statistics, other.statistics)
    assert one.statistics[:, 0].sum() == 4 * 5 * 8


def test_what_was_never_played_or_never_paid_is_left_as_it_is() -> None:
    scale = RewardScale(3, 0.9)
    scale.take_in(torch.zeros(1, 4), torch.zeros(1, 4, dtype=torch.bool), torch.ones(1, 4, dtype=torch.int64))
    assert scale.factors().tolist() == [1.0, pytest.approx(1000.0), 1.0]
