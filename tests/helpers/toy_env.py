"""A tiny environment with the spaces of a game, for tests of what trains on it."""

import os
import signal
import sys
import time
from typing import Any

import gymnasium
import numpy as np

OBSERVATION_SIZE, NUM_ACTIONS = 106, 13
SKILLS = slice(40, 45)  # where the observation has its skill's one-hot
SEED_MODULUS = 1 << 20  # what a float32 statistic of an episode can tell of its seed


class ToyEnv(gymnasium.Env):
    """The observation names the right action and a random part of the actions is forbidden; +1 for the right one.

    An episode is 16 steps, or 8 where bit 1 of the seed is set; its skill is the seed's remainder by 5, or `skill`.
    `trouble` happens at step 5 of every game whose seed is a multiple of 16: "raise", "die" (SIGKILL), "exit", "hang"
    or "nan" (the reward is none); "construct" raises at once. A forbidden action raises. With `moments`
    every game whose seed has bit 2 is two episodes, of which the first ends in a moment after 3 steps.
    """

    def __init__(self, trouble: str = "", skill: int | None = None, moments: bool = False) -> None:
        if trouble == "construct":
            raise ValueError("a troublesome constructor")
        self.observation_space = gymnasium.spaces.Dict(
            obs=gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATION_SIZE,), np.float32),
            action_mask=gymnasium.spaces.Box(0, 1, (NUM_ACTIONS,), np.float32),
        )
        self.action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self.trouble, self.skill, self.moments = trouble, skill, moments

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        if options is not None and options.get("go_on"):
            assert seed is None and self.moment
            self.moment = False
            return self._observe(), {}
        assert seed is not None
        self.moment = self.moments and seed & 4 > 0
        self.random = np.random.default_rng(seed)
        self.seed = seed
        self.length = 8 if seed & 2 else 16
        self.steps, self.right_ones = 0, 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        if self.mask[action] != 1:
            raise ValueError(f"action {action} is forbidden")
        self.steps += 1
        if self.trouble and self.steps == 5 and self.seed % 16 == 0:
            self._trouble()
        reward = float(action == self.right)
        self.right_ones += int(reward)
        if self.trouble == "nan" and self.steps == 5 and self.seed % 16 == 0:
            reward = float("nan")
        terminated = self.steps >= self.length
        info: dict[str, Any] = {}
        if terminated:
            info["episode_extra_stats"] = {
                "right_ones": self.right_ones,
                "seed": self.seed % SEED_MODULUS,
                "torch_imported": "torch" in sys.modules,
                **({"only_short": 1.0} if self.length == 8 else {}),
            }
        truncated = self.moment and self.steps == 3
        if truncated:
            info["moment"] = "combat"
        return self._observe(), reward, terminated, truncated, info

    def _observe(self) -> dict[str, np.ndarray]:
        self.mask = (self.random.random(NUM_ACTIONS) < 0.6).astype(np.float32)
        self.right = int(self.random.integers(NUM_ACTIONS))
        self.mask[self.right] = 1
        obs = np.zeros(OBSERVATION_SIZE, np.float32)
        obs[self.right] = 1
        obs[20:30] = self.random.random(10, dtype=np.float32)
        obs[SKILLS.start + (self.seed % 5 if self.skill is None else self.skill)] = 1
        return {"obs": obs, "action_mask": self.mask.copy()}

    def _trouble(self) -> None:
        match self.trouble:
            case "raise":
                raise ValueError("a troublesome game")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(60)
