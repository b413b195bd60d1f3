"""Branches recorded games at decisive moments.

``data/counterfactuals`` has all actions, ``data/preferences`` pairs, ``plots/counterfactuals.html`` shows them.
"""

from itertools import islice
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from nethack_pipe.params import ParamError, Section
from nethack_pipe.stage import BaseParams, Stage, run
from nethack_pipe.tasks.rewards import RewardWeights


class MomentQuotas(Section):
    """At most so many moments per game, by the kind that they are drawn as."""

    survival: int = Field(ge=0)
    descent: int = Field(ge=0)
    combat: int = Field(ge=0)
    pickup: int = Field(ge=0)
    threat: int = Field(ge=0)


class CounterfactualsParams(Section):
    """Section `counterfactuals`."""

    num_games: int | None = Field(gt=0)
    num_held_out_games: int | None = Field(gt=0)
    moments_per_game: MomentQuotas
    horizon: int = Field(gt=0)
    samples: int = Field(gt=0)
    policy: Literal[
        "acting", "random", "wall_avoidance", "frontier", "task_greedy", "task_greedy_fair", "n_step_greedy"
    ]
    task: Literal["explore", "survive", "combat", "descend", "resource"] | None
    discount: float = Field(gt=0, le=1)
    confidence: float = Field(gt=0.5, lt=1)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        quotas = self.moments_per_game.model_dump()
        if not any(quotas.values()):
            raise ValueError(f"moments_per_game: expected at least one number greater than 0, got {quotas}")
        plays_for_one = self.policy not in ("acting", "random", "wall_avoidance")
        if plays_for_one and self.task is None:
            raise ValueError(f"task: expected a task for policy {self.policy!r} to play for, got null")
        if not plays_for_one and self.task is not None:
            why = "it keeps the task of each game" if self.policy == "acting" else "it plays for none"
            raise ValueError(f"task: expected null where policy is {self.policy!r} ({why}), got {self.task!r}")
        return self


def main(stage: Stage) -> None:
    import pyarrow as pa

    from nethack_pipe.artifacts import naming_full_disk, write_bytes
    from nethack_pipe.counterfactuals.label import (
        TRANSITIONS,
        Labelling,
        RecordedGame,
        describe,
        label_chunk,
        recorded_games,
    )
    from nethack_pipe.counterfactuals.page import page
    from nethack_pipe.counterfactuals.preferences import preferences
    from nethack_pipe.counterfactuals.summary import summary
    from nethack_pipe.parallel import map_chunks
    from nethack_pipe.policies.registry import POLICY_NAMES
    from nethack_pipe.rollouts.schema import read, write_shards
    from nethack_pipe.seeds import SPLITS, Split

    params: CounterfactualsParams = stage.params["counterfactuals"]
    settings = params.model_dump(exclude={"num_games", "num_held_out_games", "confidence"})
    how = Labelling(root_seed=stage.seed, weights=stage.params["rewards"], **settings)
    rollouts = stage.input("data/rollouts")
    games: dict[Split, list[RecordedGame]] = {}
    for split, key in zip(SPLITS, ("num_games", "num_held_out_games"), strict=True):
        found = recorded_games(read(rollouts, split, columns=list(TRANSITIONS)))
        count = getattr(params, key)
        if count is not None and count > len(found):
            expected = f"at most {len(found)} (the {split} games of the rollouts) or null"
            raise ParamError([f"params.yaml: counterfactuals.{key}: expected {expected}, got {count}"])
        games[split] = found[:count]
        strangers = {game.policy for game in games[split]} - set(POLICY_NAMES)
        if params.policy == "acting" and strangers:
            who = f"since {', '.join(sorted(strangers))} recorded some of the games and cannot go on here"
            raise ParamError([f"params.yaml: counterfactuals.policy: expected another one, {who}, got 'acting'"])

    chunks = [(game, how) for split in SPLITS for game in games[split]]
    labelled = map_chunks(label_chunk, chunks, describe=describe, desc="games", cache=stage.scratch / "games")
    folder, pairs_folder = stage.output("data/counterfactuals"), stage.output("data/preferences")
    tables: dict[Split, pa.Table] = {}
    metrics: dict[Split, dict[str, Any]] = {}
    for split in SPLITS:
        tables[split] = pa.concat_tables(islice(labelled, len(games[split])))
        pairs = preferences(tables[split], params.confidence)
        with naming_full_disk(folder.parent):
            write_shards(tables[split], folder, split)
            write_shards(pairs, pairs_folder, split)
        metrics[split] = summary(tables[split], pairs, params.confidence)
    stage.write_metrics({split: metrics[split] for split in SPLITS})
    write_bytes(stage.output("plots/counterfactuals.html"), page(tables, metrics).encode())


if __name__ == "__main__":
    run(
        "counterfactuals",
        {"base": BaseParams, "rewards": RewardWeights, "counterfactuals": CounterfactualsParams},
        main,
    )
