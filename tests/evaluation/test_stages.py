"""The stages `baselines` and `evaluate`: what they refuse, and that they play by the same rules."""

from pathlib import Path

import pytest

from nethack_pipe.params import ParamError, load, read_yaml
from nethack_pipe.stage import BaseParams, StageError
from nethack_pipe.tasks.rewards import RewardWeights
from stages.baselines import BaselinesParams, whole_games
from stages.evaluate import EvaluateParams, refuse_other_actions, refuse_other_rules

PARAMS = Path(__file__).parents[2] / "params.yaml"
MODELS = {"base": BaseParams, "rewards": RewardWeights, "baselines": BaselinesParams, "evaluate": EvaluateParams}


def test_a_policy_with_other_actions_than_the_baselines_is_refused():
    refuse_other_actions("compass", "compass")
    with pytest.raises(StageError, match="appo.actions: reference, .* baselines.actions: compass") as refused:
        refuse_other_actions("reference", "compass")
    assert "models/appo" in str(refused.value) and "\n" not in str(refused.value)


def test_the_committed_parameters_go_together():
    document = read_yaml(PARAMS)
    refuse_other_actions(document["appo"]["actions"], document["baselines"]["actions"])
    assert document["baselines"]["num_games"] >= 100 and 200 in document["baselines"]["horizons"]


def test_baselines_of_other_rules_are_refused():
    now = load(PARAMS, MODELS)
    made_with = {name: now[name].model_dump(mode="json") for name in ("base", "rewards", "baselines")}
    refuse_other_rules(made_with, now)
    made_with["baselines"]["num_moments"] += 1
    with pytest.raises(StageError, match="with another baselines.num_moments than params.yaml has now"):
        refuse_other_rules(made_with, now)
    made_with["baselines"]["num_moments"] -= 1
    made_with["rewards"]["combat"]["kill"] = 100.0
    with pytest.raises(StageError, match="with another rewards.combat than"):
        refuse_other_rules(made_with, now)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("horizons", [1000, 200], "baselines.horizons: expected numbers of actions above 0, rising, got [1000, 200]"),
        ("horizons", [0, 200], "baselines.horizons: expected numbers of actions above 0, rising, got [0, 200]"),
        ("horizons", [200, 200], "baselines.horizons: expected numbers of actions above 0, rising, got [200, 200]"),
        ("tasks", ["explore"] * 2, "baselines.tasks: expected each at most once, got ['explore', 'explore']"),
        (
            "world_skills",
            ["descend"] * 2,
            "baselines.world_skills: expected each at most once, got ['descend', 'descend']",
        ),
        ("actions", "all", "baselines.actions: expected one of 'reference', 'compass', 'compass_pray', got 'all'"),
        ("policies", {"appo": 1.0}, "baselines.policies.appo: unknown key; known are random, wall_avoidance, "),
    ],
)
def test_wrong_parameters_are_refused_by_name(tmp_path, key, value, words):
    import yaml

    document = read_yaml(PARAMS)
    document["baselines"][key] = document["baselines"][key] | value if isinstance(value, dict) else value
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ParamError) as refused:
        load(tmp_path / "params.yaml", MODELS)
    assert str(refused.value).startswith(f"params.yaml: {words}")


def test_everybody_plays_whole_games_by_the_same_rules():
    params = load(PARAMS, MODELS)["baselines"].model_copy(update={"world_prayer": False})
    frontier = whole_games(params, 42, "frontier", params.world_skills)
    appo = whole_games(params, 42, "appo", ["explore", "descend"])
    assert len(appo) == params.world_games
    for one, other in zip(frontier, appo, strict=True):
        assert (one.seed, one.max_steps, one.actions) == (other.seed, other.max_steps, other.actions)
        assert not one.prays and not other.prays
        assert one.skills == ("descend", "combat") and other.skills == ("descend",)
    assert whole_games(params, 42, "appo", ["resource"])[0].skills == ("resource",)
