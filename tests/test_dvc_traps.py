"""DVC's ways to record a silently wrong result or to lose a right one, each closed; real DVC on the toy pipeline."""

import os
import re
import shutil
import signal
from pathlib import Path

import psutil

from tests.helpers.toy import Toy, kill_group, output_of, wait_for


def test_wrong_parameters_are_one_line_and_cost_nothing(toy: Toy) -> None:
    before = toy.outputs()
    output = toy.run("dvc", "exp", "run", "-S", "train.steps=abc", code=255)
    assert "params.yaml: train.steps: expected an integer greater than 0, got 'abc'\n" in output
    assert "Traceback" not in output
    assert toy.outputs() == before and "models/train/model.txt" in before and "metrics/train.json" in before
    toy.git("checkout", "params.yaml")
    assert "up to date" in toy.run("dvc", "status")


def test_going_back_to_old_parameters_runs_nothing_and_plots_need_no_network(toy: Toy) -> None:
    before = toy.outputs()
    toy.run("dvc", "exp", "run", "-S", "train.steps=6")
    assert toy.outputs()["plots/train_loss.csv"].endswith("5,0.166667\n")
    toy.run("dvc", "plots", "diff", "HEAD")
    page = toy.read("dvc_plots/index.html")
    assert '"step": "5", "loss": "0.166667"' in page and "vegaEmbed=" in page
    assert "<script src" not in page and '<script type="text/javascript" src' not in page
    toy.git("checkout", "params.yaml")
    assert "start at" not in toy.run("dvc", "repro")
    assert toy.outputs() == before


def test_an_edit_while_a_stage_runs_is_not_recorded_as_what_made_the_result(toy: Toy) -> None:
    lock, before = toy.read("dvc.lock"), toy.outputs()
    toy.replace("params.yaml", "rate: 1e-05", "rate: 2e-05")
    repro = toy.pause_at(1, "dvc", "repro")
    toy.replace("params.yaml", "steps: 4", "steps: 5")
    toy.replace("stages/train.py", "import time", "import time  # edited")
    toy.go()
    output = output_of(repro, 30)
    assert "params.yaml: train.steps changed 4 -> 5 while the stage ran; nothing was recorded; run again" in output
    assert "stages/train.py changed while the stage ran; nothing was recorded; run again" in output
    assert "exited with 3" in output and repro.returncode == 255
    assert toy.read("dvc.lock") == lock
    assert toy.outputs() == before


def test_ctrl_c_records_nothing_and_the_next_run_resumes(toy: Toy, finished_toy: Toy) -> None:
    lock, before = toy.read("dvc.lock"), toy.outputs()
    repro = toy.pause_at(2, "dvc", "repro", "-f", "-s", "train")
    kill_group(repro, signal.SIGINT)
    output = output_of(repro, 30)
    # A shell that waits for the stage, as dash does, dies of the signal; one that becomes the stage ends as it does.
    assert re.search(r"exited with (130|-2)\b", output) and repro.returncode == 255
    assert toy.read("dvc.lock") == lock
    assert toy.outputs() == before
    assert "start at 2" in toy.run("dvc", "repro", "-f", "-s", "train")
    assert toy.outputs() == finished_toy.outputs()
    assert not list(toy.root.glob(".scratch/*")), "a finished run leaves no scratch: `dvc repro -f` really runs again"


def test_after_kill_9_of_dvc_the_orphan_stops_and_the_next_run_resumes(toy: Toy, finished_toy: Toy) -> None:
    repro = toy.pause_at(1, "dvc", "repro", "-f", "-s", "train")
    stage = psutil.Process(int(toy.read(".scratch/train.lock")))
    os.kill(repro.pid, signal.SIGKILL)
    repro.wait()
    output = toy.run("dvc", "repro", "-f", "-s", "train")  # at once: it waits for the orphan, which is just ending
    assert "start at 1" in output
    assert not stage.is_running() or stage.status() == psutil.STATUS_ZOMBIE
    assert toy.outputs() == finished_toy.outputs()


def test_a_second_writer_is_refused_and_says_who_the_first_is(toy: Toy) -> None:
    before = toy.outputs()
    first = toy.pause_at(0, "python", "-m", "stages.train")
    output = toy.run("dvc", "repro", "-f", "-s", "train", code=255)
    assert f"another train run, pid {first.pid}, is writing the outputs of train" in output
    assert toy.outputs() == before
    toy.go()
    assert first.wait(20) == 0
    assert toy.outputs() == before


def test_temp_runs_use_the_snapshots_code_and_the_workspaces_scratch(toy: Toy) -> None:
    command = ("dvc", "exp", "run", "--temp", "-S", "train.steps=6")
    first = toy.pause_at(2, *command)
    kill_group(first)
    first.communicate()
    output = toy.run(*command)
    assert "start at 2" in output
    code, floor = output[output.index(" code ") + 6 :].split()[:2]
    snapshots = str(toy.root / ".dvc" / "tmp" / "exps")
    assert code.startswith(snapshots) and floor.startswith(snapshots)


def test_queued_runs_use_the_snapshots_code(toy: Toy) -> None:
    toy.run("dvc", "exp", "run", "--queue", "--name", "six", "-S", "train.steps=6")
    toy.replace("stages/train.py", '"start at"', '"EDITED AFTER QUEUEING"')
    with (toy.root / ".dvc/tmp/start").open("w") as output:  # a pipe would stay open as long as the worker idles
        toy.start("dvc", "queue", "start", stdout=output).wait(60)
    wait_for(lambda: "/six" in toy.git("show-ref").stdout, 60)
    os.kill(int(toy.read(".dvc/tmp/exps/celery/dvc-exp-worker-1.pid")), signal.SIGKILL)
    output_of_run = toy.run("dvc", "queue", "logs", "six")
    assert f"start at 0 code {toy.root}/.dvc/tmp/exps/" in output_of_run


def test_damaged_objects_are_noticed_and_a_clone_runs_nothing(toy: Toy, tmp_path: Path) -> None:
    toy.run("dvc", "push")
    clone = toy.clone(tmp_path / "clone" / "toy")
    (tmp_path / "nethack-pipe-storage").rename(tmp_path / "clone" / "nethack-pipe-storage")
    remote = tmp_path / "clone" / "nethack-pipe-storage" / "files" / "md5"
    damaged = next(path for path in remote.rglob("*") if path.is_file() and path.read_text() == "row 1\n")
    damaged.chmod(0o644)
    damaged.write_text("row 7\n")
    clone.run("dvc", "pull", code=1)
    assert not (clone.root / "data/rows/1.txt").exists(), "verify = true must be on in .dvc/config"

    damaged.write_text("row 1\n")
    clone.run("dvc", "pull")
    assert "start at" not in clone.run("dvc", "repro")

    # The metrics of a clone are not in its cache: a refused run takes them from git.
    before = clone.outputs()
    clone.run("dvc", "exp", "run", "-S", "train.steps=0", code=255)
    assert clone.outputs() == before

    # DVC does not look into its cache again: what rotted there comes out as if it were good.
    clone.git("checkout", "params.yaml")
    cache = clone.root / ".dvc" / "cache"
    rotten = next(path for path in cache.rglob("*") if path.is_file() and path.read_text() == "row 1\n")
    rotten.chmod(0o644)
    rotten.write_text("row 7\n")
    rotten.chmod(0o444)
    shutil.rmtree(clone.root / "data" / "rows")
    clone.run("dvc", "checkout")
    assert clone.read("data/rows/1.txt") == "row 7\n"
    output = clone.run("python", "-m", "stages.train", code=1)
    assert "data/rows/1.txt: damaged or edited" in output and "Traceback" not in output


def test_generated_files_do_not_change_a_folders_hash(toy: Toy) -> None:
    ignored = [
        "nethack_pipe/__pycache__/x",
        "nethack_pipe/x.pyc",
        ".scratch/train-0/x",
        "models/.train.partial/model.txt",
    ]
    assert toy.run("dvc", "check-ignore", *ignored).split() == ignored
    assert toy.git("check-ignore", *ignored).stdout.split() == ignored


def test_a_merge_of_two_lock_files_is_always_a_conflict(toy: Toy) -> None:
    old = toy.read("dvc.lock")
    toy.git("checkout", "-q", "-b", "one")
    toy.write({"dvc.lock": old.replace("rows: 3", "rows: 4")})
    toy.commit()
    toy.git("checkout", "-q", "main")
    toy.write({"dvc.lock": old.replace("steps: 4", "steps: 5")})
    toy.commit()
    merge = toy.git("merge", "one", check=False)
    assert merge.returncode == 1 and "CONFLICT (content): Merge conflict in dvc.lock" in merge.stdout
