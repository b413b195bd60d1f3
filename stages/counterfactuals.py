"""Branches recorded games at decisive moments: ``data/counterfactuals`` has all actions, ``data/preferences`` pairs."""

from typing import Any, Literal

from pydantic import Field

from nethack_pipe.params import ParamError, Section
from nethack_pipe.stage import BaseParams, Stage, run
from nethack_pipe.tasks.rewards import RewardWeights


class CounterfactualsParams(Section):
    """Section `counterfactuals`."""

    num_games: int = Field(gt=0)
    num_held_out_games: int = Field(gt=0)
    moments_per_game: int = Field(gt=0)
    horizon: int = Field(gt=0)
    samples: int = Field(gt=0)
    policy: Literal["random", "wall_avoidance"]
    discount: float = Field(gt=0, le=1)


def main(stage: Stage) -> None:
    import pyarrow as pa

    from nethack_pipe.counterfactuals.label import (
        Labelling,
        describe,
        label_chunk,
        preferences,
        recorded_games,
        summary,
    )
    from nethack_pipe.parallel import map_chunks
    from nethack_pipe.rollouts.schema import read, write_shards
    from nethack_pipe.seeds import SPLITS

    params: CounterfactualsParams = stage.params["counterfactuals"]
    settings = params.model_dump(exclude={"num_games", "num_held_out_games"})
    how = Labelling(root_seed=stage.seed, weights=stage.params["rewards"], **settings)
    rollouts = stage.input("data/rollouts")
    folder = stage.output("data/counterfactuals")
    pairs_folder = stage.output("data/preferences")
    metrics: dict[str, Any] = {}
    for split, count in zip(SPLITS, (params.num_games, params.num_held_out_games), strict=True):
        recorded = recorded_games(read(rollouts, split, columns=["game_seed", "split", "game", "action"]))
        if count > len(recorded):
            key = "num_games" if split == "train" else "num_held_out_games"
            found = f"the {split} games of the rollouts"
            raise ParamError(
                [f"params.yaml: counterfactuals.{key}: expected at most {len(recorded)}, {found}, got {count}"]
            )
        games = recorded[:count]
        chunks = [(game, how) for game in games]
        tables = map_chunks(label_chunk, chunks, describe=describe, desc=f"{split} games", cache=stage.scratch / split)
        table = pa.concat_tables(tables)
        write_shards(table, folder, split)
        pairs = preferences(table)
        write_shards(pairs, pairs_folder, split)
        metrics[split] = summary(table, pairs)
    stage.write_metrics(metrics)


if __name__ == "__main__":
    run(
        "counterfactuals",
        {"base": BaseParams, "rewards": RewardWeights, "counterfactuals": CounterfactualsParams},
        main,
    )
