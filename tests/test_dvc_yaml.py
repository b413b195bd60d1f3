"""dvc.yaml against the code: a stage that is not run again although its code changed is a silently wrong result."""

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest

from nethack_pipe.params import load, read_yaml
from nethack_pipe.stage import CODE
from tests.helpers.imports import closure

ROOT = Path(__file__).parents[1]
DOCUMENT = read_yaml(ROOT / "dvc.yaml")
STAGES: dict[str, dict[str, Any]] = DOCUMENT["stages"]

each_stage = pytest.mark.parametrize("name", STAGES)


def path_of(entry: str | dict[str, Any]) -> str:
    return entry if isinstance(entry, str) else next(iter(entry))


def outs(name: str) -> list[str]:
    return [path_of(entry) for key in ("outs", "metrics", "plots") for entry in STAGES[name].get(key, [])]


def run_call(name: str) -> ast.Call:
    """The ``run(name, models, main)`` at the end of the stage's module."""
    tree = ast.parse((ROOT / "stages" / f"{name}.py").read_text())
    last = tree.body[-1]
    assert isinstance(last, ast.If) and isinstance(last.body[-1], ast.Expr)
    call = last.body[-1].value
    assert isinstance(call, ast.Call) and ast.unparse(call.func).endswith("run")
    return call


def test_every_stage_module_is_a_stage() -> None:
    assert {path.stem for path in ROOT.glob("stages/[!_]*.py")} == set(STAGES)


@each_stage
def test_code_deps_are_exactly_the_modules_that_the_stage_imports(name: str) -> None:
    assert [dep for dep in STAGES[name]["deps"] if dep.endswith(CODE)] == closure(ROOT, f"stages.{name}")


@each_stage
def test_data_deps_are_outputs_of_other_stages(name: str) -> None:
    made = {out for other in STAGES if other != name for out in outs(other)}
    assert {dep for dep in STAGES[name]["deps"] if not dep.endswith(CODE)} <= made


@each_stage
def test_the_stage_runs_as_a_module_under_its_name_and_says_what_it_does(name: str) -> None:
    # As a module from the repository root DVC's snapshots (--temp, --queue) run their own code, not the workspace's.
    assert STAGES[name]["cmd"] == f"python -m stages.{name}"
    assert ast.literal_eval(run_call(name).args[0]) == name
    assert len(STAGES[name]["desc"]) > 20


@each_stage
def test_params_are_the_sections_that_the_stage_reads_and_the_committed_values_are_good(name: str) -> None:
    models = run_call(name).args[1]
    assert isinstance(models, ast.Dict)
    module = importlib.import_module(f"stages.{name}")
    pairs = zip(models.keys, models.values, strict=True)
    read = {ast.unparse(key).strip("'"): getattr(module, ast.unparse(model)) for key, model in pairs if key}
    assert STAGES[name]["params"] == list(read)
    assert set(load(ROOT / "params.yaml", read)) == set(read)


@each_stage
def test_outputs_leave_the_run_cache_on_and_metrics_in_git(name: str) -> None:
    for entry in STAGES[name].get("outs", []):
        assert isinstance(entry, str), "options such as cache: false or persist switch off DVC's run cache"
    assert STAGES[name]["metrics"] == [{f"metrics/{name}.json": {"cache": False}}]
    assert "plots" not in STAGES[name], "drawn twice beside the top-level plots"


def test_every_curve_is_drawn_and_every_plot_has_its_file() -> None:
    drawn = {file for plot in DOCUMENT["plots"] for options in plot.values() for file in options["y"]}
    assert drawn == {out for name in STAGES for out in outs(name) if out.endswith(".csv")}


def test_lists_are_blocks_in_order() -> None:
    # `dvc freeze` and `dvc stage add` rewrite the file so; long flow lists would be wrapped.
    text = (ROOT / "dvc.yaml").read_text()
    assert all(f"{key}: [" not in text for key in ("deps", "outs", "params", "metrics"))
    for name, stage in STAGES.items():
        assert stage["deps"] == sorted(stage["deps"]), name


def test_the_closure_sees_all_ways_to_import(tmp_path: Path) -> None:
    files = {
        "nethack_pipe/__init__.py": "",
        "nethack_pipe/room/__init__.py": "X = 1",
        "nethack_pipe/a.py": "import nethack_pipe.b",
        "nethack_pipe/b.py": "def f():\n    from .room import c",
        "nethack_pipe/room/c.py": "from . import d\nfrom ..e import name",
        "nethack_pipe/room/d.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nethack_pipe.unused",
        "nethack_pipe/e.py": "import importlib\nimportlib.import_module('nethack_pipe.f')\nname = 1",
        "nethack_pipe/f.py": "import numpy\nbuild.library('g')\nrender('h.html.j2')",
        "nethack_pipe/native/g.c": "int g;",
        "nethack_pipe/h.html.j2": "h",
        "nethack_pipe/unused.py": "1",
        "stages/__init__.py": "",
        "stages/x.py": "from nethack_pipe import a",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    left_out = {"nethack_pipe/__init__.py", "stages/__init__.py", "nethack_pipe/unused.py"}
    assert closure(tmp_path, "stages.x") == sorted(files.keys() - left_out)
