"""Sample Factory's learner with what this pipeline needs of it.

That is: an optimizer that rounds alike everywhere, whole checkpoints, and statistics of every iteration. Importing this
module puts it in the original's place.
"""

from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from sample_factory.algo.learning import learner, learner_worker
from sample_factory.algo.utils.action_distributions import get_action_distribution
from sample_factory.algo.utils.misc import TRAIN_STATS

from nethack_pipe.appo import checkpoints, cures  # noqa: F401

STATISTICS = ("policy_loss", "value_loss", "entropy", "kl_divergence", "fraction_clipped")


class _LinearDecay(learner.LearningRateScheduler):
    """From `learning_rate` down to 0 at the last frame of the whole training, however often it was resumed."""

    def __init__(self, owner: "Learner") -> None:
        self.owner = owner

    def invoke_after_each_epoch(self) -> bool:
        return True

    def update(self, current_lr: float | None, recent_kls: list[float]) -> float:
        cfg = self.owner.cfg
        return cfg.learning_rate * max(0.0, 1.0 - self.owner.env_steps / cfg.total_env_steps)


class Learner(learner.Learner):
    """Reads also `resume_checkpoint`, `checkpoint_folder`, `linear_decay`, `total_env_steps` from the configuration."""

    curr_lr: float | None

    def init(self) -> Any:
        # torch.sqrt in unfused Adam is rounded differently on different processors; fused Adam's square root is exact.
        with mock.patch.object(torch.optim, "Adam", partial(torch.optim.Adam, fused=True)):
            model_data = super().init()
        if self.cfg.linear_decay:
            self.lr_scheduler = _LinearDecay(self)
            self.curr_lr = self.lr_scheduler.update(self.curr_lr, [])
        return model_data

    def load_from_checkpoint(self, policy_id: int, load_progress: bool = True) -> None:
        """Load the checkpoint that the configuration names, or raise: the original starts from scratch in silence."""
        if self.cfg.resume_checkpoint:
            self._load_state(checkpoints.read(Path(self.cfg.resume_checkpoint), self.device), load_progress)

    def save(self) -> bool:
        if self.is_initialized:
            checkpoints.write(Path(self.cfg.checkpoint_folder), self.env_steps, self._get_checkpoint_dict())
        return self.is_initialized

    def _should_save_summaries(self) -> bool:
        return False  # the original's are drawn by the clock; ours come with every iteration

    def train(self, batch: Any) -> dict[str, Any] | None:
        self._of_minibatches: list[dict[str, float]] = []
        message = super().train(batch)
        if message is not None:
            rows = self._of_minibatches
            means = {name: sum(row[name] for row in rows) / len(rows) for name in STATISTICS}
            # Nothing is learned before the first minibatch: any distance from 1 is sampling and loss that disagree.
            message[TRAIN_STATS] = means | {"first_ratio_error": rows[0]["ratio_error"]}
        return message

    def _calculate_losses(self, mb: Any, num_invalids: int) -> Any:
        result = super()._calculate_losses(mb, num_invalids)
        distribution, policy_loss, _, _, _, value_loss, summaries = result
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
                }
            )
        return result


learner_worker.Learner = Learner
