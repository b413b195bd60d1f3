"""Stage `sft`: fine-tune a language model with LoRA to tell what an action changes."""

from typing import Literal, Self

from pydantic import Field, model_validator

from nethack_pipe.params import ParamError, Section
from nethack_pipe.stage import BaseParams, Stage, StageError, run


class SftParams(Section):
    """Section `sft`; params.yaml says what each key means."""

    base_model: str = Field(min_length=1)
    lora_rank: int = Field(gt=0)
    lora_alpha: float = Field(gt=0)
    lora_dropout: float = Field(ge=0, lt=1)
    target_modules: list[str] = Field(min_length=1)
    max_seq_length: int = Field(ge=64)
    packing: bool
    max_steps: int | None = Field(gt=0)
    num_epochs: float | None = Field(gt=0)
    batch_size: int = Field(gt=0)
    gradient_accumulation: int = Field(gt=0)
    num_processes: int = Field(gt=0)
    learning_rate: float = Field(gt=0, lt=1)
    final_learning_rate: float = Field(ge=0, le=1)
    warmup: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0, lt=1)
    max_grad_norm: float = Field(gt=0)
    gradient_checkpointing: bool
    device: Literal["cpu", "cuda"]
    precision: Literal["float32", "bfloat16"]
    logging_steps: int = Field(gt=0)
    eval_steps: int = Field(gt=0)
    held_out_examples: int = Field(gt=0)
    save_steps: int = Field(gt=0)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.max_steps is None) == (self.num_epochs is None):
            raise ValueError("max_steps: expected exactly one of max_steps and num_epochs, the other null")
        if self.max_steps is not None and self.logging_steps > self.max_steps:
            raise ValueError(f"logging_steps: expected at most max_steps ({self.max_steps}), got {self.logging_steps}")
        if self.precision == "bfloat16" and self.device == "cpu":
            raise ValueError("precision: expected 'float32' where device is 'cpu', got 'bfloat16'")
        for key in ("eval_steps", "save_steps"):
            if getattr(self, key) % self.logging_steps:
                raise ValueError(
                    f"{key}: expected a multiple of logging_steps ({self.logging_steps}), got {getattr(self, key)}"
                )
        return self


def main(stage: Stage) -> None:
    """Train as `base` and `sft` say; write models/sft, metrics/sft.json, plots/sft_loss.csv."""
    import subprocess

    import torch

    from nethack_pipe import seeds
    from nethack_pipe.forward_model import training
    from nethack_pipe.forward_model.train import Job, fine_tune

    params: SftParams = stage.params["sft"]
    if params.device == "cuda" and torch.cuda.device_count() < params.num_processes:
        found = f"PyTorch finds {torch.cuda.device_count()} GPUs here and num_processes is {params.num_processes}"
        raise ParamError([f"params.yaml: sft.device: expected 'cpu', since {found}, got 'cuda'"])
    settings = training.Settings(
        seed=seeds.integer(stage.seed, "sft"),
        answer_only=True,
        **params.model_dump(include=set(training.Settings.__dataclass_fields__)),
    )
    tables = ["data/rollouts", "data/counterfactuals"]
    for table in tables:
        stage.input(table)
    if params.base_model == "models/base":
        stage.input(params.base_model)
    job = Job(
        base_model=params.base_model,
        tables=tables,
        held_out_examples=params.held_out_examples,
        lora={
            "rank": params.lora_rank,
            "alpha": params.lora_alpha,
            "dropout": params.lora_dropout,
            "target_modules": params.target_modules,
        },
        settings=settings,
        scratch=str(stage.scratch),
        output=str(stage.output("models/sft")),
    )
    try:
        fit = fine_tune(job)
    except OSError as error:
        raise StageError(f"sft.base_model: {params.base_model} cannot be loaded: {error}") from error
    except (ValueError, training.TrainingError) as error:
        raise StageError(f"sft: {error}") from error
    except subprocess.CalledProcessError as error:
        raise StageError(f"sft: a process of torchrun failed (exit code {error.returncode}); see above") from error
    stage.write_metrics(fit.metrics)
    stage.write_curve("loss", fit.curve)


if __name__ == "__main__":
    run("sft", {"base": BaseParams, "sft": SftParams}, main)
