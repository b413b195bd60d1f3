"""Preference pairs: only where the difference, sample by sample, exceeds its error."""

import pytest

from nethack_pipe.counterfactuals.preferences import preferences
from nethack_pipe.counterfactuals.schema import PREFERENCES
from tests.helpers.branches import moment, table


def test_pairs_are_those_whose_paired_difference_is_sure():
    made = table(
        moment(1, {"north": (10, 0, 5), "south": (8, -2, 4), "east": (0, 20, -5)}, is_threat=True),
        moment(2, {"north": (1, 1, 1), "wait": (1, 1, 1)}),
        moment(2 + 10**6, {"north": (0, 0, 0), "wait": (2, 2, 2), "up": (2, 2, 2)}),
    )
    pairs = preferences(made, 0.9)
    assert pairs.schema.equals(PREFERENCES, check_metadata=True)
    shared = {"game_seed": 8, "split": "train", "game": 0, "task": "combat"}
    question = "msg:hello\ntask: combat\nactions: north wait up\n=>"
    # North minus south: 2, 2, 1. East has the same mean as north, but not sample by sample.
    first = {"step": 1, "prompt": "msg:hello\ntask: combat\nactions: north south east\n=>", "chosen_is_best": True}
    later = {"step": 2 + 10**6, "prompt": question, "margin": 2.0, "margin_se": 0.0, "chosen_is_best": True}
    sure, *rest = pairs.to_pylist()
    assert sure.pop("margin") == pytest.approx(5 / 3) and sure.pop("margin_se") == pytest.approx(1 / 3)
    assert sure == shared | first | {"chosen": "north", "rejected": "south"}
    assert rest == [
        shared | later | {"chosen": "wait", "rejected": "north"},
        shared | later | {"chosen": "up", "rejected": "north"},
    ]
    # 5/3 is 5 standard errors: more than Student's t quantile of 2 degrees of freedom at 0.95 (4.3), less than at 0.97.
    assert preferences(made, 0.95).num_rows == 3 and preferences(made, 0.97).num_rows == 2


def test_the_better_of_two_need_not_be_the_best():
    made = table(moment(1, {"north": (3, 3), "south": (2, 2), "east": (1, 1)}))
    pairs = preferences(made, 0.9).to_pylist()
    assert [(pair["chosen"], pair["rejected"], pair["chosen_is_best"]) for pair in pairs] == [
        ("north", "south", True),
        ("north", "east", True),
        ("south", "east", False),
    ]


def test_one_sample_claims_nothing():
    assert preferences(table(moment(1, {"north": (100,), "south": (0,)})), 0.6).num_rows == 0
    assert preferences(table(), 0.9).num_rows == 0
