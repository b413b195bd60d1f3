"""A small pipeline of two stages on the real floor (params, artifacts, stage runner) and the real DVC settings.

`make` writes numbered rows, `train` counts steps with a checkpoint at each and can be told to pause at one.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[2]

PARAMS = """\
base:
  seed: 1
  portable_math: true
make:
  rows: 3
train:
  steps: 4
  rate: 1e-05
"""

DVC_YAML = """\
stages:
  make:
    desc: Write numbered rows
    cmd: python -m stages.make
    deps:
    - stages/make.py
    params:
    - base
    - make
    outs:
    - data/rows
  train:
    desc: Count steps
    cmd: python -m stages.train
    deps:
    - data/rows
    - stages/train.py
    params:
    - base
    - train
    outs:
    - models/train
    - plots/train_loss.csv
    metrics:
    - metrics/train.json:
        cache: false
plots:
- loss:
    x: step
    y:
      plots/train_loss.csv: [loss]
"""

MAKE = """\
from nethack_pipe.params import Section
from nethack_pipe.stage import BaseParams, Stage, run


class MakeParams(Section):
    rows: int


def main(stage: Stage) -> None:
    folder = stage.output("data/rows")
    for row in range(stage.params["make"].rows):
        (folder / f"{row}.txt").write_text(f"row {row}\\n")


if __name__ == "__main__":
    run("make", {"base": BaseParams, "make": MakeParams}, main)
"""

TRAIN = """\
import os
import time

from pydantic import Field

import nethack_pipe.stage
from nethack_pipe.params import Section
from nethack_pipe.stage import BaseParams, Stage, run


class TrainParams(Section):
    steps: int = Field(gt=0)
    rate: float = Field(gt=0)


def main(stage: Stage) -> None:
    params = stage.params["train"]
    rows = len(list(stage.input("data/rows").glob("*.txt")))
    step_file = stage.scratch / "step"
    start = int(step_file.read_text()) if step_file.exists() else 0
    print("start at", start, "code", __file__, nethack_pipe.stage.__file__, flush=True)
    for step in range(start, params.steps):
        step_file.write_text(str(step))
        while os.environ.get("TOY_PAUSE") == str(step) and not os.path.exists(os.environ["TOY_GO"]):
            time.sleep(0.05)
    (stage.output("models/train") / "model.txt").write_text(f"{params.steps} steps on {rows} rows at {params.rate}\\n")
    stage.write_metrics({"steps": params.steps, "loss": 1 / 3})
    stage.write_curve("loss", [{"step": step, "loss": 1 / (step + 1)} for step in range(params.steps)])


if __name__ == "__main__":
    run("train", {"base": BaseParams, "train": TrainParams}, main)
"""

SETTINGS = (
    ".gitignore", ".gitattributes", ".dvcignore", ".dvc/.gitignore", ".dvc/config", ".dvc/plots/offline.html",
)  # fmt: skip


class Toy:
    """A copy of the project at `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._started: list[subprocess.Popen[str]] = []

    @classmethod
    def create(cls, root: Path) -> "Toy":
        """The project, committed, never run."""
        toy = cls(root)
        floor = {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.glob("nethack_pipe/*.py")}
        settings = {name: (ROOT / name).read_text() for name in SETTINGS}
        toy.write(floor | settings | {"stages/__init__.py": "", "stages/make.py": MAKE, "stages/train.py": TRAIN})
        toy.write({"dvc.yaml": DVC_YAML, "params.yaml": PARAMS})
        toy.git("init", "-q", "-b", "main")
        toy.commit()
        return toy

    def copy(self, root: Path) -> "Toy":
        shutil.copytree(self.root, root, symlinks=True)
        return Toy(root)

    def clone(self, root: Path) -> "Toy":
        subprocess.run(["git", "clone", "-q", str(self.root), str(root)], check=True)
        return Toy(root)

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def replace(self, name: str, old: str, new: str) -> None:
        """An editor at work: `old`, which is in file `name`, becomes `new`."""
        text = self.read(name)
        assert old in text
        self.write({name: text.replace(old, new)})

    def outputs(self) -> dict[str, str]:
        """Every file under the output folders."""
        files = [path for name in ("data", "models", "plots", "metrics") for path in (self.root / name).rglob("*")]
        return {str(path.relative_to(self.root)): path.read_text() for path in files if path.is_file()}

    def git(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        names = ["-c", "user.name=Toy", "-c", "user.email=toy@example.org"]
        command = ["git", *names, *arguments]
        return subprocess.run(command, cwd=self.root, check=check, capture_output=True, text=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "state")

    def start(self, *command: str, stdout: int | TextIO = subprocess.PIPE, **variables: str) -> "subprocess.Popen[str]":
        """Start `command` (``dvc ...`` or ``python ...``) in a process group of its own, output and errors together."""
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / command[0]), *command[1:]],
            cwd=self.root,
            env=self._environment() | variables,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def run(self, *command: str, code: int = 0, **variables: str) -> str:
        """Run `command`, check its exit code, and return what it printed."""
        process = self.start(*command, **variables)
        output = output_of(process)
        assert process.returncode == code, f"{command} ended with {process.returncode}:\n{output}"
        return output

    def pause_at(self, step: int, *command: str, **variables: str) -> "subprocess.Popen[str]":
        """Start `command` and return when its train stage waits at `step`, for `go` or for its end."""
        process = self.start(*command, TOY_PAUSE=str(step), TOY_GO=str(self.root / "go"), **variables)

        def there() -> bool:
            assert process.poll() is None, output_of(process)
            return any(path.read_text() == str(step) for path in self.root.glob(".scratch/train-*/step"))

        wait_for(there)
        return process

    def kill_all(self) -> None:
        """End what a failed test has left running."""
        for process in self._started:
            if process.poll() is None:
                kill_group(process)

    def go(self) -> None:
        (self.root / "go").touch()

    def _environment(self) -> dict[str, str]:
        hidden = ("DVC_", "GIT_", "NETHACK_PIPE_", "PYTHONDONTWRITEBYTECODE", "PYTHONSAFEPATH")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def wait_for(what: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def output_of(process: "subprocess.Popen[str]", seconds: float = 120) -> str:
    """All that `process` prints until it ends; it and what it started are killed if it does not."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise AssertionError(f"not ended:\n{process.communicate()[0]}") from None


def kill_group(process: "subprocess.Popen[str]", signum: int = signal.SIGKILL) -> None:
    """What a terminal does for Ctrl-C: the signal goes to the whole process group. One that is gone does not mind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signum)
