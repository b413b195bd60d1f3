"""Scores the forward model (open loop) and every policy (closed loop) on games that nothing was trained on."""

from typing import Literal, Self

from pydantic import Field, model_validator

from nethack_pipe.params import Section
from nethack_pipe.stage import BaseParams, Stage, run
from nethack_pipe.tasks.rewards import RewardWeights

PolicyName = Literal["random", "wall_avoidance", "frontier", "task_greedy", "task_greedy_fair", "appo"]
TaskName = Literal["explore", "survive", "combat", "descend", "resource"]


class EvaluateParams(Section):
    """Section `evaluate`."""

    num_games: int = Field(gt=0)
    max_steps: int = Field(gt=0)
    policies: list[PolicyName] = Field(min_length=1)
    tasks: list[TaskName] = Field(min_length=1)
    open_loop_examples: int = Field(gt=0)
    prediction_batch_size: int = Field(gt=0)

    @model_validator(mode="after")
    def _no_doubles(self) -> Self:
        for name, values in (("policies", self.policies), ("tasks", self.tasks)):
            if len(set(values)) < len(values):
                raise ValueError(f"{name}: expected each at most once, got {values}")
        return self


GAMES_PER_MATCH = 2  # few, since a game of task_greedy is slow; games of a fast policy do not care


def main(stage: Stage) -> None:
    import json

    from nethack_pipe.evaluation.closed_loop import Match, held_out_specs, play_match, score
    from nethack_pipe.evaluation.open_loop import score_forward_model
    from nethack_pipe.evaluation.schema import table
    from nethack_pipe.parallel import map_chunks
    from nethack_pipe.rollouts.schema import write_shards

    params: EvaluateParams = stage.params["evaluate"]
    appo = stage.input("models/appo")
    trained = json.loads((appo / "config.json").read_text(encoding="utf-8"))
    matches = []
    for task in params.tasks:
        for policy in params.policies:
            if policy == "appo" and task not in trained["env"]["enabled_skills"]:
                continue  # a skill that was never trained has nothing to show
            specs = held_out_specs(stage.seed, params.num_games, policy, task)
            matches += [
                Match(
                    policy,
                    task,
                    tuple(specs[start : start + GAMES_PER_MATCH]),
                    params.max_steps,
                    stage.params["rewards"],
                    trained["action_set"],
                    appo,
                )
                for start in range(0, len(specs), GAMES_PER_MATCH)
            ]
    episodes = []
    # The network plays in processes of its own: one that has loaded torch takes three times as long to branch a game.
    for name, group in (
        ("closed loop, rules", [match for match in matches if match.policy != "appo"]),
        ("closed loop, appo", [match for match in matches if match.policy == "appo"]),
    ):
        for played in map_chunks(play_match, group, desc=name, cache=stage.scratch / name):
            episodes += played
    write_shards(table(episodes), stage.output("data/evaluation"), "episodes")
    closed_loop = score(episodes, stage.seed)
    stage.write_curve(
        "closed_loop",
        [
            {"match": f"{task}: {policy}", "task": task, "policy": policy, **report["task_reward"]}
            for task, policies in closed_loop.items()
            for policy, report in policies.items()
        ],
    )
    adapter = stage.input("models/sft")
    base = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
    open_loop = score_forward_model(
        adapter,
        stage.input("models/base") if base == "models/base" else base,
        [stage.input("data/rollouts"), stage.input("data/counterfactuals")],
        examples=params.open_loop_examples,
        batch_size=params.prediction_batch_size,
        seed=stage.seed,
    )
    stage.write_metrics({"open_loop": open_loop, "closed_loop": closed_loop})


if __name__ == "__main__":
    run("evaluate", {"base": BaseParams, "rewards": RewardWeights, "evaluate": EvaluateParams}, main)
