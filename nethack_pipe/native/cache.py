"""Files that take a moment to make and are the same every time: made once per machine, then found.

They lie outside the repository, so that a snapshot of it (``dvc exp run --temp``) finds them too.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from nethack_pipe.artifacts import sha256

FOLDER = "NETHACK_PIPE_CACHE"  # the environment variable that chooses the folder


class CacheError(Exception):
    """No folder can be written; the message says which were tried, why each cannot, and how to choose another."""


def folders() -> list[Path]:
    """Where files are looked for and made, in this order: in $NETHACK_PIPE_CACHE alone if that is set; else in the
    Python environment, then in the user's cache."""
    if chosen := os.environ.get(FOLDER):
        return [Path(chosen).absolute()]
    users = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    both = (Path(sys.prefix, "var", "nethack-pipe"), Path(users, "nethack-pipe"))
    return [folder for folder in both if folder.is_absolute()]  # a user may have no home


def stored(name: str, make: Callable[[Path], None]) -> Path:
    """The file `name` from the first folder that has it whole, else made in the first that can be written.

    Args:
        name: with a suffix, and with a hash of all that the contents depend on: what is there is never out of date.
        make: writes the file to the path it is given. Whatever it raises but OSError is raised here, too.

    The file's own SHA-256 is part of the name it gets, so a damaged one is seen and made anew, and processes that make
    it at the same time cannot disturb each other, not even with compilers that give different bytes. Raises CacheError.
    """
    stem, suffix = os.path.splitext(name)
    for folder in folders():
        for path in sorted(folder.glob(f"{stem}-*{suffix}")):
            with contextlib.suppress(OSError):  # one that cannot be read is as good as none
                if path.name == _full_name(stem, path, suffix):
                    return path
    reasons = []
    for folder in folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{stem}.{os.getpid()}.", dir=folder) as beside:
                made = Path(beside, name)
                make(made)
                made.chmod(0o644)
                return made.replace(folder / _full_name(stem, made, suffix))
        except OSError as error:
            reasons.append(f"{folder} ({error.strerror or error})")
    raise CacheError(
        f"{name} can be kept nowhere: {', '.join(reasons)}. The environment variable {FOLDER} chooses another folder"
    )


def _full_name(stem: str, file: Path, suffix: str) -> str:
    return f"{stem}-{sha256(file)}{suffix}"
