"""The tables of branches and of preferences, for people who train on them.

    from datasets import Dataset
    Dataset(load(Path("data/counterfactuals"), "train"))
    Dataset(load_preferences(Path("data/preferences"), "train", task="combat"))  # prompt, chosen, rejected

Or without this package, since the files are ordinary ones:
``Dataset.from_parquet("data/counterfactuals/train-*.parquet")``.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nethack_pipe.counterfactuals.schema import PREFERENCES, SCHEMA
from nethack_pipe.rollouts.schema import read
from nethack_pipe.seeds import Split
from nethack_pipe.tasks.skills import Skill


def load(folder: Path, split: Split) -> pa.Table:
    """Every (moment, action) of a split, with the columns of `schema.COLUMNS`; an ordinary Arrow table.

    Raises:
        FileNotFoundError, rollouts.schema.SchemaError: there is no such table in `folder`, or one of another kind.
    """
    return read(folder, split, SCHEMA)


def load_preferences(folder: Path, split: Split, task: Skill | None = None) -> pa.Table:
    """The preference pairs of a split, with the columns of `schema.PREFERENCE_COLUMNS`; of one task where it is given.

    Raises:
        FileNotFoundError, rollouts.schema.SchemaError: there is no such table in `folder`, or one of another kind.
    """
    table = read(folder, split, PREFERENCES)
    return table if task is None else table.filter(pc.field("task") == task)


def moments(table: pa.Table) -> Iterator[slice]:
    """The rows of each moment of a table of branches, in its order."""
    if not table.num_rows:
        return
    seeds, steps = (table[name].to_numpy() for name in ("game_seed", "step"))
    starts = np.flatnonzero((np.diff(seeds) != 0) | (np.diff(steps) != 0)) + 1
    yield from (slice(int(a), int(b)) for a, b in zip([0, *starts], [*starts, table.num_rows], strict=True))


def returns(table: pa.Table, task: Skill) -> np.ndarray:
    """(rows, samples) float64: the return of `task` in each sample, of all rows of a table of branches."""
    values = table[f"returns_{task}"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return values.astype(np.float64).reshape(table.num_rows, values.size // max(table.num_rows, 1))
