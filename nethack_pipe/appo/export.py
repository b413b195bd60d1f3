"""Write a trained network as a policy folder that acts without Sample Factory."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from nethack_pipe.appo.runner import Trained
from nethack_pipe.policies.actor_critic import CONFIG_FILE, WEIGHTS_FILE


def export(
    folder: Path,
    trained: Trained,
    actions: Sequence[str],
    observation: Mapping[str, Any],
    origin: Mapping[str, Any],
) -> None:
    """Write weights and config of `trained` into `folder` (which exists).

    `actions` names the outputs in their order; `observation` (kind and parts) is what the policy sees, so that whoever
    loads it can build the same; `origin` is what else is to be known of the training (plain JSON, further keys).
    """
    if len(actions) != trained.network.num_actions:
        raise ValueError(f"{len(actions)} action names for a policy of {trained.network.num_actions} actions")
    save_file({name: value.contiguous() for name, value in trained.weights.items()}, folder / WEIGHTS_FILE)
    config = {"network": asdict(trained.network), "actions": list(actions), "observation": dict(observation), **origin}
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
