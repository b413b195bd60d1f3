"""Puts back the outputs of a stage that DVC removed before it ran the stage's command.

DVC deletes a stage's outputs before it runs the command, so that a mistyped parameter would cost the trained model.
What dvc.lock records of them is still in DVC's cache or, for metrics that a clone has from git, in the last commit.
"""

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from dvc.exceptions import DvcException
from dvc.repo import Repo

from nethack_pipe.artifacts import write_bytes


def restore(root: Path, name: str) -> tuple[list[str], list[str]]:
    """Put back each output of stage `name` that dvc.lock records and that is not there.

    Returns the paths put back and those that neither the cache nor the last commit has. Imports DVC (half a second).
    """
    back: list[str] = []
    lost: list[str] = []
    with Repo(str(root)) as repo:
        for out in repo.stage.load_one("dvc.yaml", name).outs:
            if not out.hash_info or out.exists:
                continue
            found = _from_cache(repo, out) or _from_git(root, out)
            (back if found else lost).append(out.def_path)
    return back, lost


def _from_cache(repo: Repo, out: Any) -> bool:
    links = repo.cache.local.cache_types
    try:
        if not out.use_cache:
            # DVC's run cache keeps these too. A copy, because git owns the file: a link would be read-only.
            out.use_cache, repo.cache.local.cache_types = True, ["copy"]
        if out.get_obj() is None:
            return False
        out.checkout(force=True)
        return True
    except (DvcException, OSError):
        return False
    finally:
        repo.cache.local.cache_types = links


def _from_git(root: Path, out: Any) -> bool:
    """Only the very contents that dvc.lock records."""
    shown = subprocess.run(["git", "show", f"HEAD:./{out.def_path}"], cwd=root, capture_output=True, check=False)
    if shown.returncode or hashlib.md5(shown.stdout, usedforsecurity=False).hexdigest() != out.hash_info.value:
        return False
    path = root / out.def_path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, shown.stdout)
    return True
