"""Scores of hand-made rows, each figure worked out by hand."""

import pytest

from nethack_pipe.forward_model.conversations import Example
from nethack_pipe.forward_model.scoring import MEASURES, score
from nethack_pipe.perception.text import Delta, target

STATE = "seen:9 rooms:1 depth:1 turn:5\nmsg:\n ...\n .@.\n ...\nadj: n=. s=| e=# w=M ne=. nw=. se=. sw=. on=.\n"
NEWT = "You kill the newt!"

# action, what happened, what the model says
ROWS = [
    ("north", Delta(dy=-1), Delta(dy=-1)),  # both right but for "nothing changes"
    ("north", Delta(dy=-1, explored=4), Delta(dy=-1, explored=3)),
    ("south", Delta(message="It's solid stone."), Delta(message="It's a wall.")),  # a wall: both rules right in em5
    ("east", Delta(message="You stop."), Delta(dx=1)),  # the move does not succeed
    ("west", Delta(hp=-2, message=NEWT), Delta(hp=-1, message=NEWT)),
    ("search", Delta(gold=7), Delta(gold=7)),
    ("down", Delta(dx=3, dy=2, depth=1, explored=20), Delta(dx=3, dy=2, depth=1, explored=20)),
    ("wait", Delta(hp=-5, alive=False), None),  # an answer that cannot be read
]


def rows(games: list[int]) -> tuple[list[Example], list[str]]:
    examples = [Example(STATE, row[0], target(row[1]), game) for row, game in zip(ROWS, games, strict=True)]
    return examples, ["pos(" if row[2] is None else target(row[2]) for row in ROWS]


def test_every_field_of_the_model_and_of_each_rule() -> None:
    metrics = score(*rows([1, 1, 1, 1, 3, 3, 3, 3]), seed=0)
    assert (metrics["rows"], metrics["games"], metrics["readable"]) == (8, 2, 7 / 8)

    def means(name: str) -> dict[str, float]:
        return {measure: metrics[name][measure]["mean"] * 8 for measure in MEASURES}

    assert means("model") == {
        "em5": 5, "em6": 4, "position": 6, "hp": 6, "gold": 7, "depth": 7, "survived": 7, "explored": 6, "message": 5,
    }  # fmt: skip
    assert means("nothing_changes") == {
        "em5": 2, "em6": 0, "position": 5, "hp": 6, "gold": 7, "depth": 7, "survived": 7, "explored": 6, "message": 5,
    }  # fmt: skip
    # Moves are right in the two steps north; wrong is the one east. A monster in the west is nothing solid.
    assert means("move_succeeds") == {
        "em5": 3, "em6": 2, "position": 5, "hp": 6, "gold": 7, "depth": 7, "survived": 7, "explored": 6, "message": 5,
    }  # fmt: skip


def test_the_hard_kinds_by_themselves() -> None:
    metrics = score(*rows([1, 1, 1, 1, 3, 3, 3, 3]), seed=0)
    moved = {"rows": 3, "model": 1.0, "nothing_changes": 0.0, "move_succeeds": pytest.approx(2 / 3)}
    assert metrics["moved"] == moved
    nothing = {"nothing_changes": 0.0, "move_succeeds": 0.0}
    assert metrics["hp_changed"] == {"rows": 2, "model": 0.0, **nothing}
    assert metrics["gold_changed"] == {"rows": 1, "model": 1.0, **nothing}
    assert metrics["depth_changed"] == {"rows": 1, "model": 1.0, **nothing}
    assert metrics["died"] == {"rows": 1, "model": 0.0, **nothing}
    assert metrics["explored_more"] == {"rows": 2, "model": 0.5, **nothing}
    assert metrics["message_shown"] == {"rows": 3, "model": pytest.approx(1 / 3), **nothing}
    assert "model" not in score(*(part[:1] for part in rows([1] * 8)), seed=0)["died"]


def test_intervals_redraw_whole_games() -> None:
    metrics = score(*rows([1, 1, 1, 1, 3, 3, 3, 3]), seed=0)
    # em5 of the model: game 1 has 3 of 4 right, game 3 has 2 of 4; re-drawing two games gives 0.5, 0.625 or 0.75.
    assert metrics["model"]["em5"] == {"mean": 0.625, "low": 0.5, "high": 0.75}
    # Model minus move rule, em5: game 1 has 3 - 3, game 3 has 2 - 0.
    assert metrics["model_minus_move_succeeds"]["em5"] == {"mean": 0.25, "low": 0.0, "high": 0.5}
    alone = score(*rows([1] * 8), seed=0)
    assert alone["model"]["em5"] == {"mean": 0.625, "low": 0.625, "high": 0.625}
    assert score(*rows([1, 1, 3, 5, 7, 9, 11, 13]), seed=4) == score(*rows([1, 1, 3, 5, 7, 9, 11, 13]), seed=4)


def test_beside_the_true_outcomes_of_redrawn_branches() -> None:
    hit, miss = target(Delta(message=NEWT)), target(Delta(message="You miss."))
    # The same change but for tiles explored, which em6 leaves out.
    also_hit = target(Delta(message=NEWT, explored=1))
    outcomes = ((hit, 2), (also_hit, 1), (miss, 1))
    examples = [Example(STATE, "west", hit, 1, outcomes), Example(STATE, "west", hit, 1, outcomes)]
    metrics = score([*examples, Example(STATE, "west", hit, 1)], [hit, miss, "?"], seed=0)
    assert metrics["sampled"] == {
        "rows": 2, "best": 0.75, "model": 0.5, "nothing_changes": 0.0, "move_succeeds": 0.0,
    }  # fmt: skip
    assert score([Example(STATE, "west", hit, 1)], [hit], seed=0)["sampled"] == {"rows": 0}


def test_a_recorded_target_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="'nonsense'"):
        score([Example(STATE, "west", "nonsense", 1)], [""], seed=0)
