"""The table of held-out episodes: one row per game, policy and task. `rollouts.schema` says how tables are read."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from nethack_pipe.game.actions import ACTIONS
from nethack_pipe.tasks.rewards import RewardWeights

_FACTORS = ("low_hp_factor",)  # weights that are no terms of their own
TERMS = [
    f"{task}_{term}" for task, weights in RewardWeights() for term in type(weights).model_fields if term not in _FACTORS
]

COLUMNS: list[tuple[str, pa.DataType, str]] = [
    ("policy", pa.string(), "who played"),
    ("task", pa.string(), "what it played for, and what the reward is of"),
    ("game_seed", pa.int64(), "seed of the NetHack game, odd: held out"),
    ("task_reward", pa.float64(), "sum of the task's reward over the episode"),
    ("env_reward", pa.float64(), "change of NetHack's score, points"),
    ("length", pa.float64(), "actions played"),
    ("unique_tiles", pa.float64(), "tiles seen"),
    ("rooms", pa.float64(), "rooms found"),
    ("kills", pa.float64(), "monsters the hero killed"),
    ("final_hp", pa.float64(), "hit points at the end, or at the last living moment"),
    ("depth", pa.float64(), "deepest level reached, 1 is the first"),
    ("gold", pa.float64(), "gold pieces at the end"),
    ("alive", pa.float64(), "1 the hero lived, 0 died"),
    ("repeated_state_rate", pa.float64(), "share of steps into one of the last 8 states"),
    ("repeated_action_rate", pa.float64(), "share of steps that repeated an action without a change of position"),
    ("recent_tile_rate", pa.float64(), "share of steps onto one of the last 8 positions"),
    ("senseless_rate", pa.float64(), "share of senseless actions"),
    *(
        (f"reward_{term}", pa.float64(), "sum of this term of the reward, 0 for the other tasks' terms")
        for term in TERMS
    ),
    *((f"action_{name}", pa.float64(), "share of steps with this action") for name in ACTIONS),
]

SCHEMA = pa.schema([pa.field(name, kind, metadata={"description": text}) for name, kind, text in COLUMNS])


def table(episodes: Sequence[dict[str, Any]]) -> pa.Table:
    """The rows of `closed_loop.play_match` as a table; a term or action that an episode does not mention is 0 there.

    Raises:
        ValueError: an episode has a figure that is no column.
    """
    unknown = {name for episode in episodes for name in episode} - set(SCHEMA.names)
    if unknown:
        raise ValueError(f"no column for {', '.join(sorted(unknown))}")
    return pa.Table.from_pylist(
        [{name: episode.get(name, 0.0) for name in SCHEMA.names} for episode in episodes], schema=SCHEMA
    )
