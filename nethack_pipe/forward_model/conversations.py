"""From recorded transitions to the conversations that a language model is trained on.

One transition is one conversation of two turns: the user gives the state and the action (a text that ends in ``=>``),
the assistant answers what the action changes. Other trainers take the same conversations as ShareGPT JSON lines:

    python -m nethack_pipe.forward_model.conversations data/rollouts conversations.jsonl --split train
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nethack_pipe.perception import text
from nethack_pipe.seeds import SPLITS, Split, rng

COLUMNS = ("state_text", "action", "target", "game_seed")
SAMPLED = ("outcomes", "outcome_counts")  # only in tables of branches


@dataclass(frozen=True, slots=True)
class Example:
    """One transition: the state and the action, the change that the model should tell, and the game it comes from.

    `outcomes` are the changes seen under re-drawn random streams, each with how often it was, where a table has them.
    """

    state_text: str
    action: str
    target: str
    game_seed: int
    outcomes: tuple[tuple[str, int], ...] = ()

    @property
    def prompt(self) -> str:
        return text.prompt(self.state_text, self.action)


@dataclass(frozen=True, slots=True)
class Encoded:
    """One conversation in tokens; `input_ids[answer_start:]` is the answer with its end token."""

    input_ids: list[int]
    answer_start: int
    truncated: bool

    @property
    def answer_length(self) -> int:
        return len(self.input_ids) - self.answer_start


def read_examples(tables: Sequence[Path], split: Split) -> list[Example]:
    """The examples of one split, in the order of the tables, their files (by name) and rows.

    Args:
        tables: Parquet files, or folders that are searched for them; each needs `COLUMNS` and the column split.
        split: ``train`` or ``held_out``; rows of the other split are never returned.

    Raises:
        FileNotFoundError: a table holds no Parquet file.
        ValueError: a column is missing.
    """
    import pyarrow.parquet as pq

    examples = []
    for table in tables:
        files = [table] if table.is_file() else sorted(table.rglob("*.parquet"))
        if not files:
            raise FileNotFoundError(f"{table}: no Parquet file there; the stage that makes it has not run")
        for file in files:
            names = pq.read_schema(file).names
            missing = [name for name in (*COLUMNS, "split") if name not in names]
            if missing:
                raise ValueError(f"{file}: there is no column {', '.join(missing)}")
            wanted = [*COLUMNS, *(name for name in SAMPLED if name in names)]
            columns = pq.read_table(file, columns=wanted, filters=[("split", "=", split)]).to_pydict()
            rows = [columns[name] for name in COLUMNS]
            if set(SAMPLED) <= columns.keys():
                pairs = zip(*(columns[name] for name in SAMPLED), strict=True)
                rows.append([tuple(zip(outcomes, counts, strict=True)) for outcomes, counts in pairs])
            examples += [Example(*row) for row in zip(*rows, strict=True)]
    return examples


def sample(examples: Sequence[Example], count: int | None, seed: int) -> list[Example]:
    """`count` of the examples, drawn without replacement, in their order; all of them if `count` is None or larger."""
    if count is None or count >= len(examples):
        return list(examples)
    chosen = rng(seed, "conversations").choice(len(examples), size=count, replace=False)
    return [examples[index] for index in sorted(chosen.tolist())]


def encode_examples(tokenizer: Any, examples: Sequence[Example], max_length: int) -> list[Encoded]:
    """The examples as `encode` makes them."""
    return encode(tokenizer, [e.prompt for e in examples], [e.target for e in examples], max_length)


def encode(
    tokenizer: Any, prompts: Sequence[str], answers: Sequence[str] | None = None, max_length: int | None = None
) -> list[Encoded]:
    """Tokens of conversations in the tokenizer's own chat format.

    Prompt and answer are cut into tokens apart, so that a prompt's tokens are the same ones in training and in
    prediction, whatever the answer begins with.

    Args:
        tokenizer: a transformers tokenizer with a chat template and an end token.
        prompts: the user's turns, as they are (they end in ``=>``).
        answers: the assistant's turns; without them the tokens end where the assistant begins to speak.
        max_length: tokens in all; a longer conversation loses the beginning of its prompt, never of its answer.

    Raises:
        ValueError: no chat template, or one that does more than append the answer; or an answer that is too long.
    """
    if tokenizer.chat_template is None:
        raise ValueError(f"{tokenizer.name_or_path}: the tokenizer has no chat template; choose a base model with one")
    users = [[{"role": "user", "content": prompt}] for prompt in prompts]
    openings = tokenizer.apply_chat_template(users, tokenize=False, add_generation_prompt=True)
    prompt_ids = tokenizer(openings, add_special_tokens=False)["input_ids"]
    answer_ids: list[list[int]] = [[] for _ in prompts]
    if answers is not None:
        pairs = zip(users, answers, strict=True)
        turns = [[*user, {"role": "assistant", "content": answer}] for user, answer in pairs]
        wholes = tokenizer.apply_chat_template(turns, tokenize=False)
        if not all(map(str.startswith, wholes, openings)):
            raise ValueError(f"{tokenizer.name_or_path}: the chat template changes the prompt once there is an answer")
        endings = [whole[len(opening) :] for whole, opening in zip(wholes, openings, strict=True)]
        # Templates differ in what follows the end token (often a newline); the model stops at the end token.
        end = tokenizer.eos_token_id
        answer_ids = [
            ids[: ids.index(end) + 1] if end in ids else [*ids, end]
            for ids in tokenizer(endings, add_special_tokens=False)["input_ids"]
        ]
    return [_joined(*ids, max_length) for ids in zip(prompt_ids, answer_ids, strict=True)]


def _joined(prompt_ids: list[int], answer_ids: list[int], max_length: int | None) -> Encoded:
    excess = 0 if max_length is None else max(0, len(prompt_ids) + len(answer_ids) - max_length)
    if excess >= len(prompt_ids):
        raise ValueError(
            f"max_seq_length: an answer of {len(answer_ids)} tokens leaves no room for a prompt in {max_length}"
        )
    return Encoded(prompt_ids[excess:] + answer_ids, len(prompt_ids) - excess, excess > 0)


def write_sharegpt(examples: Iterable[Example], path: Path) -> int:
    """Write one JSON object a line, ``{"conversations": [{"from": "human", "value"}, {"from": "gpt", "value"}]}``.

    Returns:
        the number of conversations.
    """
    lines = [
        json.dumps(
            {"conversations": [{"from": "human", "value": e.prompt}, {"from": "gpt", "value": e.target}]},
            ensure_ascii=False,
        )
        for e in examples
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return len(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write recorded transitions as ShareGPT conversations (JSON lines).")
    parser.add_argument("tables", nargs="+", type=Path, help="Parquet files or folders of them, e.g. data/rollouts")
    parser.add_argument("output", type=Path, help="the JSONL file to write")
    parser.add_argument("--split", choices=SPLITS, default="train")
    arguments = parser.parse_args()
    count = write_sharegpt(read_examples(arguments.tables, arguments.split), arguments.output)
    print(f"{arguments.output}: {count} conversations of split {arguments.split}")


if __name__ == "__main__":
    main()
