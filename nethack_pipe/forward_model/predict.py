"""Greedy answers of a causal language model, many at a time."""

from collections.abc import Sequence
from typing import Any

import torch

from nethack_pipe.forward_model.adapter import pad_token_id
from nethack_pipe.forward_model.conversations import encode

ANSWER_ROOM = 32  # tokens that an answer may need


@torch.inference_mode()
def predict(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    batch_size: int = 64,
    max_new_tokens: int = 96,
    max_length: int | None = None,
) -> list[str]:
    """The most likely answer to each prompt, token by token, up to the end token.

    Prompts of like length share a batch, padded on the left. Equal prompts are answered once. The batches depend on
    the prompts given alone, so that the same call gives the same answers.

    Args:
        model: a causal language model in evaluation mode.
        tokenizer: its tokenizer, with a chat template.
        prompts: texts that end in ``=>``.
        batch_size: prompts at a time.
        max_new_tokens: an answer that is longer is cut off there.
        max_length: tokens of a conversation in training: a prompt that leaves no room for an answer in it loses its
            beginning, as it did there.

    Returns:
        the answers, in the order of `prompts`, without special tokens.
    """
    distinct = list(dict.fromkeys(prompts))
    longest = None if max_length is None else max(1, max_length - ANSWER_ROOM)
    encoded = [item.input_ids[-longest:] if longest else item.input_ids for item in encode(tokenizer, distinct)]
    order = sorted(range(len(distinct)), key=lambda index: len(encoded[index]))
    padding = pad_token_id(tokenizer)
    answers: dict[str, str] = {}
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        width = max(len(encoded[row]) for row in rows)
        ids = torch.full((len(rows), width), padding)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, width - len(encoded[row]) :] = torch.tensor(encoded[row])
            mask[i, width - len(encoded[row]) :] = 1
        generated = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=max_new_tokens,
            do_sample=False,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=padding,
        )
        texts = tokenizer.batch_decode(generated[:, width:], skip_special_tokens=True)
        answers |= {distinct[row]: text for row, text in zip(rows, texts, strict=True)}
    return [answers[prompt] for prompt in prompts]
