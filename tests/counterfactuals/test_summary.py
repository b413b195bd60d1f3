"""The figures of a table of branches."""

from nethack_pipe.counterfactuals.preferences import preferences
from nethack_pipe.counterfactuals.summary import summary
from nethack_pipe.tasks.skills import TASKS
from tests.helpers.branches import moment, table


def test_the_figures_of_a_table():
    made = table(
        # One step says east, which is surely worst; the best is sure.
        moment(
            1,
            {"north": (5, 5), "wait": (3, 3), "east": (1, 1)},
            is_combat=True,
            is_threat=True,
            kind="combat",
            weight=4.0,
            reward_combat=[0, 0, 1],
            outcomes=[["a"], ["a", "b"], ["a"]],
        ),
        # One step cannot tell north from wait, the worse of which is not surely so; what is common is half of all.
        moment(2, {"north": (0, 2), "wait": (0, 1), "east": (0, 0)}, kind="threat", reward_combat=[2, 2, 1]),
        moment(3, {"north": (0, 0), "wait": (0, 0)}, is_threat=True, weight=2.5, died=[True, False]),
        moment(
            9, {"north": (0, 0), "up": (0, 0)}, game_seed=10, weight=2.5, death_rate=0.5, level_changed=[False, True]
        ),
    )
    figures = summary(made, preferences(made, 0.9), 0.9)
    nothing, never = dict.fromkeys(TASKS, 0), dict.fromkeys(TASKS, 0.0)
    ratio = figures.pop("variance_with_common_over_without")
    assert figures == {
        "games": 2,
        "moments": 4,
        "rows": 10,
        "branches": 30,
        "found": {"combat": 4, "threat": 6, "survival": 0, "descent": 0, "pickup": 0},
        "drawn": {"combat": 1, "threat": 3, "survival": 0, "descent": 0, "pickup": 0},
        "kinds": {"combat": 1, "threat": 2, "survival": 0, "descent": 0, "pickup": 0},
        "deaths": 1,
        "level_changes": 1,
        "death_rate": 0.1,
        "level_change_rate": 0.0,
        "outcomes_per_action": 1.1,
        "outcomes_of": {"east": 1.0, "north": 1.0, "up": 1.0, "wait": 4 / 3},
        "preference_pairs": nothing | {"combat": 3},
        "best_beats_all": never | {"combat": 0.25},
        "best_beats_some": never | {"combat": 0.25},
        "one_step_choice_is_not_best": never | {"combat": (1 + 0.5) / 2},
        "one_step_choice_is_surely_worse": never | {"combat": 0.5},
    }
    # Variances of the differences at moment 2: 0.5, 2, 0.5; of the actions themselves: 2, 0.5, 0, so 2.5, 2, 0.5.
    assert ratio == dict.fromkeys(TASKS, None) | {"combat": 3 / 5}


def test_no_rows_have_figures_too():
    made = table()
    figures = summary(made, preferences(made, 0.9), 0.9)
    assert figures["rows"] == figures["moments"] == figures["branches"] == 0
    assert figures["best_beats_some"] == dict.fromkeys(TASKS, 0.0)
