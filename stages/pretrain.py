"""Stage `pretrain`: train a tokenizer and a small language model on the text of the training games."""

from typing import Self

from pydantic import Field, model_validator

from nethack_pipe.params import Section
from nethack_pipe.stage import BaseParams, Stage, run


class PretrainParams(Section):
    """Section `pretrain`; params.yaml says what each key means."""

    vocab_size: int = Field(ge=512, le=65536)
    hidden_size: int = Field(gt=0)
    feed_forward_size: int = Field(gt=0)
    num_layers: int = Field(gt=0)
    num_heads: int = Field(gt=0)
    max_seq_length: int = Field(ge=64)
    max_steps: int = Field(gt=0)
    batch_size: int = Field(gt=0)
    learning_rate: float = Field(gt=0, lt=1)
    final_learning_rate: float = Field(ge=0, le=1)
    warmup: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0, lt=1)
    max_grad_norm: float = Field(gt=0)
    logging_steps: int = Field(gt=0)
    eval_steps: int = Field(gt=0)
    held_out_examples: int = Field(gt=0)
    save_steps: int = Field(gt=0)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.hidden_size % (2 * self.num_heads):
            raise ValueError(
                f"hidden_size: expected a multiple of 2 x num_heads ({2 * self.num_heads}), got {self.hidden_size}"
            )
        if self.logging_steps > self.max_steps:
            raise ValueError(f"logging_steps: expected at most max_steps ({self.max_steps}), got {self.logging_steps}")
        for key in ("eval_steps", "save_steps"):
            if getattr(self, key) % self.logging_steps:
                raise ValueError(
                    f"{key}: expected a multiple of logging_steps ({self.logging_steps}), got {getattr(self, key)}"
                )
        return self


TOKENIZER_EXAMPLES = 8000  # transitions that the tokenizer is made from: more change it no further


def main(stage: Stage) -> None:
    """Train as `base` and `pretrain` say; write models/base, metrics/pretrain.json, plots/pretrain_loss.csv."""
    from nethack_pipe import seeds
    from nethack_pipe.forward_model import base, training
    from nethack_pipe.forward_model.conversations import encode_examples, read_examples, sample

    params: PretrainParams = stage.params["pretrain"]
    seed = seeds.integer(stage.seed, "pretrain")
    settings = training.Settings(
        seed=seed,
        answer_only=False,
        num_epochs=None,
        gradient_accumulation=1,
        **params.model_dump(include=set(training.Settings.__dataclass_fields__)),
    )
    tables = [stage.input("data/rollouts")]
    examples = read_examples(tables, "train")
    tokenizer = base.train_tokenizer(
        sample(examples, TOKENIZER_EXAMPLES, seed), params.vocab_size, params.max_seq_length
    )
    train = sample(examples, settings.max_conversations, seed)
    held_out = sample(read_examples(tables, "held_out"), params.held_out_examples, seed)
    model = base.new_model(
        tokenizer,
        seed,
        hidden_size=params.hidden_size,
        feed_forward_size=params.feed_forward_size,
        num_layers=params.num_layers,
        num_heads=params.num_heads,
        max_seq_length=params.max_seq_length,
    )
    fit = training.fit(
        model,
        tokenizer.pad_token_id,
        encode_examples(tokenizer, train, params.max_seq_length),
        encode_examples(tokenizer, held_out, params.max_seq_length),
        settings,
        stage.scratch,
    )
    base.save_base(model, tokenizer, stage.output("models/base"))
    stage.write_metrics(fit.metrics | {"vocab_size": len(tokenizer)})
    stage.write_curve("loss", fit.curve)


if __name__ == "__main__":
    run("pretrain", {"base": BaseParams, "pretrain": PretrainParams}, main)
