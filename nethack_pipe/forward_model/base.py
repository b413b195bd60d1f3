"""The default base model: a small tokenizer and a small Llama, made from the text of the training games alone.

Architecture and sizes: a pretrained model of 135 million parameters learns under one example a second on two cores,
this one about a hundred. The result is an ordinary transformers folder.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from nethack_pipe.forward_model.conversations import Example

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
# No token crosses the border of these pieces: a field of an answer with its value (" | hp:-1"), a key ("msg:"), a
# number, a word or a pair of direction and tile with the blank before it (" ne=."), a line's end, blanks.
# With them an answer is a dozen tokens, one a field, and a tile is never merged with its neighbours.
PIECES = r"(?: \| )?[a-z]+:(?:[^\sA-Z\d]\S*)?| ?[^\s\d]+|\d+|\n|[^\S\n]+"


def train_tokenizer(
    examples: Sequence[Example], vocab_size: int, max_seq_length: int
) -> transformers.PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of `vocab_size` tokens within `PIECES`, with chat roles and `CHAT_TEMPLATE`.

    Every byte is a token, so that any text can be read and written.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, END, *ROLES],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((part for e in examples for part in (e.prompt, e.target)), trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
        model_max_length=max_seq_length,
        clean_up_tokenization_spaces=False,
    )


def new_model(
    tokenizer: Any,
    seed: int,
    *,
    hidden_size: int,
    feed_forward_size: int,
    num_layers: int,
    num_heads: int,
    max_seq_length: int,
) -> transformers.LlamaForCausalLM:
    """An untrained Llama whose input and output embeddings are one matrix."""
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden_size,
            intermediate_size=feed_forward_size,
            num_hidden_layers=num_layers,
            num_attention_heads=num_heads,
            max_position_embeddings=max_seq_length,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def save_base(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write model (safetensors), configuration and tokenizer as `from_pretrained` wants them."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
