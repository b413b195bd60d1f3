"""The stage runner without DVC: what it writes, when it refuses, what it resumes, how it ends."""

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nethack_pipe import portable
from tests.helpers.toy import Toy, output_of, wait_for

TRAIN = ("python", "-m", "stages.train")


def test_the_same_bytes_in_another_folder(toy: Toy, finished_toy: Toy) -> None:
    for name in ("make", "train"):
        toy.run("python", "-m", f"stages.{name}")
    outputs = toy.outputs()
    assert outputs == finished_toy.outputs()
    assert outputs["metrics/train.json"] == '{\n  "train": {\n    "loss": 0.333333,\n    "steps": 4\n  }\n}\n'
    assert outputs["plots/train_loss.csv"] == "step,loss\n0,1.0\n1,0.5\n2,0.333333\n3,0.25\n"
    assert outputs["models/train/model.txt"] == "4 steps on 3 rows at 1e-05\n"


@pytest.mark.parametrize("portable_math", [True, False])
def test_main_runs_in_the_environment_of_portable_math(toy: Toy, portable_math: bool) -> None:
    toy.replace("params.yaml", "portable_math: true", f"portable_math: {str(portable_math).lower()}")
    show = "import os, sys; print(sorted(os.environ.items()), sys.flags.hash_randomization, 'torch' in sys.modules)"
    toy.replace(
        "stages/train.py", '    params = stage.params["train"]\n', f'    params = stage.params["train"]\n    {show}\n'
    )
    output = toy.run(*TRAIN)
    expected = portable.ALWAYS | (portable.PORTABLE_MATH if portable_math else {})
    assert portable.environment(portable_math) == expected or platform.machine() != "x86_64"
    for name, value in portable.environment(portable_math).items():
        assert f"({name!r}, {value!r})" in output
    assert ("MKL_CBWR" in output) == (portable_math and platform.machine() == "x86_64")
    assert "] 0 False" in output, "PYTHONHASHSEED works only if it is set before Python starts"


def interrupt_at(step: int, toy: Toy) -> None:
    process = toy.pause_at(step, *TRAIN)
    process.kill()
    process.communicate()


def test_the_very_same_work_is_resumed(toy: Toy, finished_toy: Toy) -> None:
    interrupt_at(2, toy)
    assert "start at 2" in toy.run(*TRAIN)
    assert toy.outputs() == finished_toy.outputs()
    assert "start at 0" in toy.run(*TRAIN), "after success nothing is left to resume"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("params.yaml", "rate: 1e-05", "rate: 1e-04"),
        ("params.yaml", "seed: 1", "seed: 2"),
        ("stages/train.py", "import time", "import time  # edited"),
        ("params.yaml", "rows: 3", "rows: 2"),
    ],
)
def test_changed_parameters_code_or_data_never_resume_the_old_checkpoint(
    toy: Toy, name: str, old: str, new: str
) -> None:
    interrupt_at(2, toy)
    toy.replace(name, old, new)
    if "rows" in old:
        toy.run("python", "-m", "stages.make")
    assert "start at 0" in toy.run(*TRAIN)


def test_nothing_of_an_earlier_output_or_of_a_killed_run_survives(toy: Toy) -> None:
    (toy.root / "models/train/stale.txt").touch()
    (toy.root / "models/.train.partial").mkdir()
    (toy.root / "models/.train.partial/half.txt").touch()
    (toy.root / "metrics/.train.partial.json").touch()
    toy.run(*TRAIN)
    assert sorted(path.name for path in (toy.root / "models/train").iterdir()) == ["manifest.json", "model.txt"]
    assert sorted(path.name for path in (toy.root / "models").iterdir()) == [".gitignore", "train"]
    assert [path.name for path in (toy.root / "metrics").iterdir()] == ["train.json"]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ('raise RuntimeError("broken")', 1, "RuntimeError: broken"),
        ("raise SystemExit(0)", 1, ""),
        ("raise SystemExit(9)", 9, ""),
        ("raise KeyboardInterrupt", 130, "train: interrupted"),
        ('stage.input("data/other")', 1, "dvc.yaml: train: data/other is read but not among deps\n"),
        ('stage.output("data/other")', 1, "dvc.yaml: train: data/other is written but not among outs"),
        ("return", 1, "dvc.yaml: train: plots/train_loss.csv, metrics/train.json declared but not written\n"),
        ('stage.write_metrics({"loss": float("nan")})', 1, "ValueError: loss: nan is no number to record"),
    ],
)
def test_a_main_that_fails_leaves_everything_as_it_was(toy: Toy, line: str, code: int, message: str) -> None:
    before = toy.outputs()
    toy.replace("stages/train.py", "    stage.write_metrics", f"    {line}\n    stage.write_metrics")
    output = toy.run(*TRAIN, code=code)
    assert message in output
    assert ("Traceback" in output) == ("Error:" in message)
    assert toy.outputs() == before


def test_sections_that_dvc_does_not_watch_are_refused(toy: Toy) -> None:
    toy.replace("dvc.yaml", "    - train\n    outs", "    outs")
    output = toy.run(*TRAIN, code=1)
    assert "dvc.yaml: train: params lists ['base'], the stage reads ['base', 'train']" in output


SAVE = "print('saving', flush=True); time.sleep(0.5); print('saved'); raise"


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ([signal.SIGTERM], 143),
        ([signal.SIGHUP], 129),
        ([signal.SIGINT], 130),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], 130),
        ([signal.SIGTERM, signal.SIGTERM], 143),
    ],
)
def test_the_first_signal_lets_main_save_and_the_next_does_not_disturb_it(
    toy: Toy, signals: list[int], code: int
) -> None:
    toy.replace("stages/train.py", "    for step in", "    try:\n      for step in")
    toy.replace("stages/train.py", "    (stage.output", f"    except BaseException:\n        {SAVE}\n    (stage.output")
    before = toy.outputs()
    inherited = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # who runs the tests may have it ignored, as nohup does
    process = toy.pause_at(0, *TRAIN)
    signal.signal(signal.SIGHUP, inherited)
    process.send_signal(signals[0])
    assert process.stdout is not None
    assert "saving\n" in iter(process.stdout.readline, "")
    for signum in signals[1:]:
        process.send_signal(signum)
    output = output_of(process, 20)
    assert process.returncode == code and "saved" in output
    assert toy.outputs() == before


def test_a_stage_whose_dvc_is_gone_ends_even_if_it_does_not_want_to(toy: Toy) -> None:
    """The shell stands for DVC: the parent of the stage without DVC_STAGE in its environment."""
    toy.replace("nethack_pipe/guard.py", "ORPHAN_PATIENCE = 60.0", "ORPHAN_PATIENCE = 1.0")
    toy.replace("stages/train.py", "import time\n", "import time, signal\n")
    toy.replace("stages/train.py", "    rows =", "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    rows =")
    shell = subprocess.Popen(
        ["sh", "-c", f"DVC_STAGE=train {sys.executable} -m stages.train & wait"],
        cwd=toy.root,
        env={name: value for name, value in os.environ.items() if not name.startswith("DVC_")}
        | {"TOY_PAUSE": "0", "TOY_GO": str(toy.root / "go")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: list(toy.root.glob(".scratch/train-*/step")))
    stage = psutil.Process(int(toy.read(".scratch/train.lock")))
    shell.kill()
    shell.wait()
    time.sleep(0.5)
    assert stage.is_running() and stage.status() != psutil.STATUS_ZOMBIE
    wait_for(lambda: not stage.is_running() or stage.status() == psutil.STATUS_ZOMBIE, 5)


def test_scratch_goes_where_it_is_told_and_old_scratch_is_removed(toy: Toy, tmp_path: Path) -> None:
    old = tmp_path / "scratch" / "train-0123456789abcdef"
    other = tmp_path / "scratch" / "make-0123456789abcdef"
    young = tmp_path / "scratch" / "train-0123456789abcdee"
    for folder, days in ((old, 15), (other, 15), (young, 13)):
        folder.mkdir(parents=True)
        os.utime(folder, times=(time.time() - days * 86400,) * 2)
    toy.replace("stages/train.py", "    params = stage", "    print('scratch', stage.scratch)\n    params = stage")
    output = toy.run(*TRAIN, NETHACK_PIPE_SCRATCH=str(tmp_path / "scratch"))
    assert f"scratch {tmp_path}/scratch/train-" in output
    assert sorted(path.name for path in (tmp_path / "scratch").iterdir()) == [other.name, young.name]


def test_the_same_work_in_two_copies_of_the_repository_does_not_share_its_scratch_at_once(
    toy: Toy, tmp_path: Path
) -> None:
    other = toy.copy(tmp_path / "other")
    scratch = str(toy.root / ".scratch")
    first = toy.pause_at(0, *TRAIN)
    output = other.run(*TRAIN, code=1, NETHACK_PIPE_SCRATCH=scratch)
    assert f"another train run with the same parameters, pid {first.pid}, is writing {scratch}/train-" in output
    first.send_signal(signal.SIGINT)
    assert first.wait(20) == 130
