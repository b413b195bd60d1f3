import json
from pathlib import Path

import pytest
import transformers

from nethack_pipe.forward_model import base, conversations
from nethack_pipe.forward_model.batches import IGNORED, Conversations
from nethack_pipe.forward_model.conversations import Example, encode, read_examples, sample
from tests.forward_model.conftest import World
from tests.helpers.tiny_forward import examples, write_table


@pytest.fixture(scope="module")
def tokenizer(world: World) -> transformers.PreTrainedTokenizerBase:
    return transformers.AutoTokenizer.from_pretrained(world.root / "models/base")


def test_each_split_has_its_own_rows_in_order(tmp_path: Path) -> None:
    train, held_out = examples(5, 1), examples(3, 2)
    write_table(tmp_path / "table", {"train": train, "held_out": held_out})
    assert read_examples([tmp_path / "table"], "train") == train
    assert [row.target for row in read_examples([tmp_path / "table"], "held_out")] == [row.target for row in held_out]
    assert all(row.game_seed % 2 for row in read_examples([tmp_path / "table"], "held_out"))


def test_a_folder_without_tables_or_without_a_column_is_named(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        read_examples([tmp_path], "train")
    pq.write_table(pa.table({"state_text": ["x"], "action": ["wait"], "game_seed": [2]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet: there is no column target, split"):
        read_examples([tmp_path], "train")


def test_outcomes_come_with_how_often_they_were(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = examples(1, 1)[0]
    columns = {name: [getattr(row, name)] for name in conversations.COLUMNS}
    sampled = {"outcomes": [["a", "b"]], "outcome_counts": [[3, 1]]}
    pq.write_table(pa.table({**columns, "split": ["train"], **sampled}), tmp_path / "a.parquet")
    assert read_examples([tmp_path], "train")[0].outcomes == (("a", 3), ("b", 1))


def test_loss_is_on_the_answer_and_its_end_token_alone(tokenizer: transformers.PreTrainedTokenizerBase) -> None:
    row = examples(1, 3)[0]
    [item] = encode(tokenizer, [row.prompt], [row.target])
    labels = Conversations([item], answer_only=True)[0]["labels"]
    learned = [token for token in labels if token != IGNORED]
    assert tokenizer.decode(learned) == row.target + "<|end|>"
    assert labels[: len(labels) - len(learned)] == [IGNORED] * item.answer_start
    before = tokenizer.decode(item.input_ids[: item.answer_start])
    assert before == f"<|user|>{row.prompt}<|end|><|assistant|>"
    assert row.prompt.endswith("\n=>")
    assert Conversations([item], answer_only=False)[0]["labels"] == item.input_ids


def test_prompt_has_the_same_tokens_with_and_without_an_answer(tokenizer: transformers.PreTrainedTokenizerBase) -> None:
    rows = examples(20, 4)
    with_answer = encode(tokenizer, [row.prompt for row in rows], [row.target for row in rows])
    without = encode(tokenizer, [row.prompt for row in rows])
    for one, other in zip(with_answer, without, strict=True):
        assert one.input_ids[: one.answer_start] == other.input_ids
        assert other.answer_length == 0


def test_a_long_conversation_loses_the_beginning_of_its_prompt(tokenizer: transformers.PreTrainedTokenizerBase) -> None:
    row = examples(1, 5)[0]
    [whole] = encode(tokenizer, [row.prompt], [row.target])
    length = len(whole.input_ids) - 10
    [cut] = encode(tokenizer, [row.prompt], [row.target], length)
    assert cut.input_ids == whole.input_ids[10:]
    assert cut.truncated and not whole.truncated
    assert cut.answer_length == whole.answer_length
    with pytest.raises(ValueError, match="max_seq_length"):
        encode(tokenizer, [row.prompt], [row.target], whole.answer_length)


def test_what_a_template_writes_after_the_end_token_is_not_learned() -> None:
    tokenizer = base.train_tokenizer(examples(20, 6), 512, 160)
    tokenizer.chat_template = (
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<|end|>{{ '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    [item] = encode(tokenizer, ["a =>"], ["b"])
    assert tokenizer.decode(item.input_ids) == "[user]a =><|end|>\n[assistant]b<|end|>"
    tokenizer.chat_template = "{{ messages | length }}{{ messages[-1]['content'] }}"
    with pytest.raises(ValueError, match="changes the prompt"):
        encode(tokenizer, ["a =>"], ["b"])
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        encode(tokenizer, ["a =>"], ["b"])


def test_a_sample_is_the_same_for_the_same_seed_and_keeps_the_order() -> None:
    rows = [Example("", "", "", game) for game in range(100)]
    some = sample(rows, 10, seed=1)
    assert some == sample(rows, 10, seed=1) != sample(rows, 10, seed=2)
    assert [row.game_seed for row in some] == sorted({row.game_seed for row in some})
    assert sample(rows, None, seed=1) == sample(rows, 1000, seed=1) == rows


def test_sharegpt_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(tmp_path / "table", {"train": examples(4, 7), "held_out": examples(2, 8)})
    output = tmp_path / "out.jsonl"
    monkeypatch.setattr("sys.argv", ["conversations", str(tmp_path / "table"), str(output)])
    conversations.main()
    assert "4 conversations of split train" in capsys.readouterr().out
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    first = examples(4, 7)[0]
    assert len(lines) == 4
    assert lines[0] == {
        "conversations": [{"from": "human", "value": first.prompt}, {"from": "gpt", "value": first.target}]
    }
