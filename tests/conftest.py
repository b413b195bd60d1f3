"""Shared by the tests of the stage runner and of DVC's traps."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.toy import Toy


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """A shell that starts the tests in the background, and a stage that a fixture has run to its end in this process,
    have it ignore Ctrl-C, and so would every process that a test starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
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
