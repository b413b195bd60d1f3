"""Scores the forward model (open loop) and the trained policy (closed loop) on games that nothing was trained on."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import Field

from nethack_pipe.params import Section
from nethack_pipe.stage import BaseParams, Stage, StageError, run
from nethack_pipe.tasks.rewards import RewardWeights
from stages.baselines import BaselinesParams, whole_games


class EvaluateParams(Section):
    """Section `evaluate`. Which games are played, and by which rules, section `baselines` says."""

    policy_samples: int = Field(gt=0)
    open_loop_examples: int = Field(gt=0)
    prediction_batch_size: int = Field(gt=0)


def main(stage: Stage) -> None:
    metrics = closed_loop(stage)
    stage.write_metrics({"open_loop": open_loop(stage)} | metrics)


def closed_loop(stage: Stage) -> dict[str, Any]:
    """Plays the trained policy, writes data/evaluation and the curve, and scores it beside the baselines."""
    from nethack_pipe.evaluation import trained, world
    from nethack_pipe.evaluation.closed_loop import Rules, bars, matches, score
    from nethack_pipe.evaluation.schema import EPISODES, WORLD, episode_table
    from nethack_pipe.evaluation.starts import beginnings, read_moments
    from nethack_pipe.parallel import map_chunks
    from nethack_pipe.rollouts.schema import read, write_shards

    params: BaselinesParams = stage.params["baselines"]
    baselines, appo = stage.input("data/baselines"), stage.input("models/appo")
    refuse_other_rules(json.loads((baselines / "manifest.json").read_text(encoding="utf-8"))["params"], stage.params)
    config = json.loads((appo / "config.json").read_text(encoding="utf-8"))
    refuse_other_actions(config["action_set"], params.actions)

    rules = Rules(
        stage.seed,
        tuple(params.horizons),
        stage.params["rewards"],
        params.actions,
        samples=stage.params["evaluate"].policy_samples,
    )
    skills = config["env"]["enabled_skills"]
    tasks = [task for task in params.tasks if task in skills]  # a skill that was never trained has nothing to show
    planned = matches(trained.NAME, tasks, beginnings(stage.seed, params.num_games), read_moments(baselines), rules)
    played = map_chunks(
        partial(trained.play_match, appo), planned, desc="closed loop", cache=stage.scratch / "closed loop"
    )
    episodes = [episode for of_match in played for episode in of_match]
    folder = stage.output("data/evaluation")
    write_shards(episode_table(episodes), folder, "episodes")

    whole = whole_games(params, stage.seed, trained.NAME, skills)
    outside = list(
        map_chunks(partial(trained.play_whole_game, appo), whole, desc="whole games", cache=stage.scratch / "world")
    )
    write_shards(world.world_table(outside), folder, "world")

    others = read(baselines, "episodes", EPISODES).to_pylist()
    names = list(dict.fromkeys(row["policy"] for row in others))
    scores = score([*others, *episodes], stage.seed, fully=[trained.NAME], against=names)
    stage.write_curve("closed_loop", bars(scores))
    compared = [*read(baselines, "world", WORLD).to_pylist(), *outside]
    return {"closed_loop": scores, "world": world.score(compared, stage.seed, against="frontier")}


def refuse_other_rules(made_with: Mapping[str, Any], now: Mapping[str, Section]) -> None:
    """Raises StageError where data/baselines was made with other parameters than these: nothing could be compared."""
    for name in ("base", "rewards", "baselines"):
        then, values = made_with[name], now[name].model_dump(mode="json")
        for key in sorted(then.keys() | values.keys()):
            if then.get(key) != values.get(key):
                raise StageError(
                    f"data/baselines was made with another {name}.{key} than params.yaml has now: "
                    "`dvc repro baselines` makes it again"
                )


def refuse_other_actions(trained: str, baselines: str) -> None:
    """Raises StageError where the policy chooses from another action set than the baselines did."""
    if trained != baselines:
        raise StageError(
            f"models/appo was trained with appo.actions: {trained}, but the baselines play with baselines.actions: "
            f"{baselines}: with other actions nothing could be compared. Set both to the same"
        )


def open_loop(stage: Stage) -> dict[str, Any]:
    """The scores of the forward model."""
    from nethack_pipe.evaluation.open_loop import score_forward_model

    params: EvaluateParams = stage.params["evaluate"]
    adapter = stage.input("models/sft")
    base = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
    return score_forward_model(
        adapter,
        stage.input("models/base") if base == "models/base" else base,
        [stage.input("data/rollouts"), stage.input("data/counterfactuals")],
        examples=params.open_loop_examples,
        batch_size=params.prediction_batch_size,
        seed=stage.seed,
    )


if __name__ == "__main__":
    run(
        "evaluate",
        {"base": BaseParams, "rewards": RewardWeights, "baselines": BaselinesParams, "evaluate": EvaluateParams},
        main,
    )
