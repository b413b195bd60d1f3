"""Fine-tuning of the forward model: one job, in this process or in several under torchrun.

Everything a job needs is in one JSON file, since torchrun starts processes of its own:

    torchrun --standalone --nproc-per-node 2 -m nethack_pipe.forward_model.train job.json
"""

import dataclasses
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nethack_pipe.forward_model import adapter, training
from nethack_pipe.forward_model.conversations import encode_examples, read_examples, sample

FIT = "fit.json"
"""Name of the file, beside the job's, with what the run did."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to fine-tune on what. Paths are relative to the working directory (the repository), or absolute.

    Attributes:
        base_model: folder or hub name of the base model; the result names it so.
        tables: Parquet files or folders with transitions.
        held_out_examples: transitions of held-out games whose loss is reported.
        lora: keyword arguments of `adapter.attach_lora` (rank, alpha, dropout, target_modules).
        settings: see `training.Settings`.
        scratch: folder for checkpoints.
        output: the adapter folder to write.
    """

    base_model: str
    tables: list[str]
    held_out_examples: int
    lora: dict[str, Any]
    settings: training.Settings
    scratch: str
    output: str


def fine_tune(job: Job) -> training.Fit:
    """Run a job in as many processes as it asks for; each must be able to read all paths.

    Raises:
        subprocess.CalledProcessError: a process of several failed; its own message is above.
    """
    if job.settings.num_processes == 1:
        return run(job)
    scratch = Path(job.scratch)
    (scratch / "job.json").write_text(json.dumps(dataclasses.asdict(job)))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    processes = ["--nproc-per-node", str(job.settings.num_processes)]
    subprocess.run(
        [*torchrun, *processes, "-m", "nethack_pipe.forward_model.train", str(scratch / "job.json")], check=True
    )
    return training.Fit(**json.loads((scratch / FIT).read_text()))


def run(job: Job) -> training.Fit:
    """Train on the training games, write the adapter (the first process does), and say how it went."""
    model, tokenizer = adapter.load_base(job.base_model, job.settings.precision)
    settings = job.settings
    tables = [Path(table) for table in job.tables]
    train = sample(read_examples(tables, "train"), settings.max_conversations, settings.seed)
    held_out = sample(read_examples(tables, "held_out"), job.held_out_examples, settings.seed)
    lora = adapter.attach_lora(model, settings.seed, **job.lora)
    fit = training.fit(
        lora,
        adapter.pad_token_id(tokenizer),
        encode_examples(tokenizer, train, settings.max_seq_length),
        encode_examples(tokenizer, held_out, settings.max_seq_length),
        settings,
        Path(job.scratch),
    )
    if is_first_process():
        adapter.save_adapter(lora, Path(job.output), job.base_model, job.tables, fit.metrics)
    return fit


def is_first_process() -> bool:
    """torchrun numbers its processes; without it there is one."""
    return os.environ.get("RANK", "0") == "0"


def main() -> None:
    path = Path(sys.argv[1])
    description = json.loads(path.read_text())
    job = Job(**description | {"settings": training.Settings(**description["settings"])})
    fit = run(job)
    if is_first_process():
        (path.parent / FIT).write_text(json.dumps(dataclasses.asdict(fit)))


if __name__ == "__main__":
    main()
