"""What people who train on the tables get."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nethack_pipe.counterfactuals.dataset import load, load_preferences, moments, returns
from nethack_pipe.counterfactuals.preferences import preferences
from nethack_pipe.counterfactuals.schema import COLUMNS, PREFERENCE_COLUMNS, PREFERENCES, SCHEMA
from nethack_pipe.rollouts.schema import SchemaError, write_shards
from tests.helpers.branches import moment, table


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    branches, pairs = tmp_path / "branches", tmp_path / "pairs"
    branches.mkdir()
    pairs.mkdir()
    made = table(moment(1, {"north": (3, 4), "south": (1, 2)}), moment(5, {"wait": (7, 7)}, game_seed=10))
    write_shards(made, branches, "train")
    write_shards(preferences(made, 0.9), pairs, "train")
    return branches, pairs


def test_a_split_comes_back_whole(folders):
    branches, pairs = folders
    found = load(branches, "train")
    assert found.schema.equals(SCHEMA) and found["action"].to_pylist() == ["north", "south", "wait"]
    assert found["returns_combat"].to_pylist() == [[3, 4], [1, 2], [7, 7]]
    assert [(rows.start, rows.stop) for rows in moments(found)] == [(0, 2), (2, 3)]
    assert returns(found, "combat").tolist() == [[3, 4], [1, 2], [7, 7]]
    assert returns(found.slice(1), "combat").tolist() == [[1, 2], [7, 7]]
    with pytest.raises(FileNotFoundError, match="no held_out-"):
        load(branches, "held_out")
    with pytest.raises(SchemaError, match="kind: expected string, found no such column"):
        load(pairs, "train")


def test_pairs_are_texts_for_a_trainer_of_preferences(folders):
    _, pairs = folders
    (pair,) = load_preferences(pairs, "train", task="combat").select(["prompt", "chosen", "rejected"]).to_pylist()
    assert pair["prompt"].startswith("msg:hello\n") and pair["prompt"].endswith("=>")
    assert (pair["chosen"], pair["rejected"]) == ("north", "south")
    assert load_preferences(pairs, "train").num_rows == 1
    assert load_preferences(pairs, "train", task="explore").num_rows == 0


def test_files_hold_only_types_that_every_reader_of_parquet_knows_and_say_what_they_mean(folders):
    branches, pairs = folders
    plain = (pa.types.is_integer, pa.types.is_float32, pa.types.is_boolean, pa.types.is_string)
    for folder, columns, schema in ((branches, COLUMNS, SCHEMA), (pairs, PREFERENCE_COLUMNS, PREFERENCES)):
        stored = pq.read_schema(folder / "train-00000.parquet")
        assert stored.names == [name for name, _, _ in columns] == schema.names
        for field, (_, _, meaning) in zip(stored, columns, strict=True):
            kind = field.type.value_type if pa.types.is_list(field.type) else field.type
            assert any(is_it(kind) for is_it in plain), field
            assert field.metadata[b"description"].decode() == meaning and len(meaning) > 15
