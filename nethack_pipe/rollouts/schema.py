"""The table of transitions: one row per step of a recorded game.

Every column is described in `COLUMNS`; the description travels in the Parquet file as field metadata, and `read`
refuses a file with other columns or types.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nethack_pipe.perception import features
from nethack_pipe.tasks.skills import TASKS

VECTOR = features.size(13)

COLUMNS: list[tuple[str, pa.DataType, str]] = [
    ("game_seed", pa.int64(), "seed of the NetHack game; even: training game, odd: held-out game"),
    ("split", pa.string(), "train or held_out"),
    ("game", pa.int32(), "number of the game within its split"),
    ("step", pa.int32(), "actions played before this one, from 0"),
    ("turn", pa.int32(), "NetHack's turn counter before the action"),
    ("policy", pa.string(), "name of the policy that chose the action"),
    ("task", pa.string(), "task the policy played for"),
    ("action", pa.string(), "name of the action"),
    ("state_text", pa.string(), "state before the action, as in the prompt of the forward model"),
    ("target", pa.string(), "what the action changed, as in the answer of the forward model"),
    ("features", pa.list_(pa.float32(), VECTOR), "observation vector before the action (perception.features)"),
    ("hp", pa.int32(), "hit points before the action"),
    ("max_hp", pa.int32(), "maximum of the hit points before the action"),
    ("gold", pa.int32(), "gold pieces before the action"),
    ("depth", pa.int32(), "depth of the level before the action, 1 is the first"),
    ("x", pa.int32(), "column of the hero before the action, 0 to 78"),
    ("y", pa.int32(), "row of the hero before the action, 0 to 20"),
    ("explored", pa.int32(), "tiles known on the level before the action"),
    ("rooms", pa.int32(), "rooms known on the level before the action"),
    ("items", pa.int32(), "items known on the level before the action"),
    ("hostiles", pa.int32(), "hostile monsters in view before the action"),
    ("visits", pa.int32(), "steps spent on the hero's tile, up to and with the one that led there"),
    ("message", pa.string(), "everything NetHack said in answer to the action"),
    ("took_time", pa.bool_(), "whether the action used up game time"),
    ("done", pa.bool_(), "whether the game ended with this action"),
    ("end_status", pa.int8(), "NLE's end status after the action: 0 running, 1 death"),
    ("env_reward", pa.float32(), "change of NetHack's score, points"),
    *((f"reward_{task}", pa.float32(), f"shaped reward of the task {task} for this transition") for task in TASKS),
]

SCHEMA = pa.schema([pa.field(name, kind, metadata={"description": text}) for name, kind, text in COLUMNS])


class SchemaError(ValueError):
    """A table does not have the columns it should have."""


def check(table: pa.Table, schema: pa.Schema, path: Path) -> pa.Table:
    """Returns `table` if it has exactly the columns of `schema`, else says which differ."""
    if table.schema.equals(schema):
        return table
    found = {field.name: field.type for field in table.schema}
    wanted = {field.name: field.type for field in schema}
    differences = [
        f"{name}: expected {kind}, found {found.get(name, 'no such column')}"
        for name, kind in wanted.items()
        if found.get(name) != kind
    ]
    differences += [f"{name}: not a column of this table" for name in found if name not in wanted]
    raise SchemaError(f"{path}: " + "; ".join(differences or ["the columns are in another order"]))


def write_shards(table: pa.Table, folder: Path, name: str, rows_per_shard: int = 100_000) -> None:
    """Writes ``name-00000.parquet`` ... into `folder`, zstd-compressed."""
    for shard, start in enumerate(range(0, max(table.num_rows, 1), rows_per_shard)):
        pq.write_table(table.slice(start, rows_per_shard), folder / f"{name}-{shard:05d}.parquet", compression="zstd")


def read(folder: Path, name: str, schema: pa.Schema = SCHEMA, columns: list[str] | None = None) -> pa.Table:
    """All shards of `name` in `folder` as one table, checked against `schema`.

    Raises:
        FileNotFoundError: there is no such shard.
        SchemaError: columns or types differ.
    """
    shards = sorted(folder.glob(f"{name}-*.parquet"))
    if not shards:
        raise FileNotFoundError(f"no {name}-*.parquet in {folder}")
    for shard in shards:
        check(pq.read_schema(shard).empty_table(), schema, shard)
    return pa.concat_tables([pq.read_table(shard, columns=columns) for shard in shards])
