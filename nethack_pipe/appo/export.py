"""Write a trained network as a policy folder that acts without Sample Factory."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from nethack_pipe.appo.runner import Trained
from nethack_pipe.policies.actor_critic import CONFIG_FILE, WEIGHTS_FILE


def export(folder: Path, trained: Trained, actions: Sequence[str], origin: Mapping[str, Any]) -> None:
    """Write weights and config of `trained` into `folder` (which exists).

    `actions` names the outputs in their order; `origin` is what the policy was trained in (plain JSON, further keys of
    the config), so that whoever loads the policy can build observations of the same layout.
    """
    if len(actions) != trained.network.num_actions:
        raise ValueError(f"{len(actions)} action names for a policy of {trained.network.num_actions} actions")
    save_file({name: value.contiguous() for name, value in trained.weights.items()}, folder / WEIGHTS_FILE)
    config = {"network": asdict(trained.network), "actions": list(actions), **origin}
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
