"""The table of branches, one row per (decisive moment, action). Written and read as `rollouts.schema` says."""

import pyarrow as pa

from nethack_pipe.counterfactuals.moments import KINDS
from nethack_pipe.tasks.skills import TASKS

COLUMNS: list[tuple[str, pa.DataType, str]] = [
    ("game_seed", pa.int64(), "seed of the NetHack game; even: training game, odd: held-out game"),
    ("split", pa.string(), "train or held_out"),
    ("game", pa.int32(), "number of the game within its split, as in the transitions"),
    ("step", pa.int32(), "actions played before the moment, as in the transitions"),
    *((f"is_{kind}", pa.bool_(), f"the moment is of kind {kind}") for kind in KINDS),
    ("played", pa.bool_(), "this is the action that the game went on with (in no row where that was not a legal one)"),
    ("action", pa.string(), "name of the action that is tried"),
    ("state_text", pa.string(), "state at the moment, as in the prompt of the forward model"),
    ("target", pa.string(), "what the action changes under the game's own random stream, as the forward model answers"),
    ("died", pa.bool_(), "the hero dies in that step"),
    ("level_changed", pa.bool_(), "the hero is on another level after that step"),
    *((f"reward_{task}", pa.float32(), f"shaped reward of {task} for that step") for task in TASKS),
    ("samples", pa.int32(), "re-drawn random streams that the columns below are taken over"),
    ("outcomes", pa.list_(pa.string()), "distinct first-step changes over the samples, most frequent first"),
    ("outcome_counts", pa.list_(pa.int32()), "how often each of them occurred"),
    ("death_rate", pa.float32(), "share of samples in which the hero is dead after horizon steps"),
    *((f"return_{task}", pa.float32(), f"mean discounted return of {task} over horizon steps") for task in TASKS),
    *((f"return_{task}_se", pa.float32(), "standard error of that mean, 0 for one sample") for task in TASKS),
    *((f"advantage_{task}", pa.float32(), "that mean minus the mean over the moment's actions") for task in TASKS),
    *((f"best_{task}", pa.bool_(), f"no action of the moment has a higher mean return of {task}") for task in TASKS),
]

SCHEMA = pa.schema([pa.field(name, kind, metadata={"description": text}) for name, kind, text in COLUMNS])

PREFERENCES = pa.schema(
    [
        pa.field(name, kind, metadata={"description": text})
        for name, kind, text in [
            ("game_seed", pa.int64(), "seed of the NetHack game"),
            ("split", pa.string(), "train or held_out"),
            ("step", pa.int32(), "actions played before the moment"),
            ("task", pa.string(), "task by whose return the actions are compared"),
            ("state_text", pa.string(), "state at the moment"),
            ("chosen", pa.string(), "the better action"),
            ("rejected", pa.string(), "the worse action"),
            ("margin", pa.float32(), "difference of their mean returns"),
        ]
    ]
)
