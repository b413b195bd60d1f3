"""The games as Sample Factory sees them: one vectorised environment whose agents are the games."""

from typing import Any

import gymnasium
import numpy as np
import torch

from nethack_pipe.appo import cures  # noqa: F401
from nethack_pipe.appo.vector_env import VectorEnv


class FactoryEnv(gymnasium.Env):
    """Adapter from `VectorEnv`. `first` numbers the first game that `reset` starts."""

    is_multiagent = True

    def __init__(self, games: VectorEnv, first: int, close_games: bool) -> None:
        self.games = games
        self.first = first
        self.close_games = close_games
        self.num_agents = games.num_games
        self.observation_space = games.observation_space
        self.action_space = games.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start all games. `seed` (Sample Factory passes the environment's number) is ignored: games have their own."""
        return self.games.reset(self.first), {}

    def step(  # type: ignore[override]  # a vectorised step, as Sample Factory wants it
        self, action: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[str, torch.Tensor]]:
        """One action per game.

        Infos are name -> (num_agents,), of which Sample Factory reads the games that ended; a statistic that an episode
        does not mention is 0.
        """
        observations, rewards, terminated, truncated, ended = self.games.step(action)
        infos: dict[str, torch.Tensor] = {}
        for game, stats in ended.items():
            for name, value in stats.items():
                infos.setdefault(name, torch.zeros(self.num_agents))[game] = value
        return observations, rewards, terminated, truncated, infos

    def close(self) -> None:
        """End the game processes, if they are this environment's own."""
        if self.close_games:
            self.games.close()
