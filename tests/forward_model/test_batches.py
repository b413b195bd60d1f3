import numpy as np
import torch

from nethack_pipe.forward_model.batches import IGNORED, Conversations, Packed, batch_order, collate
from nethack_pipe.forward_model.conversations import Encoded

ITEMS = [Encoded([5, 6, 7, 8], 2, False), Encoded([9, 10], 1, False), Encoded([11, 12, 13], 2, False)]


def test_padding_is_masked_and_not_learned() -> None:
    rows = Conversations(ITEMS, answer_only=True)
    batch = collate([rows[0], rows[1]], pad_token_id=0)
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8], [9, 10, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert batch["labels"].tolist() == [[IGNORED, IGNORED, 7, 8], [IGNORED, 10, IGNORED, IGNORED]]


def test_logits_begin_before_the_first_learned_token() -> None:
    rows = Conversations(ITEMS, answer_only=True)
    batch = collate([rows[0], rows[2]], pad_token_id=0, logits_to_keep=True)
    assert batch["logits_to_keep"] == 3
    assert batch["labels"].tolist() == [[IGNORED, 7, 8], [IGNORED, 13, IGNORED]]
    assert batch["input_ids"].shape == (2, 4)
    everything = collate([Conversations(ITEMS, answer_only=False)[0]], pad_token_id=0, logits_to_keep=True)
    assert (everything["logits_to_keep"], everything["labels"].tolist()) == (4, [[5, 6, 7, 8]])


def test_packed_rows_keep_conversations_apart_by_their_positions() -> None:
    packed = Packed(Conversations(ITEMS, answer_only=False), max_length=6)
    assert [row["input_ids"] for row in (packed[0], packed[1])] == [[5, 6, 7, 8, 9, 10], [11, 12, 13]]
    batch = collate([packed[0], packed[1]], pad_token_id=0)
    assert batch["position_ids"].tolist() == [[0, 1, 2, 3, 0, 1], [0, 1, 2, 0, 0, 0]]
    assert batch["labels"].tolist() == [[IGNORED, 6, 7, 8, IGNORED, 10], [IGNORED, 12, 13, *[IGNORED] * 3]]
    assert "attention_mask" not in batch
    assert batch["input_ids"].dtype == torch.int64


def test_every_item_is_drawn_once_before_one_is_drawn_again() -> None:
    order = batch_order([3] * 10, 4, 5, np.random.default_rng(0))
    assert np.bincount(order, minlength=10).tolist() == [2] * 10
    assert order == batch_order([3] * 10, 4, 5, np.random.default_rng(0)) != list(range(10)) * 2


def test_like_lengths_share_a_batch_and_batches_come_in_any_order() -> None:
    lengths = np.random.default_rng(1).integers(10, 100, 400)
    batches = lengths[np.array(batch_order(lengths.tolist(), 8, 50, np.random.default_rng(2)))].reshape(50, 8)
    assert np.ptp(batches, axis=1).mean() < 4
    longest = batches.max(axis=1)
    assert abs(np.corrcoef(longest, np.arange(50))[0, 1]) < 0.4
