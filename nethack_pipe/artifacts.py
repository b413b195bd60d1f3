"""Files written whole, and the manifest.json of an artifact folder: what is in it and what it was made from.

A manifest is the same bytes on every machine: no times, no absolute paths, nothing about the host. The code is not in
it either (git and dvc.lock have that), so that an edit which changes no result leaves the artifact as it was.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"

# The packages whose version can change a result.
PACKAGES = (
    "nle", "numpy", "scipy", "torch", "transformers", "tokenizers", "peft", "sample-factory", "gymnasium", "pyarrow",
)  # fmt: skip


class ArtifactError(Exception):
    """An artifact that is not what its manifest says; the message says which file and what to do."""


class DiskFull(OSError):
    """A disk has no room left; the message says in which folder, and how much is free."""


@contextlib.contextmanager
def naming_full_disk(folder: Path) -> Iterator[None]:
    """Around what writes into `folder`: where the disk is full (or a quota used up), DiskFull says so."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or isinstance(error, DiskFull):
            raise
        free = shutil.disk_usage(folder).free
        raise DiskFull(
            error.errno,
            f"{os.strerror(error.errno)}: {folder} has {free / 1e6:.1f} MB free. Make room there and run again; "
            "what is finished is kept",
        ) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that at every moment, also after a crash, it holds all of the old or all of the new.

    Raises DiskFull where there is no room; then the old is still there.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with naming_full_disk(path.parent), beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON with sorted keys, whole. Raises ValueError for inf and nan, which are not JSON."""
    write_bytes(
        path, (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()
    )


def rounded(value: Any, digits: int = 6) -> Any:
    """`value` (nested dicts and lists) with each float at `digits` significant digits and numpy scalars made plain.

    Raises ValueError, naming the place, for inf and nan: a metric that could not be measured is null.
    """
    if isinstance(value, Mapping):
        return {str(key): _named(key, item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named(index, item, digits) for index, item in enumerate(value)]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number to record")
        return float(f"{value:.{digits}g}")
    return value


def _named(key: Any, value: Any, digits: int) -> Any:
    try:
        return rounded(value, digits)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def sha256(path: Path) -> str:
    """The SHA-256 of one file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes(path: Path) -> dict[str, str]:
    """SHA-256 of each file under the folder `path`, by its path inside with forward slashes; of a file: ``{"": ...}``.

    Raises FileNotFoundError if there is no `path`. ``__pycache__`` is left out, as DVC does.
    """
    if path.is_file():
        return {"": sha256(path)}
    if not path.is_dir():
        raise FileNotFoundError(path)
    files = sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(path).as_posix(): sha256(file) for file in files}


def digest(files: Mapping[str, str]) -> str:
    """One SHA-256 for what `hashes` returned."""
    if set(files) == {""}:
        return files[""]
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def versions() -> dict[str, str]:
    """The installed versions of PACKAGES, without the local part (``2.13.0`` for ``2.13.0+cpu``)."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name).partition("+")[0]
        except metadata.PackageNotFoundError:
            continue
    return found


def write_manifest(
    folder: Path, *, stage: str, inputs: Mapping[str, str], params: Mapping[str, Any], seed: int | None
) -> None:
    """Write manifest.json over all files in `folder`.

    `inputs` is the digest of each artifact read, by its path in the repository; `params` the sections used.
    """
    outputs = hashes(folder)
    outputs.pop(MANIFEST, None)
    manifest = {"stage": stage, "seed": seed, "params": params, "inputs": inputs, "packages": versions()}
    write_json(folder / MANIFEST, manifest | {"outputs": outputs})


def read_manifest(folder: Path, files: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The manifest of `folder`, after checking that the folder holds exactly the files it names, with their contents.

    `files` is what `hashes(folder)` returned, if that is known already. Raises ArtifactError with the file at fault.
    """
    try:
        files = dict(hashes(folder) if files is None else files)
        manifest = json.loads((folder / MANIFEST).read_bytes())
        outputs = dict(manifest["outputs"])
    except FileNotFoundError as error:
        raise ArtifactError(f"{error.filename or folder}: there is no such file or folder") from None
    except (ValueError, KeyError, TypeError):
        raise ArtifactError(
            f"{folder / MANIFEST}: not a manifest; it was damaged or written by something else"
        ) from None
    files.pop(MANIFEST, None)
    for name in sorted(files.keys() | outputs.keys()):
        if name not in files:
            raise ArtifactError(f"{folder / name}: missing, though {MANIFEST} names it")
        if name not in outputs:
            raise ArtifactError(f"{folder / name}: a stray file, {MANIFEST} does not name it")
        if files[name] != outputs[name]:
            raise ArtifactError(f"{folder / name}: damaged or edited, its contents are not those {MANIFEST} names")
    return manifest


def remove(path: Path) -> None:
    """Remove the file or folder `path` if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
