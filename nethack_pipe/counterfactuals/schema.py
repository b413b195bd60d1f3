"""The tables of ``data/counterfactuals`` and ``data/preferences``. Written and read as `rollouts.schema` says.

A *branch* plays an action at a decisive moment and then goes on with the policy named in `policy`, `horizon` actions in
all. A *sample* is a set of re-drawn random streams, one for each step of the branch; sample i is the same one for all
actions of a moment, and only for these.
"""

import pyarrow as pa

from nethack_pipe.counterfactuals.moments import KINDS
from nethack_pipe.tasks.skills import TASKS

MAP_HEIGHT, MAP_WIDTH = 11, 41  # of the map around the hero, who is in its middle

# One row per (decisive moment, legal action): by game as in the transitions, then step, then action set order.
COLUMNS: list[tuple[str, pa.DataType, str]] = [
    ("game_seed", pa.int64(), "seed of the NetHack game; even: training game, odd: held-out game"),
    ("split", pa.string(), "train or held_out"),
    ("game", pa.int32(), "number of the game within its split, as in the transitions"),
    ("step", pa.int32(), "actions played before the moment, as in the transitions"),
    ("kind", pa.string(), "kind that the moment was drawn as: survival, descent, combat, pickup or threat"),
    *((f"is_{kind}", pa.bool_(), f"the moment is of kind {kind}, perhaps of others too") for kind in KINDS),
    ("weight", pa.float32(), "decisive moments of this game and kind per drawn one: how many this one stands for"),
    ("policy", pa.string(), "who goes on after the action in the samples"),
    ("task", pa.string(), "task that this policy plays for; null where it has no notion of one"),
    ("played", pa.bool_(), "this is the action that the game went on with (in no row where that was not a legal one)"),
    ("action", pa.string(), "name of the action that is tried"),
    ("state_text", pa.string(), "state at the moment, as in the prompt of the forward model"),
    ("map", pa.string(), f"level around the hero as the screen shows it: {MAP_HEIGHT} lines of {MAP_WIDTH} characters"),
    ("target", pa.string(), "what the action changes under the game's own random stream, as the forward model answers"),
    ("died", pa.bool_(), "the hero dies in that step"),
    ("level_changed", pa.bool_(), "the hero is on another level after that step"),
    *((f"reward_{task}", pa.float32(), f"shaped reward of {task} for that step, points") for task in TASKS),
    ("samples", pa.int32(), "number of samples that the columns below are taken over"),
    ("horizon", pa.int32(), "actions in a branch, the tried one included"),
    ("outcomes", pa.list_(pa.string()), "distinct first-step changes over the samples, most frequent first"),
    ("outcome_counts", pa.list_(pa.int32()), "number of samples in which each of them occurred"),
    ("death_rate", pa.float32(), "share of samples in which the hero dies within the horizon"),
    ("level_change_rate", pa.float32(), "share of samples in which the hero leaves the level within the horizon"),
    *(
        (f"returns_{task}", pa.list_(pa.float32()), f"discounted return of {task} in each sample, points, 4 decimals")
        for task in TASKS
    ),
    *((f"return_{task}", pa.float32(), f"mean of returns_{task}, points") for task in TASKS),
    *(
        (f"return_{task}_se", pa.float32(), "standard error of that mean, points; null for one sample")
        for task in TASKS
    ),
    *(
        (f"advantage_{task}", pa.float32(), "that mean minus its mean over the moment's actions, points")
        for task in TASKS
    ),
    *((f"best_{task}", pa.bool_(), f"no action of the moment has a higher mean return of {task}") for task in TASKS),
]

# One row per (moment, task, pair of actions of which one is surely better); prompt, chosen and rejected are texts as
# trainers of preferences (TRL's DPOTrainer) take them.
PREFERENCE_COLUMNS: list[tuple[str, pa.DataType, str]] = [
    ("game_seed", pa.int64(), "seed of the NetHack game"),
    ("split", pa.string(), "train or held_out"),
    ("game", pa.int32(), "number of the game within its split"),
    ("step", pa.int32(), "actions played before the moment"),
    ("task", pa.string(), "task by whose n-step return the actions are compared"),
    ("prompt", pa.string(), "state_text of the moment, the task and the legal actions, ending in =>"),
    ("chosen", pa.string(), "name of the better action"),
    ("rejected", pa.string(), "name of the worse action"),
    ("margin", pa.float32(), "mean over samples of the difference of their returns, points"),
    ("margin_se", pa.float32(), "standard error of that mean, from differences sample by sample, points"),
    ("chosen_is_best", pa.bool_(), "no action of the moment has a higher mean return than the chosen one"),
]


def _schema(columns: list[tuple[str, pa.DataType, str]]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, metadata={"description": text}) for name, kind, text in columns])


SCHEMA = _schema(COLUMNS)
PREFERENCES = _schema(PREFERENCE_COLUMNS)
