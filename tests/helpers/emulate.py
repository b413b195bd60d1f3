"""Run a Python program on an emulated processor of another kind, to see that it computes the same bytes there.

Debian's package `qemu-user` has the emulator. It emulates one process: what that process starts runs natively.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest

from nethack_pipe import portable

QEMU = shutil.which("qemu-x86_64")
needs_qemu = pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 is not installed (Debian package qemu-user)")


def run_python(
    arguments: Sequence[str], *, cpu: str = "", portable_math: bool = True, environment: Mapping[str, str] | None = None
) -> str:
    """What `python ARGUMENTS` prints, natively or on the emulated processor `cpu` (``Haswell``: AVX2, no AVX-512).

    Runs in the environment of a stage with or without ``base.portable_math``. Raises AssertionError when it fails.
    """
    variables = {name: value for name, value in os.environ.items() if name not in portable.PORTABLE_MATH}
    variables |= portable.environment(portable_math) | (environment or {})
    emulator = [str(QEMU), "-cpu", cpu] if cpu else []
    done = subprocess.run(
        [*emulator, sys.executable, *arguments],
        env=variables,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
