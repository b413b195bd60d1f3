"""The tables of games on held-out seeds: episodes of the closed loop, the moments that some of them begin at, and whole
games. `rollouts.schema` says how tables are read."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from nethack_pipe.game.actions import ACTIONS
from nethack_pipe.tasks.rewards import RewardWeights

_FACTORS = ("low_hp_factor",)  # weights that are no terms of their own
TERMS = [
    f"{task}_{term}" for task, weights in RewardWeights() for term in type(weights).model_fields if term not in _FACTORS
]

Columns = list[tuple[str, pa.DataType, str]]

EPISODE_COLUMNS: Columns = [
    ("policy", pa.string(), "who played"),
    ("task", pa.string(), "what it played for, and what the reward is of"),
    ("start", pa.string(), "game: from the beginning of a game; moment: from a decisive moment of one"),
    (
        "max_steps",
        pa.int64(),
        "actions the episode may have at the most; a longer one's first part is a row of its own",
    ),
    ("game_seed", pa.int64(), "seed of the NetHack game, odd: held out"),
    ("start_step", pa.int64(), "actions played before the policy took over"),
    ("sample", pa.int64(), "number of this play of the game, from 0; the policy's draws differ"),
    ("task_reward", pa.float64(), "sum of the task's reward over the episode"),
    ("env_reward", pa.float64(), "change of NetHack's score over the episode, points"),
    ("length", pa.float64(), "actions the policy played"),
    ("unique_tiles", pa.float64(), "tiles seen in the whole game"),
    ("rooms", pa.float64(), "rooms found in the whole game"),
    ("kills", pa.float64(), "monsters the hero killed in the episode"),
    ("final_hp", pa.float64(), "hit points at the end, or at the last living moment"),
    ("depth", pa.float64(), "deepest level reached in the episode, 1 is the first"),
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

MOMENT_COLUMNS: Columns = [
    ("task", pa.string(), "the task that the moment is decisive for"),
    ("game_seed", pa.int64(), "seed of the NetHack game, odd: held out"),
    ("actions", pa.list_(pa.string()), "names of the actions that lead from the beginning of the game to the moment"),
]

WORLD_COLUMNS: Columns = [
    ("policy", pa.string(), "who played"),
    ("game_seed", pa.int64(), "seed of the NetHack game, odd: held out"),
    ("role", pa.string(), "the hero's role, by its monster's name"),
    ("length", pa.float64(), "actions played"),
    ("turns", pa.float64(), "NetHack's turn counter at the end"),
    ("depth", pa.float64(), "deepest level reached, 1 is the first"),
    ("experience_level", pa.float64(), "highest experience level reached"),
    ("score", pa.float64(), "NetHack's score, points"),
    ("prayers", pa.float64(), "how often the hero prayed"),
    ("progression", pa.float64(), "BALROG's progression, percent (evaluation.world)"),
    ("alive", pa.float64(), "1 the hero lived, 0 died"),
    ("how", pa.string(), "how the game ended, by NLE's name; empty where it was cut off"),
]


def _schema(columns: Columns) -> pa.Schema:
    return pa.schema([pa.field(name, kind, metadata={"description": text}) for name, kind, text in columns])


EPISODES, MOMENTS, WORLD = (_schema(columns) for columns in (EPISODE_COLUMNS, MOMENT_COLUMNS, WORLD_COLUMNS))


def episode_table(episodes: Sequence[dict[str, Any]]) -> pa.Table:
    """The rows of `closed_loop.play_match` as a table; a term or action that an episode does not mention is 0 there.

    Raises:
        ValueError: an episode has a figure that is no column.
    """
    unknown = {name for episode in episodes for name in episode} - set(EPISODES.names)
    if unknown:
        raise ValueError(f"no column for {', '.join(sorted(unknown))}")
    return pa.Table.from_pylist(
        [{name: episode.get(name, 0.0) for name in EPISODES.names} for episode in episodes], schema=EPISODES
    )
