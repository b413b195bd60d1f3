"""Shared by the tests of the stage runner and of DVC's traps."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.toy import Toy

# A shell that starts the tests in the background has them, and so every process they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def finished_toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """The toy pipeline after its first `dvc repro`, committed. Never change it: take `toy`."""
    toy = Toy.create(tmp_path_factory.mktemp("finished") / "toy")
    toy.run("dvc", "repro")
    toy.commit()
    return toy


@pytest.fixture
def toy(finished_toy: Toy, tmp_path: Path) -> Iterator[Toy]:
    """A copy of the finished toy pipeline."""
    toy = finished_toy.copy(tmp_path / "toy")
    yield toy
    toy.kill_all()
