"""Plays games and records every transition: ``data/rollouts``, one table for training games, one for held-out games."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from nethack_pipe.params import Section
from nethack_pipe.stage import BaseParams, Stage, run
from nethack_pipe.tasks.rewards import RewardWeights


class PolicyWeights(Section):
    """How often each policy plays, relative to the others."""

    random: float = Field(ge=0)
    wall_avoidance: float = Field(ge=0)
    frontier: float = Field(ge=0)
    task_greedy: float = Field(ge=0)


class RolloutsParams(Section):
    """Section `rollouts`."""

    num_games: int = Field(gt=0)
    num_held_out_games: int = Field(gt=0)
    max_steps: int = Field(gt=0)
    policies: PolicyWeights
    task: Literal["all", "explore", "survive", "combat", "descend", "resource"]

    @model_validator(mode="after")
    def _somebody_plays(self) -> Self:
        if not any(self.policies.model_dump().values()):
            raise ValueError("policies: expected at least one weight greater than 0, got none")
        return self


GAMES_PER_CHUNK = 4  # few, so that a killed stage loses little


def main(stage: Stage) -> None:
    import pyarrow as pa

    from nethack_pipe.parallel import map_chunks
    from nethack_pipe.rollouts.collect import assign, collect, describe, summary
    from nethack_pipe.rollouts.schema import write_shards
    from nethack_pipe.seeds import SPLITS

    params: RolloutsParams = stage.params["rollouts"]
    weights = {name: weight for name, weight in params.policies.model_dump().items() if weight > 0}
    folder = stage.output("data/rollouts")
    metrics: dict[str, Any] = {}
    for split, games in zip(SPLITS, (params.num_games, params.num_held_out_games), strict=True):
        assignments = assign(stage.seed, split, games, weights, params.task)
        chunks = [
            (assignments[start : start + GAMES_PER_CHUNK], params.max_steps, stage.params["rewards"])
            for start in range(0, games, GAMES_PER_CHUNK)
        ]
        tables = map_chunks(collect, chunks, describe=describe, desc=f"{split} games", cache=stage.scratch / split)
        table = pa.concat_tables(tables)
        write_shards(table, folder, split)
        metrics[split] = summary(table)
    stage.write_metrics(metrics)


if __name__ == "__main__":
    run("rollouts", {"base": BaseParams, "rewards": RewardWeights, "rollouts": RolloutsParams}, main)
