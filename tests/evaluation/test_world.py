"""Whole games with random heroes, and BALROG's progression."""

import pytest

from nethack_pipe.evaluation import world
from nethack_pipe.evaluation.schema import WORLD
from nethack_pipe.evaluation.world import play_whole_game, progression, score, whole_games, world_table
from nethack_pipe.tasks.skills import SKILLS


@pytest.mark.parametrize(
    ("depth", "experience_level", "percent"),
    [
        (1, 1, 0.0),
        (2, 1, 1.54),
        (1, 2, 1.85),
        (2, 3, 2.08),  # the better of the two
        (4, 2, 2.12),
        (4, 4, 2.42),
        (5, 1, 2.65),
        (5, 5, 2.91),
        (7, 5, 4.85),
        (10, 1, 12.56),
        (50, 30, 80.68),
        (53, 1, 80.68),
        (1, 30, 78.05),
    ],
)
def test_progression_is_that_of_the_best_milestone(depth, experience_level, percent):
    assert progression(depth, experience_level) == percent


def test_deeper_and_more_experienced_is_never_worse():
    for table, length in ((world.WON_FROM_DEPTH, 50), (world.WON_FROM_EXPERIENCE_LEVEL, 30)):
        assert len(table) == length and list(table) == sorted(set(table))


@pytest.fixture(scope="module")
def rows():
    return [play_whole_game(game) for game in whole_games(42, 3, "frontier", 1500, "compass")]


def test_everybody_plays_the_same_held_out_games():
    games = whole_games(1, 3, "frontier", 100, "compass")
    others = whole_games(1, 3, "appo", 100, "compass")
    assert [game.seed for game in games] == [game.seed for game in others]
    assert all(game.seed % 2 == 1 for game in games)
    assert not {game.policy_seed for game in games} & {game.policy_seed for game in others}


def test_a_whole_game_ends_with_the_heros_death_or_the_last_action(rows):
    table = world_table(rows)
    assert table.schema.equals(WORLD) and table.num_rows == 3
    assert len({row["role"] for row in rows}) > 1, "the hero is drawn with the game"
    for row in rows:
        assert row["length"] == 1500 if row["alive"] else row["length"] < 1500
        assert row["how"] == ("" if row["alive"] else "DIED")
        assert row["progression"] == progression(int(row["depth"]), int(row["experience_level"]))
        assert row["turns"] > 0.5 * row["length"]
    assert max(row["depth"] for row in rows) > 1
    assert not all(row["alive"] for row in rows)


def test_a_whole_game_is_repeatable(rows):
    assert play_whole_game(whole_games(42, 3, "frontier", 1500, "compass")[0]) == rows[0]


def test_heroes_in_need_pray_unless_told_not_to(rows):
    """A prayer that is heard is what keeps some of them alive: without it their games are others from there on."""
    assert all(row["prayers"] <= 1 + row["turns"] / 500 for row in rows)
    prayed = [i for i, row in enumerate(rows) if row["prayers"]]
    assert prayed
    games = whole_games(42, 3, "frontier", 1500, "compass", prays=False)
    silent = [play_whole_game(games[i]) for i in range(3)]
    assert not any(row["prayers"] for row in silent)
    for i in range(3):
        assert (silent[i] == rows[i]) is (i not in prayed)
    assert sum(silent[i]["length"] for i in prayed) < sum(rows[i]["length"] for i in prayed)


def test_skills_take_turns(monkeypatch):
    """The scheduler's choice, from the first moment on, is what the policy plays for."""
    told = []

    class Watched(world.Frontier):
        def __setattr__(self, name, value):
            if name == "task":
                told.append(value)
            super().__setattr__(name, value)

    monkeypatch.setattr(world, "Frontier", Watched)
    play_whole_game(whole_games(42, 1, "frontier", 400, "compass")[0])
    assert len(told) >= 400 / 8 and {"explore", "combat"} <= set(told) <= set(SKILLS)
    told.clear()
    play_whole_game(whole_games(42, 1, "frontier", 100, "compass", skills=["descend", "explore"])[0])
    assert set(told) <= {"descend", "explore"}


def row(policy, seed, **figures):
    return {"policy": policy, "game_seed": seed} | dict.fromkeys(world.REPORTED, 0.0) | figures


def test_scores_are_paired_by_game():
    metrics = score(
        [
            row("frontier", 3, progression=1.0, depth=2.0),
            row("frontier", 5, progression=2.0, depth=4.0),
            row("appo", 5, progression=4.0, depth=5.0, alive=1.0),
            row("appo", 3, progression=3.0, depth=3.0),
        ],
        root=1,
        against="frontier",
    )
    assert metrics["appo"]["games"] == 2
    assert metrics["appo"]["progression"] == {"mean": 3.5, "low": 3.0, "high": 4.0}
    assert metrics["appo"]["progression_minus_frontier"] == {"mean": 2.0, "low": 2.0, "high": 2.0}
    assert metrics["appo"]["depth_minus_frontier"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert metrics["appo"]["alive"]["mean"] == 0.5
    assert not [name for name in metrics["frontier"] if "minus" in name]
    assert score([], root=1) == {}
    with pytest.raises(ValueError, match="whole games: appo and frontier did not play the same games"):
        score([row("frontier", 3), row("appo", 5)], root=1, against="frontier")
