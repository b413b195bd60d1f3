"""The policy that APPO trained and exported, as one of the policies of `policies.protocol`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from nethack_pipe.perception import features
from nethack_pipe.policies.actor_critic import ActorCriticPolicy
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.skills import ALLOWED, SKILLS, Skill


class TrainedPolicy:
    """Plays one skill all the time, and draws its actions from the network's distribution."""

    def __init__(self, folder: Path, skill: Skill) -> None:
        torch.set_num_threads(1)
        self.network = ActorCriticPolicy.load(folder)
        self.skill = SKILLS.index(skill)
        self.actions = self.network.actions
        self._allowed = np.array([name in ALLOWED[skill] for name in self.actions])
        self._state: dict[int, torch.Tensor] = {}
        self._draws: dict[int, torch.Generator] = {}

    def reset(self, slot: int, seed: int) -> None:
        self._state[slot] = self.network.initial_state(1)
        self._draws[slot] = self.network.generator(seed)

    def act(self, slots: Sequence[int], games: Sequence[Playthrough]) -> list[str]:
        masks = [(game.mask & self._allowed).astype(np.float32) for game in games]
        observations = [features.vector(game.scene, self.skill, m) for game, m in zip(games, masks, strict=True)]
        logits, states = self.network.logits(
            torch.from_numpy(np.stack(observations)),
            torch.from_numpy(np.stack(masks)),
            torch.cat([self._state[slot] for slot in slots]),
        )
        for slot, state in zip(slots, states.split(1), strict=True):
            self._state[slot] = state
        drawn = self.network.sample(logits, [self._draws[slot] for slot in slots])
        return [self.actions[action] for action in drawn.tolist()]
