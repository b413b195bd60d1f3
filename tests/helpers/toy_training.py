"""`python -m tests.helpers.toy_training FOLDER [NAME=VALUE ...]`: a small training on ToyEnv, as a program of its own.

Values are JSON. Sample Factory's options by their names; also frames, segment, seed, processes, trouble,
shared_encoder, directions (the fields of `Directions`), normalize_per_skill, linear_decay, final_exploration,
initial_weights, imitation_kl_coeff, imitation_kl_steps, and warm_up: frames in which skill 1 alone is played.
The last line it prints is the SHA-256 of the trained weights.
"""

import hashlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

OPTIONS: dict[str, Any] = {
    "num_workers": 1,
    "num_envs_per_worker": 8,
    "rollout": 16,
    "recurrence": 8,
    "batch_size": 64,
    "num_batches_per_epoch": 2,
    "num_epochs": 2,
    "shuffle_minibatches": True,
    "learning_rate": 1e-3,
    "encoder_mlp_layers": [32],
    "nonlinearity": "elu",
    "use_rnn": True,
    "rnn_type": "gru",
    "rnn_size": 32,
    "serial_mode": True,
    "async_rl": False,
    "device": "cpu",
}


def train(folder: Path, **changes: Any) -> Any:
    """The `Trained` of a small training in `folder`."""
    from nethack_pipe.appo import runner
    from nethack_pipe.policies.actor_critic import Directions
    from tests.helpers.toy_env import SKILLS, ToyEnv

    own = {"frames": 1024, "segment": 512, "seed": 7, "processes": 1, "trouble": ""}
    own |= {"shared_encoder": True, "normalize_per_skill": True, "linear_decay": True, "warm_up": 0}
    own |= {"final_exploration": 0.001, "directions": None}
    own |= {"initial_weights": None, "imitation_kl_coeff": 0.0, "imitation_kl_steps": 1}
    own |= {name: changes.pop(name) for name in list(changes) if name in own}
    return runner.train(
        partial(ToyEnv, own["trouble"]),
        OPTIONS | changes,
        seed=own["seed"],
        train_for_env_steps=own["frames"],
        segment_env_steps=own["segment"],
        skills=SKILLS,
        shared_encoder=own["shared_encoder"],
        directions=Directions(**own["directions"]) if own["directions"] else None,
        normalize_per_skill=own["normalize_per_skill"],
        linear_decay=own["linear_decay"],
        final_exploration_loss_coeff=own["final_exploration"],
        scratch=folder,
        num_processes=own["processes"],
        warm_up=runner.WarmUp(partial(ToyEnv, own["trouble"], 1), 1, own["warm_up"]) if own["warm_up"] else None,
        initial_weights=own["initial_weights"],
        imitation_kl_coeff=own["imitation_kl_coeff"],
        imitation_kl_steps=own["imitation_kl_steps"],
    )


def digest_of_weights(trained: Any) -> str:
    """SHA-256 over all weights."""
    hashed = hashlib.sha256()
    for name in sorted(trained.weights):
        hashed.update(name.encode() + trained.weights[name].numpy().tobytes())
    return hashed.hexdigest()


def digest(trained: Any) -> str:
    """SHA-256 over all weights and all rows."""
    rows = json.dumps(trained.rows, sort_keys=True)
    return hashlib.sha256((rows + digest_of_weights(trained)).encode()).hexdigest()


if __name__ == "__main__":
    changes = dict(argument.split("=", 1) for argument in sys.argv[2:])
    print(digest(train(Path(sys.argv[1]), **{name: json.loads(value) for name, value in changes.items()})))
