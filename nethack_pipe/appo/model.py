"""Our actor-critic in Sample Factory's form, with action masks inside the distribution."""

from typing import Any

import gymnasium
import torch
from sample_factory.algo.utils.action_distributions import get_action_distribution
from sample_factory.algo.utils.tensor_dict import TensorDict
from sample_factory.model.actor_critic import ActorCritic
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from nethack_pipe.appo import cures  # noqa: F401
from nethack_pipe.policies.actor_critic import ActorCriticNetwork, Directions, NetworkConfig

FIRST_POLICY = 0.01  # factor of the policy heads' first weights: at first all actions are about as likely


def network_config(
    options: Any, *, observation_size: int, num_actions: int, skills: slice, directions: Directions | None
) -> NetworkConfig:
    """The network's sizes. `options` is section `appo` or Sample Factory's configuration: both have the other fields
    under their names. `skills` is where the observation has its skill's one-hot."""
    return NetworkConfig(
        observation_size=observation_size,
        skill_offset=skills.start,
        num_skills=skills.stop - skills.start,
        num_actions=num_actions,
        shared_encoder=options.shared_encoder,
        encoder_mlp_layers=tuple(options.encoder_mlp_layers),
        nonlinearity=options.nonlinearity,
        use_rnn=options.use_rnn,
        rnn_type=options.rnn_type,
        rnn_size=options.rnn_size,
        directions=directions,
    )


def network_config_from_spaces(
    cfg: Any, obs_space: gymnasium.spaces.Dict, action_space: gymnasium.spaces.Discrete
) -> NetworkConfig:
    """The network's sizes from Sample Factory's configuration, with `skill_offset`, `num_skills`, `shared_encoder` and
    `directions` (the fields of `Directions`, or None) beside its own options, and the spaces."""
    return network_config(
        cfg,
        observation_size=int(obs_space["obs"].shape[0]),  # type: ignore[index]
        num_actions=int(action_space.n),
        skills=slice(cfg.skill_offset, cfg.skill_offset + cfg.num_skills),
        directions=Directions(**cfg.directions) if cfg.directions else None,
    )


def initialize(network: ActorCriticNetwork) -> None:
    """Draw the first weights of `network` from torch's generator: linear layers orthogonal, biases 0."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    with torch.no_grad():
        network.policy_heads.weight.mul_(FIRST_POLICY)
        if network.directions is not None:
            network.directions.scores.weight.mul_(FIRST_POLICY)


class MaskedActorCritic(ActorCritic):
    """Sample Factory's interface around `ActorCriticNetwork`.

    The mask of the observation goes into the logits wherever they are computed, while sampling and in the loss, so the
    PPO ratio compares like with like and a forbidden action is never drawn.
    """

    def __init__(self, obs_space: gymnasium.spaces.Dict, action_space: gymnasium.spaces.Discrete, cfg: Any) -> None:
        if cfg.normalize_input:
            # Running mean and deviation of a mask make "always allowed" look forbidden, and nothing says so.
            raise ValueError("normalize_input must be off: it would normalise the action mask too")
        super().__init__(obs_space, action_space, cfg)
        self.network = ActorCriticNetwork(network_config_from_spaces(cfg, obs_space, action_space))
        initialize(self.network)
        self._obs = self._mask = self._skills = torch.ones(0)

    def device_for_input_tensor(self, input_tensor_name: str) -> torch.device:
        return self.network.value_heads.weight.device

    def type_for_input_tensor(self, input_tensor_name: str) -> torch.dtype:
        return torch.float32

    def forward_head(self, normalized_obs_dict: dict[str, Tensor]) -> Tensor:
        """Features (B, F). Keeps what was seen for `forward_tail`, whose rows are the same ones in the same order."""
        self._obs, self._mask = normalized_obs_dict["obs"], normalized_obs_dict["action_mask"]
        self._skills = self.network.skills(self._obs)
        return self.network.encode(self._obs, self._skills)

    def forward_core(self, head_output: Tensor | PackedSequence, rnn_states: Tensor) -> tuple[Any, Tensor]:
        return self.network.core(head_output, rnn_states)

    def forward_tail(self, core_output: Tensor, values_only: bool, sample_actions: bool) -> TensorDict:
        result = TensorDict(values=self.network.values(core_output, self._skills))
        if not values_only:
            logits = self.network.masked_logits(core_output, self._obs, self._skills, self._mask)
            self.last_action_distribution = get_action_distribution(self.action_space, raw_logits=logits)
            result["action_logits"] = logits
            self._maybe_sample_actions(sample_actions, result)
        return result

    def forward(
        self, normalized_obs_dict: dict[str, Tensor], rnn_states: Tensor, values_only: bool = False
    ) -> TensorDict:
        core_output, new_rnn_states = self.forward_core(self.forward_head(normalized_obs_dict), rnn_states)
        result = self.forward_tail(core_output, values_only, sample_actions=True)
        result["new_rnn_states"] = new_rnn_states
        return result


def make_actor_critic(
    cfg: Any, obs_space: gymnasium.spaces.Dict, action_space: gymnasium.spaces.Discrete
) -> ActorCritic:
    """Sample Factory's factory. Seeds torch, because it leaves its inference processes unseeded."""
    torch.manual_seed(cfg.seed)
    return MaskedActorCritic(obs_space, action_space, cfg)
