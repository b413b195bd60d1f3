"""Every random number of the pipeline comes from one root seed, through a named sub-stream.

Two purposes with different names never share a stream, and a game of the training split can never be a game of the
held-out split: the split is the lowest bit of the game's seed.
"""

import hashlib
from typing import Literal

import numpy as np

Split = Literal["train", "held_out"]
SPLITS: tuple[Split, ...] = ("train", "held_out")


def stream(root: int, *names: str | int) -> np.random.SeedSequence:
    """The sub-stream of `root` (``base.seed``, >= 0) for the purpose `names`, e.g. ``("appo", "policy")``."""
    label = "\x1f".join(f"{type(name).__name__}:{name}" for name in names)
    digest = hashlib.sha256(label.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
    return np.random.SeedSequence([root, *words])


def rng(root: int, *names: str | int) -> np.random.Generator:
    """A generator on the sub-stream `names` of `root`. PCG64 by name, since numpy may change its default."""
    return np.random.Generator(np.random.PCG64(stream(root, *names)))


def integer(root: int, *names: str | int) -> int:
    """A seed in [0, 2**31) for libraries that take one number (torch, transformers, Sample Factory)."""
    return int(stream(root, *names).generate_state(1, np.uint32)[0] >> 1)


def game_seed(root: int, split: Split, purpose: str, index: int) -> int:
    """The seed in [0, 2**62) of game number `index` played for `purpose`; even in training, odd when held out."""
    high = int(stream(root, split, purpose, index).generate_state(1, np.uint64)[0] >> 3)
    return high << 1 | SPLITS.index(split)
