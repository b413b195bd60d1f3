"""Batches for causal language models: padded, or packed without padding."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nethack_pipe.forward_model.conversations import Encoded

IGNORED = -100
"""Label of a token that is not learned (the value that torch's cross entropy and transformers leave out)."""


class Conversations(torch.utils.data.Dataset[dict[str, Any]]):
    """Encoded conversations as the Trainer wants them: `input_ids` and `labels`, lists of equal length.

    Args:
        encoded: the conversations.
        answer_only: learn the answer with its end token only (fine-tuning), or every token (pretraining).
    """

    def __init__(self, encoded: Sequence[Encoded], answer_only: bool) -> None:
        self.encoded = encoded
        self.answer_only = answer_only

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> dict[str, Any]:
        item = self.encoded[index]
        ignored = item.answer_start if self.answer_only else 0
        return {"input_ids": item.input_ids, "labels": [IGNORED] * ignored + item.input_ids[ignored:]}


class Packed(torch.utils.data.Dataset[dict[str, Any]]):
    """Several conversations in one row of at most `max_length` tokens, filled in the given order.

    `position_ids` start again at 0 with each conversation: by them transformers keeps the conversations of a row from
    attending to each other, when there is no attention mask (`masking_utils.find_packed_sequence_indices`).
    """

    def __init__(self, conversations: Conversations, max_length: int) -> None:
        self.rows: list[dict[str, Any]] = []
        room = 0
        for index in range(len(conversations)):
            item = conversations[index]
            length = len(item["input_ids"])
            if length > room:
                self.rows.append({"input_ids": [], "labels": [], "position_ids": []})
                room = max_length
            row = self.rows[-1]
            row["input_ids"] += item["input_ids"]
            # The first token of a conversation would be predicted from the conversation before it.
            row["labels"] += [IGNORED, *item["labels"][1:]]
            row["position_ids"] += range(length)
            room -= length

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


MEGABATCH = 50
"""Batches that are sorted by length together."""


def batch_order(lengths: Sequence[int], batch_size: int, num_batches: int, rng: np.random.Generator) -> list[int]:
    """Which items make the batches of a whole run, as indices: `num_batches` times `batch_size` of them.

    All items are drawn once before one is drawn again. Items of like length share a batch, which spares padding, and
    the batches come in random order: taken from long to short, the last steps of a run would see short items only.
    """
    count = num_batches * batch_size
    rounds = -(-count // len(lengths))
    drawn = np.concatenate([rng.permutation(len(lengths)) for _ in range(rounds)])[:count]
    size = np.asarray(lengths)[drawn]
    megabatch = np.arange(count) // (MEGABATCH * batch_size)
    by_length = drawn[np.lexsort((np.arange(count), size, megabatch))]
    return rng.permutation(by_length.reshape(num_batches, batch_size), axis=0).ravel().tolist()


def collate(items: Sequence[dict[str, Any]], pad_token_id: int, logits_to_keep: bool = False) -> dict[str, Any]:
    """Rows of one length, padded on the right: int64 tensors (batch, tokens).

    Padded conversations get an `attention_mask`. Packed ones must have none (see `Packed`): each of their padding
    tokens is at position 0, hence a conversation by itself.

    With `logits_to_keep` (an int that many models take) the model computes logits, and `labels` are given, only from
    the token before the first that is learned in any row: prompts are long, and nothing is learned from their logits.
    """
    width = max(len(item["input_ids"]) for item in items)

    def padded(key: str, value: int) -> torch.Tensor:
        return torch.tensor([item[key] + [value] * (width - len(item[key])) for item in items])

    batch: dict[str, Any] = {"input_ids": padded("input_ids", pad_token_id), "labels": padded("labels", IGNORED)}
    if logits_to_keep:
        first = int((batch["labels"] != IGNORED).any(dim=0).nonzero()[0])
        batch["logits_to_keep"] = width - max(first - 1, 0)
        batch["labels"] = batch["labels"][:, -batch["logits_to_keep"] :]
    if "position_ids" in items[0]:
        batch["position_ids"] = padded("position_ids", 0)
    else:
        batch["attention_mask"] = torch.tensor(
            [[1] * len(item["input_ids"]) + [0] * (width - len(item["input_ids"])) for item in items]
        )
    return batch
