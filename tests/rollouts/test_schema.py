"""Writing and reading tables: shards, and the refusal of what is no such table."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nethack_pipe.rollouts.schema import COLUMNS, SCHEMA, SchemaError, read, write_shards


def some_table(rows: int) -> pa.Table:
    def value(kind: pa.DataType, i: int):
        if pa.types.is_fixed_size_list(kind):
            return [float(i)] * kind.list_size
        if pa.types.is_string(kind):
            return f"text {i}"
        return bool(i % 2) if pa.types.is_boolean(kind) else i % 100

    return pa.Table.from_pylist([{name: value(kind, i) for name, kind, _ in COLUMNS} for i in range(rows)], SCHEMA)


@pytest.mark.parametrize(("rows", "shards"), [(0, 1), (1, 1), (10, 1), (11, 2), (30, 3)])
def test_what_is_written_is_read(tmp_path, rows, shards):
    table = some_table(rows)
    write_shards(table, tmp_path, "transitions", rows_per_shard=10)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"transitions-{i:05d}.parquet" for i in range(shards)]
    assert read(tmp_path, "transitions").equals(table)
    assert read(tmp_path, "transitions", columns=["step", "action"]).equals(table.select(["step", "action"]))


def test_descriptions_travel_with_the_file(tmp_path):
    write_shards(some_table(1), tmp_path, "transitions")
    schema = pq.read_schema(tmp_path / "transitions-00000.parquet")
    assert {field.name: field.metadata[b"description"].decode() for field in schema} == {
        name: description for name, _, description in COLUMNS
    }
    assert schema.field("features").type.list_size == 106


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda table: table.drop_columns(["hp"]), "hp: expected int32, found no such column"),
        (lambda table: table.append_column("mana", table["hp"]), "mana: not a column of this table"),
        (
            lambda table: table.set_column(table.schema.get_field_index("hp"), "hp", table["hp"].cast(pa.int64())),
            "hp: expected int32, found int64",
        ),
        (lambda table: table.select(table.column_names[::-1]), "the columns are in another order"),
    ],
)
def test_another_table_is_refused(tmp_path, spoil, complaint):
    write_shards(some_table(3), tmp_path, "transitions")
    spoilt = tmp_path / "transitions-00001.parquet"
    pq.write_table(spoil(some_table(3)), spoilt)
    with pytest.raises(SchemaError, match=complaint) as error:
        read(tmp_path, "transitions", columns=["action"])
    assert str(spoilt) in str(error.value)


def test_no_table_at_all(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no transitions-\*\.parquet in"):
        read(tmp_path, "transitions")
