"""Plays what `evaluate` compares with: the policies that no training changes, on the held-out games of both stages."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from nethack_pipe.params import Section
from nethack_pipe.stage import BaseParams, Stage, run
from nethack_pipe.tasks.rewards import RewardWeights

if TYPE_CHECKING:
    from nethack_pipe.evaluation.world import WholeGame

TaskName = Literal["explore", "survive", "combat", "descend", "resource"]


class PolicyShares(Section):
    """Which share of the games each policy plays."""

    random: float = Field(ge=0, le=1)
    wall_avoidance: float = Field(ge=0, le=1)
    frontier: float = Field(ge=0, le=1)
    task_greedy: float = Field(ge=0, le=1)
    task_greedy_fair: float = Field(ge=0, le=1)
    n_step_greedy: float = Field(ge=0, le=1)


class BaselinesParams(Section):
    """Section `baselines`."""

    num_games: int = Field(gt=0)
    num_moments: int = Field(ge=0)
    moment_search_steps: int = Field(gt=0)
    horizons: list[int] = Field(min_length=1)
    tasks: list[TaskName] = Field(min_length=1)
    actions: Literal["reference", "compass", "compass_pray"]
    policies: PolicyShares
    n_step_horizon: int = Field(gt=0)
    n_step_samples: int = Field(gt=0)
    world_games: int = Field(ge=0)
    world_max_steps: int = Field(gt=0)
    world_skills: list[TaskName] = Field(min_length=1)
    world_prayer: bool

    @model_validator(mode="after")
    def _together(self) -> Self:
        for key, skills in (("tasks", self.tasks), ("world_skills", self.world_skills)):
            if len(set(skills)) < len(skills):
                raise ValueError(f"{key}: expected each at most once, got {skills}")
        if self.horizons[0] < 1 or self.horizons != sorted(set(self.horizons)):
            raise ValueError(f"horizons: expected numbers of actions above 0, rising, got {self.horizons}")
        if not any(self.policies.model_dump().values()):
            raise ValueError("policies: expected at least one share greater than 0, got none")
        return self


def whole_games(params: BaselinesParams, seed: int, policy: str, able: Sequence[TaskName]) -> "list[WholeGame]":
    """The whole games that `policy` plays: by the same rules for all, with those of the skills that it is `able` to."""
    from nethack_pipe.evaluation import world

    return world.whole_games(
        seed,
        params.world_games,
        policy,
        params.world_max_steps,
        params.actions,
        skills=[skill for skill in params.world_skills if skill in able] or able,
        prays=params.world_prayer,
    )


def main(stage: Stage) -> None:
    from nethack_pipe.evaluation import world
    from nethack_pipe.evaluation.closed_loop import REFERENCE, Rules, matches, play_match, score
    from nethack_pipe.evaluation.schema import episode_table
    from nethack_pipe.evaluation.starts import beginnings, find_moments, moments_table
    from nethack_pipe.parallel import map_chunks
    from nethack_pipe.policies.n_step import NStep
    from nethack_pipe.rollouts.schema import write_shards

    params: BaselinesParams = stage.params["baselines"]
    folder = stage.output("data/baselines")
    moments = find_moments(
        stage.seed, params.tasks, params.num_moments, params.moment_search_steps, cache=stage.scratch / "moments"
    )
    write_shards(moments_table(moments), folder, "moments")

    rules = Rules(
        stage.seed,
        tuple(params.horizons),
        stage.params["rewards"],
        params.actions,
        n_step=NStep(params.n_step_horizon, params.n_step_samples),
    )
    shares = params.policies.model_dump()
    games = beginnings(stage.seed, params.num_games)
    planned = [
        match
        for policy, share in shares.items()
        for match in matches(policy, params.tasks, games, moments, rules, share)
    ]
    played = map_chunks(play_match, planned, desc="closed loop", cache=stage.scratch / "closed loop")
    episodes = [episode for of_match in played for episode in of_match]
    write_shards(episode_table(episodes), folder, "episodes")

    whole = whole_games(params, stage.seed, "frontier", params.world_skills)
    outside = list(map_chunks(world.play_whole_game, whole, desc="whole games", cache=stage.scratch / "world"))
    write_shards(world.world_table(outside), folder, "world")

    stage.write_metrics(
        {
            "moments": {task: len(starts) for task, starts in moments.items()},
            "closed_loop": score(episodes, stage.seed, fully=shares, against=[REFERENCE]),
            "world": world.score(outside, stage.seed),
        }
    )


if __name__ == "__main__":
    run("baselines", {"base": BaseParams, "rewards": RewardWeights, "baselines": BaselinesParams}, main)
