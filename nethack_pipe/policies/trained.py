"""The policy that APPO trained and exported, as one of the policies of `policies.protocol`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from nethack_pipe.perception.observation import ObservationSpec, Observer
from nethack_pipe.policies.actor_critic import CONFIG_FILE, ActorCriticPolicy
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.skills import SKILLS, Skill, skill_masks


class TrainedPolicy:
    """Plays a skill until told to play another, and draws its actions from the network's distribution."""

    def __init__(self, folder: Path, skill: Skill) -> None:
        torch.set_num_threads(1)
        self.network = ActorCriticPolicy.load(folder)
        self.actions = self.network.actions
        self.spec = observation_spec(folder, self.network)
        self._masks = skill_masks(self.actions, **_mask_settings(folder, self.network))
        self._skill = skill
        self._skills: dict[int, Skill] = {}
        self._observers: dict[int, Observer] = {}
        self._state: dict[int, torch.Tensor] = {}
        self._draws: dict[int, torch.Generator] = {}

    def reset(self, slot: int, seed: int) -> None:
        """A new game starts in `slot`, with the skill that the policy was made for."""
        self._skills[slot] = self._skill
        self._observers[slot] = Observer(self.spec)
        self._state[slot] = self.network.initial_state(1)
        self._draws[slot] = self.network.generator(seed)

    def set_skill(self, slot: int, skill: Skill) -> None:
        """From its next action on the game in `slot` is played for `skill`."""
        self._skills[slot] = skill

    def act(self, slots: Sequence[int], games: Sequence[Playthrough]) -> list[str]:
        masks, observations = [], []
        for slot, game in zip(slots, games, strict=True):
            skill = self._skills[slot]
            mask = self._masks[skill].of(game).astype(np.float32)
            masks.append(mask)
            observations.append(self._observers[slot].observe(game.scene, game.memory, SKILLS.index(skill), mask))
        logits, states = self.network.logits(
            torch.from_numpy(np.stack(observations)),
            torch.from_numpy(np.stack(masks)),
            torch.cat([self._state[slot] for slot in slots]),
        )
        for slot, state in zip(slots, states.split(1), strict=True):
            self._state[slot] = state
        drawn = self.network.sample(logits, [self._draws[slot] for slot in slots])
        return [self.actions[action] for action in drawn.tolist()]


def _mask_settings(folder: Path, network: ActorCriticPolicy) -> dict[str, bool]:
    """The settings of `skill_masks` with which `network`, loaded from `folder`, learned.

    ValueError where its config is silent.
    """
    try:
        return {name: network.config["env"][name] for name in ("action_masks", "avoid_traps")}
    except KeyError as error:
        raise ValueError(f"{folder / CONFIG_FILE} has no key {error} (of env's masks): train anew") from None


def observation_spec(folder: Path, network: ActorCriticPolicy) -> ObservationSpec:
    """The observation that `network`, loaded from `folder`, was trained on. ValueError where its config names none."""
    described = network.config.get("observation")
    if described is None:
        raise ValueError(f"{folder / CONFIG_FILE} does not say what the policy observes (key observation): train anew")
    spec = ObservationSpec(described["kind"], tuple(described["parts"]), network.actions)
    expected = (network.network.config.observation_size, network.network.config.skill_offset)
    if (spec.size, spec.skill.start) != expected:
        raise ValueError(
            f"{folder / CONFIG_FILE}: its observation has {spec.size} numbers with the skill at {spec.skill.start}, "
            f"where the network takes {expected[0]} with the skill at {expected[1]}: train anew"
        )
    return spec
