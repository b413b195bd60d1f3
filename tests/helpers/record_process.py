"""Run as a process of its own: record a few games as the rollouts do and print the hash of the file, as JSON."""

import hashlib
import json
import tempfile
from pathlib import Path

from nethack_pipe.rollouts.collect import assign, collect
from nethack_pipe.rollouts.schema import write_shards
from nethack_pipe.tasks.rewards import RewardWeights


def digest() -> str:
    """SHA-256 of the Parquet file of three short games, features and rewards and all."""
    assignments = assign(5, "train", 3, {"wall_avoidance": 1.0, "frontier": 1.0}, "all")
    with tempfile.TemporaryDirectory() as folder:
        write_shards(collect((assignments, 60, RewardWeights())), Path(folder), "train")
        return hashlib.sha256((Path(folder) / "train-00000.parquet").read_bytes()).hexdigest()


if __name__ == "__main__":
    print(json.dumps(digest()))
