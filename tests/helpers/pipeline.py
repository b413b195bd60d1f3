"""The real pipeline at a scale at which all its stages together take well under a minute."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from nethack_pipe.artifacts import hashes
from nethack_pipe.params import read_yaml
from tests.helpers.toy import ROOT, Toy, output_of

STAGES = {"rollouts", "counterfactuals", "pretrain", "sft", "appo", "baselines", "evaluate"}

_STEPS = {"max_seq_length": 128, "max_steps": 6, "batch_size": 4, "logging_steps": 2, "eval_steps": 6, "save_steps": 6}
TINY: dict[str, dict[str, Any]] = {
    "rollouts": {"num_games": 6, "num_held_out_games": 2, "max_steps": 25},
    "counterfactuals": {
        "num_games": 4, "num_held_out_games": 2, "horizon": 3, "samples": 2,
        "moments_per_game": {"survival": 1, "descent": 1, "combat": 1, "pickup": 1, "threat": 1},
    },
    "pretrain": _STEPS | {
        "vocab_size": 512, "hidden_size": 16, "feed_forward_size": 32, "num_layers": 1, "num_heads": 2,
        "held_out_examples": 8,
    },
    "sft": _STEPS | {"lora_rank": 2, "held_out_examples": 8},
    # 4 games of at most 16 actions; 12 iterations in three segments.
    "appo": {
        "env_min_episode_steps": 8, "env_max_episode_steps": 16, "train_for_env_steps": 768,
        "curriculum_env_steps": 256, "segment_env_steps": 256,
        "num_workers": 1, "num_envs_per_worker": 4, "rollout": 16, "batch_size": 64, "num_batches_per_epoch": 1,
        "num_epochs": 1, "encoder_mlp_layers": [16],
    },
    "baselines": {
        "num_games": 2, "num_moments": 1, "moment_search_steps": 60, "horizons": [4, 8], "tasks": ["explore", "combat"],
        "policies": {
            "random": 1.0, "wall_avoidance": 0.0, "frontier": 0.0, "task_greedy": 1.0, "task_greedy_fair": 0.5,
            "n_step_greedy": 0.5,
        },
        "n_step_horizon": 2, "n_step_samples": 1, "world_games": 1, "world_max_steps": 20,
    },
    "evaluate": {"policy_samples": 2, "open_loop_examples": 8, "prediction_batch_size": 8},
}  # fmt: skip


def create(root: Path) -> Toy:
    """A copy of this repository's files with tiny parameters, committed, never run."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in names:
        if (ROOT / name).is_file():  # not one that is deleted but still known to git
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    project = Toy(root)
    change(project, TINY)
    project.git("init", "-q", "-b", "main")
    project.commit()
    return project


def change(project: Toy, sections: Mapping[str, Mapping[str, Any]]) -> None:
    """Set keys of params.yaml, each of which is there already."""
    document = read_yaml(project.root / "params.yaml")
    for section, values in sections.items():
        assert values.keys() <= document[section].keys()
        document[section].update(values)
    project.write({"params.yaml": yaml.safe_dump(document, sort_keys=False)})


def run(project: Toy, *command: str, code: int = 0, **variables: str) -> str:
    """What `command` prints, like `Toy.run`, but with patience for training."""
    process = project.start(*command, **variables)
    output = output_of(process, 600)
    assert process.returncode == code, f"{command} ended with {process.returncode}:\n{output}"
    return output


def stages_run(output: str) -> list[str]:
    """The stages that DVC ran or took from its run cache, in order, by what it printed."""
    return re.findall(r"^(?:Running stage|Stage) '(\w+)'(?::| is cached)", output, re.MULTILINE)


def results(project: Toy) -> dict[str, dict[str, str]]:
    """A hash of every file that the stages made, by folder."""
    return {name: hashes(project.root / name) for name in ("data", "models", "metrics", "plots")}


def recorded(project: Toy) -> dict[str, str]:
    """The md5 of everything that went into a stage or came out of it, by stage and path, as dvc.lock has it."""
    return {
        f"{stage} {kind} {entry['path']}": entry["md5"]
        for stage, values in read_yaml(project.root / "dvc.lock")["stages"].items()
        for kind in ("deps", "outs")
        for entry in values[kind]
    }
