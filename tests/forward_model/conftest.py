"""Models trained once for all tests of the forward model: tiny, on a made-up world."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers import tiny_forward


@dataclass(frozen=True)
class World:
    """A folder with data/, models/base and models/sft; the stages as they ran."""

    root: Path
    pretrain: tiny_forward.FolderStage
    sft: tiny_forward.FolderStage


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world")
    tiny_forward.write_world(root)
    return World(root, tiny_forward.pretrain(root), tiny_forward.sft(root))
