"""What a policy learns from the labelled moments before APPO starts.

It learns to choose as their mean n-step returns would, by a cross-entropy among the actions that were tried and that
the skill allows; the others are left alone.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from nethack_pipe import seeds
from nethack_pipe.appo.examples import Examples
from nethack_pipe.appo.model import initialize
from nethack_pipe.artifacts import write_bytes
from nethack_pipe.policies.actor_critic import ActorCriticNetwork, NetworkConfig
from nethack_pipe.tasks.skills import SKILLS

# How much better an action must be to be preferred: a lead of `TEMPERATURE` deviations of the returns within a moment
# makes it e times as likely. Small, since a few moments of life and death make that deviation large.
TEMPERATURE = 0.1
BATCH_SIZE = 256  # examples per step of Adam
LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Imitated:
    """Weights of an `ActorCriticNetwork` that has learned from examples, and how well.

    `metrics` has the number of ``examples`` and, ``_before`` and ``_after``, on these examples: ``loss`` (mean
    cross-entropy) and ``agreement`` (share in which the likeliest of the tried actions is one with the highest return).
    """

    weights: dict[str, Tensor]
    metrics: dict[str, float]

    def save(self, path: Path) -> None:
        """Write all of it as one safetensors file."""
        write_bytes(path, safetensors.torch.save(self.weights, {"metrics": json.dumps(self.metrics)}))

    @classmethod
    def load(cls, path: Path) -> "Imitated":
        with safetensors.safe_open(path, framework="pt") as file:
            weights = {name: file.get_tensor(name) for name in sorted(file.keys())}
            return cls(weights, json.loads(file.metadata()["metrics"]))


def imitate(examples: Examples, config: NetworkConfig, *, epochs: int, seed: int) -> Imitated:
    """Learn `epochs` times from all examples, beginning with the weights that training from root `seed` begins with.

    The network has no recurrent core: a moment does not tell the state of one.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seeds.integer(seed, "appo", 0))
    network = ActorCriticNetwork(config)
    initialize(network)
    # torch.sqrt in unfused Adam is rounded differently on different processors; fused Adam's square root is exact.
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, fused=True)
    obs, tried, wanted = torch.from_numpy(examples.obs), torch.from_numpy(examples.tried), targets(examples)
    before = _score(network, examples)
    shuffles = seeds.rng(seed, "appo", "imitation")
    for _ in range(epochs):
        for rows in torch.from_numpy(shuffles.permutation(len(obs))).split(BATCH_SIZE):
            optimizer.zero_grad()
            _losses(_logits(network, obs[rows], tried[rows]), wanted[rows]).mean().backward()
            optimizer.step()
    after = _score(network, examples)
    metrics = {"examples": len(obs)} | {
        f"{name}_{when}": score[name] for name in before for when, score in (("before", before), ("after", after))
    }
    return Imitated(network.state_dict(), metrics)


def targets(examples: Examples) -> Tensor:
    """(N, A) float32: how likely each action should be. A softmax over the tried ones of their returns, in units of
    `TEMPERATURE` deviations of the task's returns within moments; 0 for the others."""
    tried = examples.tried
    returns = np.where(tried, examples.returns, np.nan).astype(np.float64)
    variances = np.nanvar(returns, axis=1)
    units = np.ones(len(SKILLS))
    for skill in np.unique(examples.skills):
        units[skill] = TEMPERATURE * np.sqrt(variances[examples.skills == skill].mean())
    scores = np.where(tried, returns / units[examples.skills][:, None], -np.inf)
    return torch.softmax(torch.from_numpy(scores.astype(np.float32)), dim=1)


def _logits(network: ActorCriticNetwork, obs: Tensor, mask: Tensor) -> Tensor:
    """Logits (B, A) in which only the actions of `mask` (B, A; bool or 0 and 1) have probability."""
    skills = network.skills(obs)
    return network.masked_logits(network.encode(obs, skills), obs, skills, mask.float())


def _losses(logits: Tensor, wanted: Tensor) -> Tensor:
    """Cross-entropies (B,)."""
    return -(wanted * torch.log_softmax(logits, dim=1)).sum(dim=1)


@torch.no_grad()
def _score(network: ActorCriticNetwork, examples: Examples) -> dict[str, float]:
    """Loss and agreement of `network` on all examples."""
    tried = torch.from_numpy(examples.tried)
    pairs = zip(torch.from_numpy(examples.obs).split(BATCH_SIZE), tried.split(BATCH_SIZE), strict=True)
    logits = torch.cat([_logits(network, obs, mask) for obs, mask in pairs])
    returns = torch.from_numpy(examples.returns).masked_fill(~tried, -torch.inf)
    chosen = returns.gather(1, logits.argmax(dim=1, keepdim=True)).squeeze(1)
    agreement = (chosen == returns.amax(dim=1)).float().mean()
    return {"loss": float(_losses(logits, targets(examples)).mean()), "agreement": float(agreement)}
