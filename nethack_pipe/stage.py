"""What every stage does around its own work, so that DVC never records a wrong, mixed or half-written result.

A stage module has the pydantic models of its parameters, a ``main(stage)`` that imports heavy libraries inside, and

    if __name__ == "__main__":
        run("appo", {"base": BaseParams, "appo": AppoParams}, main)

Exit codes: 0 finished, 1 an error, 2 wrong parameters, 3 parameters, code or data changed meanwhile, 130 Ctrl-C,
129 and 143 terminated. Whenever it is not 0, outputs that DVC had removed are put back as dvc.lock records them.
"""

import contextlib
import csv
import hashlib
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from nethack_pipe import artifacts, guard, params, portable
from nethack_pipe.params import ParamError, Section

SCRATCH_DAYS = 14  # how long the scratch of an unfinished run is kept


CODE = (".py", ".c", ".j2")  # how dependencies end that are code, not data


class StageError(Exception):
    """Something the user can put right; shown without a traceback."""


class Changed(StageError):
    """Parameters, code or data are no longer what the stage started with."""


class BaseParams(Section):
    """Section `base`, which all stages share."""

    seed: int = Field(ge=0, lt=2**63)
    portable_math: bool


class Stage:
    """One run of one stage. `params` has the sections by name, `root` is the repository (or DVC's copy of it).

    `scratch` is a folder for checkpoints and finished chunks that survives a kill: a run with the same parameters,
    code, data and package versions finds it again, any other gets its own. It is removed when the stage succeeds.
    """

    def __init__(self, name: str, models: Mapping[str, type[Section]], root: Path) -> None:
        self.name = name
        self.root = root
        self._models = models
        self.params: dict[str, Any] = params.load(root / "params.yaml", models)
        declared = _declaration(root, name)
        if declared["params"] != sorted(models):
            raise StageError(f"dvc.yaml: {name}: params lists {declared['params']}, the stage reads {sorted(models)}")
        self._deps = declared["deps"]
        self._outs = declared["outs"]
        self._files = self._hash_deps()
        scratch_root = os.environ.get("NETHACK_PIPE_SCRATCH") or Path(os.environ.get("DVC_ROOT", root), ".scratch")
        self.scratch = Path(scratch_root).absolute() / f"{name}-{self._key()}"
        self._outputs: dict[str, Path] = {}

    @property
    def seed(self) -> int:
        """The root seed, ``base.seed``; draw from it through `nethack_pipe.seeds`."""
        return self.params["base"].seed

    def input(self, path: str) -> Path:
        """The dependency `path`; an artifact folder only after all its files were checked against its manifest."""
        if path not in self._files:
            raise StageError(f"dvc.yaml: {self.name}: {path} is read but not among deps")
        if (self.root / path).is_dir():
            try:
                artifacts.read_manifest(Path(path), self._files[path])
            except artifacts.ArtifactError as error:
                raise StageError(
                    f"{error}. DVC's cache or the remote may hold the same damaged file: remove {path} and the file's "
                    "object there, then `dvc repro` makes it again"
                ) from None
        return self.root / path

    def output(self, path: str) -> Path:
        """Where to write output `path`: beside its place, moved there when the whole stage has succeeded.

        A new empty folder; for a name with a suffix (``x.csv``) a file that is not there yet, in a folder that is.
        """
        if path not in self._outs:
            raise StageError(f"dvc.yaml: {self.name}: {path} is written but not among outs, metrics and plots")
        partial = _partial(self.root / path)
        if path not in self._outputs:
            artifacts.remove(partial)
            (partial if partial.suffix == ".partial" else partial.parent).mkdir(parents=True, exist_ok=True)
            self._outputs[path] = partial
        return partial

    def write_metrics(self, values: Mapping[str, Any]) -> None:
        """Write metrics/<stage>.json: `values` under the stage's name, floats at 6 digits. No times belong in them."""
        artifacts.write_json(self.output(f"metrics/{self.name}.json"), {self.name: artifacts.rounded(values)})

    def write_curve(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write plots/<stage>_<name>.csv, one line a row; the first row's keys are the columns of all."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(artifacts.rounded(row) for row in rows)
        artifacts.write_bytes(self.output(f"plots/{self.name}_{name}.csv"), text.getvalue().encode())

    def check_unchanged(self) -> None:
        """Raises Changed if parameters, code or data differ from what this run read when it started.

        DVC records them as they are when a stage has ended: an edit made meanwhile would be recorded with a result that
        it did not make.
        """
        try:
            now = params.load(self.root / "params.yaml", self._models)
            files = self._hash_deps()
        except (ParamError, StageError) as error:
            raise Changed(f"{error}\nthat was not so when {self.name} started; nothing was recorded") from None
        changes = []
        for section, values in self.params.items():
            old, new = _leaves(values.model_dump(mode="json")), _leaves(now[section].model_dump(mode="json"))
            for key in sorted(old.keys() | new.keys()):
                if old.get(key) != new.get(key):
                    change = f"{json.dumps(old.get(key))} -> {json.dumps(new.get(key))}"
                    changes.append(f"params.yaml: {section}.{key} changed {change}")
        for dep, before in self._files.items():
            for name in sorted(before.keys() | files[dep].keys()):
                if before.get(name) != files[dep].get(name):
                    changes.append(f"{Path(dep, name)} changed")
        if changes:
            raise Changed("\n".join(f"{line} while the stage ran; nothing was recorded; run again" for line in changes))

    def finish(self) -> None:
        """Write the manifests, check that nothing changed meanwhile, and put all outputs in place."""
        missing = [path for path in self._outs if path not in self._outputs or not self._outputs[path].exists()]
        if missing:
            raise StageError(f"dvc.yaml: {self.name}: {', '.join(missing)} declared but not written")
        inputs = {dep: artifacts.digest(files) for dep, files in self._files.items() if not dep.endswith(CODE)}
        sections = {name: values.model_dump(mode="json") for name, values in self.params.items()}
        for partial in self._outputs.values():
            if partial.is_dir():
                artifacts.write_manifest(partial, stage=self.name, inputs=inputs, params=sections, seed=self.seed)
        self.check_unchanged()
        guard.ignore_signals()
        for path, partial in self._outputs.items():
            _put_in_place(partial, self.root / path)

    def drop_partial(self) -> None:
        """Remove what was written beside the outputs, by this run or by one that was killed."""
        for path in self._outs:
            artifacts.remove(_partial(self.root / path))
            artifacts.remove(_replaced(self.root / path))

    def _hash_deps(self) -> dict[str, dict[str, str]]:
        found = {}
        for dep in self._deps:
            try:
                found[dep] = artifacts.hashes(self.root / dep)
            except FileNotFoundError:
                raise StageError(
                    f"{dep} is not there: `dvc repro {self.name}` makes it, `dvc pull` fetches it"
                ) from None
        return found

    def _key(self) -> str:
        """16 hex digits over everything that the result depends on."""
        parts = {
            "params": {name: values.model_dump(mode="json") for name, values in self.params.items()},
            "deps": self._files,
            "packages": artifacts.versions(),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def run(name: str, models: Mapping[str, type[Section]], main: Callable[[Stage], None]) -> None:
    """Run `main` as stage `name` with the params sections `models`, and end the process."""
    guard.take_signals()
    code = _run(name, models, main)
    guard.ignore_signals()
    sys.stdout.flush()
    if code and "DVC_STAGE" in os.environ:  # nobody but DVC removes outputs
        _restore(name)
    sys.exit(code)


def _run(name: str, models: Mapping[str, type[Section]], main: Callable[[Stage], None]) -> int:
    """The exit code, after telling the user about anything but 0."""
    root = Path.cwd()
    try:
        sections = params.load(root / "params.yaml", models)
        portable.restart_in(portable.environment(sections["base"].portable_math))
        guard.watch_dvc()
        with guard.lock(root / ".scratch" / f"{name}.lock", f"another {name} run", f"the outputs of {name}"):
            stage = Stage(name, models, root)
            stage.drop_partial()
            try:
                with _scratch(stage):
                    main(stage)
                    stage.finish()
            finally:
                stage.drop_partial()
        return 0
    except ParamError as error:
        print(error, file=sys.stderr)
        return 2
    except Changed as error:
        print(error, file=sys.stderr)
        return 3
    except (StageError, guard.Locked, artifacts.DiskFull) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted; the next run resumes where it can", file=sys.stderr)
        return 130
    except SystemExit as error:
        # A main() that leaves early has not finished, whatever code it leaves with.
        return error.code if isinstance(error.code, int) and error.code else 1
    except Exception:
        traceback.print_exc()
        return 1


@contextlib.contextmanager
def _scratch(stage: Stage) -> Iterator[None]:
    """The scratch folder, locked against a run in another copy of the repository, and removed after success."""
    who = f"another {stage.name} run with the same parameters"
    with guard.lock(stage.scratch.with_suffix(".lock"), who, str(stage.scratch)):
        stage.scratch.mkdir(exist_ok=True)
        os.utime(stage.scratch)
        _prune(stage.scratch.parent, stage.name)
        yield
        artifacts.remove(stage.scratch)


def _prune(scratch_root: Path, name: str) -> None:
    """Remove the scratch folders of stage `name` that no run has opened for SCRATCH_DAYS."""
    for folder in scratch_root.glob(f"{name}-" + "[0-9a-f]" * 16):
        if time.time() - folder.stat().st_mtime > SCRATCH_DAYS * 86400:
            with contextlib.suppress(guard.Locked), guard.lock(folder.with_suffix(".lock"), "a run", "it", patience=0):
                artifacts.remove(folder)


def _restore(name: str) -> None:
    """Put back what DVC removed before it started this stage, and say so."""
    try:
        from nethack_pipe.restore import restore  # imports DVC

        back, lost = restore(Path.cwd(), name)
    except Exception as error:
        print(f"{name}: its last outputs could not be put back ({error}); try `dvc checkout`", file=sys.stderr)
        return
    if back:
        print(f"{name}: {', '.join(back)} put back as they were", file=sys.stderr)
    if lost:
        print(f"{name}: {', '.join(lost)} not put back: not in DVC's cache (`dvc pull`)", file=sys.stderr)


def _declaration(root: Path, name: str) -> dict[str, list[str]]:
    """deps, outs (with metrics and plots) and params sections (sorted) of stage `name`, as dvc.yaml declares them."""
    document = params.read_yaml(root / "dvc.yaml")
    if name not in document["stages"]:
        raise StageError(f"dvc.yaml: there is no stage {name}")
    deps, outs, metrics, plots, sections = (
        [item if isinstance(item, str) else next(iter(item)) for item in document["stages"][name].get(key, [])]
        for key in ("deps", "outs", "metrics", "plots", "params")
    )
    return {"deps": deps, "outs": outs + metrics + plots, "params": sorted({key.split(".")[0] for key in sections})}


def _leaves(values: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys."""
    if not isinstance(values, dict):
        return {prefix: values}
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _leaves(value, f"{prefix}.{key}" if prefix else key)
    return found


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.stem}.partial{path.suffix}")


def _replaced(path: Path) -> Path:
    return path.with_name(f".{path.stem}.replaced{path.suffix}")


def _put_in_place(partial: Path, path: Path) -> None:
    """Rename `partial` to `path`; of a folder that is there already nothing stays."""
    if path.is_dir():
        path.rename(_replaced(path))
    partial.replace(path)
    artifacts.remove(_replaced(path))
