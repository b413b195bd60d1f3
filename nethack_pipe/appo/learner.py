"""Sample Factory's learner with what this pipeline needs of it.

That is: an optimizer that rounds alike everywhere, whole checkpoints, rewards and advantages of one size for every
skill, and statistics of every iteration. Importing this module puts it in the original's place.
"""

import copy
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from safetensors.torch import load_file
from sample_factory.algo.learning import learner, learner_worker
from sample_factory.algo.utils.action_distributions import get_action_distribution
from sample_factory.algo.utils.misc import TRAIN_STATS
from sample_factory.algo.utils.torch_utils import masked_select

from nethack_pipe.appo import checkpoints, cures  # noqa: F401
from nethack_pipe.appo.reward_scale import RewardScale
from nethack_pipe.policies.actor_critic import spread


def falling(first: float, steps: int, env_steps: int) -> float:
    """A weight that falls linearly from `first` to 0 at `steps` frames, and stays there."""
    return first * max(0.0, 1.0 - env_steps / steps)


class _LinearDecay(learner.LearningRateScheduler):
    """From `learning_rate` down to 0 at the last frame of the whole training, however often it was resumed."""

    def __init__(self, owner: "Learner") -> None:
        self.owner = owner

    def invoke_after_each_epoch(self) -> bool:
        return True

    def update(self, current_lr: float | None, recent_kls: list[float]) -> float:
        cfg = self.owner.cfg
        return falling(cfg.learning_rate, cfg.total_env_steps, self.owner.env_steps)


class Learner(learner.Learner):
    """Reads also `resume_checkpoint`, `checkpoint_folder`, `linear_decay`, `final_exploration_loss_coeff`,
    `total_env_steps`, `num_skills`, `normalize_per_skill`, `only_skill`, `initial_weights`, `imitation_kl_coeff` and
    `imitation_kl_steps` from the configuration.

    The weight of the entropy goes linearly from `exploration_loss_coeff` to `final_exploration_loss_coeff`.

    `only_skill` is the skill that alone is played yet, or None. What resumes with None the training of one skill gives
    all the others what this one has learned.

    With `normalize_per_skill` rewards are scaled by `RewardScale`, whose numbers are part of the checkpoint, and then
    clipped to `scaled_reward_clip`; and each iteration's advantages are normalised within each skill.

    Training starts from `initial_weights`, a safetensors file of the network without a recurrent core ("" for none).
    While the weight that falls from `imitation_kl_coeff` to 0 at `imitation_kl_steps` frames is above 0, the loss has
    the KL divergence from these weights' policy to the one being trained.
    """

    curr_lr: float | None

    def init(self) -> Any:
        self.reward_scale = RewardScale(self.cfg.num_skills, self.cfg.gamma)
        self.first_exploration = self.cfg.exploration_loss_coeff
        # torch.sqrt in unfused Adam is rounded differently on different processors; fused Adam's square root is exact.
        with mock.patch.object(torch.optim, "Adam", partial(torch.optim.Adam, fused=True)):
            model_data = super().init()
        if self.cfg.imitation_kl_coeff:
            self.imitated = copy.deepcopy(self.actor_critic.network).requires_grad_(False)
            self.imitated.load_state_dict(load_file(self.cfg.initial_weights))
        if self.cfg.linear_decay:
            self.lr_scheduler = _LinearDecay(self)
            self.curr_lr = self.lr_scheduler.update(self.curr_lr, [])
        return model_data

    def load_from_checkpoint(self, policy_id: int, load_progress: bool = True) -> None:
        """Load the checkpoint that the configuration names, or raise: the original starts from scratch in silence.

        Without one, load the first weights where the configuration has some.
        """
        if self.cfg.resume_checkpoint:
            self._load_state(checkpoints.read(Path(self.cfg.resume_checkpoint), self.device), load_progress)
        elif self.cfg.initial_weights:
            self.actor_critic.network.load_state_dict(load_file(self.cfg.initial_weights))

    def _load_state(self, checkpoint_dict: dict[str, Any], load_progress: bool = True) -> None:
        super()._load_state(checkpoint_dict, load_progress)
        self.reward_scale.statistics.copy_(checkpoint_dict["reward_statistics"])
        learned = checkpoint_dict["only_skill"]
        if learned is not None and self.cfg.only_skill is None:
            self._spread(learned)

    @torch.no_grad()
    def _spread(self, skill: int) -> None:
        network = self.actor_critic.network
        parameters = dict(network.named_parameters())
        spread(parameters, network.config, skill)
        states = {name: self.optimizer.state[parameter] for name, parameter in parameters.items()}
        for moment in ("exp_avg", "exp_avg_sq"):
            learned = {name: state[moment] for name, state in states.items() if state}  # other encoders were not used
            spread(learned, network.config, skill)

    def _get_checkpoint_dict(self) -> dict[str, Any]:
        own = {"reward_statistics": self.reward_scale.statistics, "only_skill": self.cfg.only_skill}
        return super()._get_checkpoint_dict() | own

    def save(self) -> bool:
        if self.is_initialized:
            if not all(weight.isfinite().all() for weight in self.actor_critic.parameters()):
                raise FloatingPointError(f"after {self.env_steps} frames weights are no numbers")
            checkpoints.write(Path(self.cfg.checkpoint_folder), self.env_steps, self._get_checkpoint_dict())
        return self.is_initialized

    def _should_save_summaries(self) -> bool:
        return False  # the original's are drawn by the clock; ours come with every iteration

    def _prepare_batch(self, batch: Any) -> Any:
        if not self.cfg.normalize_per_skill:
            return super()._prepare_batch(batch)
        rewards = batch["rewards"]
        observations = batch["obs"]["obs"][:, :-1]  # the last one is of the step after the rollout
        skills = self.actor_critic.network.skills(observations.flatten(0, 1)).view(rewards.shape)
        self.reward_scale.take_in(rewards, batch["dones"], skills)
        factors = self.reward_scale.factors().to(rewards.device)
        # In place, as the original adds its bootstrap: the next rollout overwrites them.
        rewards.mul_(factors[skills]).clamp_(-self.cfg.scaled_reward_clip, self.cfg.scaled_reward_clip)
        buffer, size, invalid = super()._prepare_batch(batch)
        advantages, skills = buffer["advantages"], skills.flatten()
        for skill in range(self.cfg.num_skills):
            own = skills == skill
            if own.any():
                deviation, mean = torch.std_mean(advantages[own], correction=0)
                advantages[own] = (advantages[own] - mean) / deviation.clamp_min(1e-5)
        return buffer, size, invalid

    def train(self, batch: Any) -> dict[str, Any] | None:
        self._of_minibatches: list[dict[str, float]] = []
        cfg = self.cfg
        above = self.first_exploration - cfg.final_exploration_loss_coeff
        cfg.exploration_loss_coeff = cfg.final_exploration_loss_coeff + falling(
            above, cfg.total_env_steps, self.env_steps
        )
        message = super().train(batch)
        if message is not None:
            rows = self._of_minibatches
            means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0] if name != "ratio_error"}
            # Nothing is learned before the first minibatch: any distance from 1 is sampling and loss that disagree.
            message[TRAIN_STATS] = means | {"first_ratio_error": rows[0]["ratio_error"]}
        return message

    def _calculate_losses(self, mb: Any, num_invalids: int) -> Any:
        result = super()._calculate_losses(mb, num_invalids)
        distribution, policy_loss, _, _, kl_loss, value_loss, summaries = result
        if not torch.isfinite(policy_loss + value_loss):  # one step of it would leave nothing but nan in the weights
            raise FloatingPointError(
                f"after {self.env_steps} frames the loss is no number (policy {float(policy_loss)}, value "
                f"{float(value_loss)}); a smaller learning_rate may help"
            )
        of_imitation = {}
        if weight := falling(self.cfg.imitation_kl_coeff, self.cfg.imitation_kl_steps, self.env_steps):
            distance = masked_select(self._from_imitated(mb.normalized_obs, distribution), mb.valids, num_invalids)
            of_imitation["imitation_kl"] = float(distance.mean().detach())
            result = (*result[:4], kl_loss + weight * distance.mean(), *result[5:])
        with torch.no_grad():
            ratio = summaries["ratio"]
            before = get_action_distribution(self.actor_critic.action_space, mb.action_logits)
            clipped = (ratio < summaries["clip_ratio_low"]) | (ratio > summaries["clip_ratio_high"])
            self._of_minibatches.append(
                {
                    "policy_loss": float(policy_loss),
                    "value_loss": float(value_loss),
                    "entropy": float(distribution.entropy().mean()),
                    "kl_divergence": float(distribution.kl_divergence(before).mean()),
                    "fraction_clipped": float(clipped.float().mean()),
                    "ratio_error": float((ratio - 1.0).abs().max()),
                    **of_imitation,
                }
            )
        return result

    def _from_imitated(self, observations: Any, distribution: Any) -> torch.Tensor:
        """(B,) the KL divergence from the imitated policy to `distribution`, for each observation."""
        obs, imitated = observations["obs"], self.imitated
        skills = imitated.skills(obs)
        logits = imitated.masked_logits(imitated.encode(obs, skills), obs, skills, observations["action_mask"])
        return get_action_distribution(self.actor_critic.action_space, logits).kl_divergence(distribution)


learner_worker.Learner = Learner
