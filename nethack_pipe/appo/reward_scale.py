"""Rewards of every skill brought to one size, so that no skill drowns the others in one network."""

import math

import numpy as np
import torch
from torch import Tensor

_LEAST = 1e-3  # a deviation below this says that nothing was ever paid


class RewardScale:
    """Divides rewards by the running standard deviation of their skill's discounted return.

    The return is summed up forwards within a rollout, R[t] = gamma R[t-1] + r[t], from 0 at its start and at a game's;
    so it depends on no order in which rollouts arrive. All rollouts so far count.

    Attributes:
        statistics: (num_skills, 3) float64: number, sum and sum of squares of each skill's returns.
    """

    def __init__(self, num_skills: int, gamma: float) -> None:
        self.gamma = gamma
        self.statistics = torch.zeros(num_skills, 3, dtype=torch.float64)

    def take_in(self, rewards: Tensor, dones: Tensor, skills: Tensor) -> None:
        """Rollouts of N games: rewards, dones (the game ended with this step) and skills, each (N, T)."""
        returns = np.empty(rewards.shape, dtype=np.float64)
        total = np.zeros(len(rewards), dtype=np.float64)
        going_on = 1.0 - dones.cpu().numpy().astype(np.float64)
        for step, reward in enumerate(rewards.cpu().numpy().T):
            total = self.gamma * total + reward
            returns[:, step] = total
            total = total * going_on[:, step]
        chosen = skills.cpu().numpy()
        for skill, row in enumerate(self.statistics):
            own = returns[chosen == skill]
            row += torch.tensor([own.size, own.sum(), np.square(own).sum()], dtype=torch.float64)

    def factors(self) -> Tensor:
        """What to multiply each skill's rewards with: (num_skills,) float32; 1 for a skill that was never played."""
        return torch.tensor([_factor(*row) for row in self.statistics.tolist()], dtype=torch.float32)


def _factor(count: float, total: float, squares: float) -> float:
    if count == 0:
        return 1.0
    mean = total / count
    return 1.0 / max(math.sqrt(max(squares / count - mean * mean, 0.0)), _LEAST)
