"""The trained policy's games: what it is made of and told. Its own tests are in tests/policies."""

from pathlib import Path

import pytest

from nethack_pipe.evaluation import closed_loop, trained, world
from nethack_pipe.evaluation.starts import beginnings
from nethack_pipe.policies.scripted import WallAvoidance
from nethack_pipe.tasks.rewards import RewardWeights

FOLDER = Path("models/appo")


class Told(WallAvoidance):
    """Stands in for a network, and notes how it was made and what it was told."""

    notes: list[tuple] = []

    def __init__(self, folder, skill):
        super().__init__()
        self.notes.append((folder, skill))

    def set_skill(self, slot, skill):
        self.notes.append((slot, skill))


@pytest.fixture
def notes(monkeypatch):
    monkeypatch.setattr(trained, "TrainedPolicy", Told)
    Told.notes = []
    yield Told.notes
    Told.notes = []


def test_it_plays_its_matches_for_the_task(notes):
    rules = closed_loop.Rules(42, (10,), RewardWeights(), "compass", samples=2)
    planned = closed_loop.matches(trained.NAME, ["combat", "explore"], beginnings(42, 1), {}, rules)
    rows = [row for match in planned for row in trained.play_match(FOLDER, match)]
    assert notes == [(FOLDER, "combat"), (FOLDER, "explore")]
    assert [(row["policy"], row["task"], row["sample"]) for row in rows] == [
        ("appo", task, sample) for task in ("combat", "explore") for sample in (0, 1)
    ]


def test_it_is_told_every_change_of_skill(notes):
    games = world.whole_games(42, 1, trained.NAME, 60, "compass", ["combat", "explore"])
    row = trained.play_whole_game(FOLDER, games[0])
    assert row["policy"] == "appo" and row["length"] == 60
    assert notes[0] == (FOLDER, "combat")
    assert len(notes) > 60 / 8 and {slot for slot, _ in notes[1:]} == {0}
    assert {skill for _, skill in notes[1:]} <= {"combat", "explore"}
