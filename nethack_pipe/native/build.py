"""The C sources of this folder as shared libraries, compiled when they are first needed and kept in the cache.

``python -m nethack_pipe.native.build`` compiles all of them. It never fails: whatever they do has another, slower way.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from nethack_pipe.native.cache import CacheError, stored

SOURCES = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")
# Nothing that depends on this machine's processor (-march=native): the libraries are the same on all of one kind.
FLAGS = (
    *("-O2", "-shared", "-fPIC", "-std=gnu11", "-pthread"),
    *("-Wall", "-Wextra", "-Werror=implicit-function-declaration"),
)
PATIENCE = 120.0  # seconds that a compiler may take
_STDERR_LINES = 10


class BuildError(Exception):
    """There is no compiled library; the message says why and what would help."""


def library(name: str) -> Path:
    """The shared library made of `name`.c, from the cache if it is there, else compiled with $CC or a usual compiler.

    Raises BuildError where that cannot be: not Linux with glibc, no compiler, a source that does not compile, or no
    folder to write to.
    """
    libc, version = platform.libc_ver()
    if sys.platform != "linux" or libc != "glibc":
        raise BuildError(f"{name}.c is for Linux with glibc, this is {platform.system()} with {libc or 'another libc'}")
    # A library made with a newer glibc would not load with an older one that shares the folder.
    parts = [platform.machine(), version, *FLAGS]
    for path in (SOURCES / f"{name}.c", *sorted(SOURCES.glob("*.h"))):
        parts += [path.name, hashlib.sha256(path.read_bytes()).hexdigest()]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    try:
        return stored(f"{name}-{key}.so", lambda path: _compile(SOURCES / f"{name}.c", path))
    except CacheError as error:
        raise BuildError(str(error)) from None


def _compile(source: Path, output: Path) -> None:
    # In the source's folder and with its bare name: its path must not get into the library.
    command = [*_compiler(), *FLAGS, "-o", str(output), source.name]
    try:
        done = subprocess.run(
            command,
            cwd=source.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"the compiler has not ended within {PATIENCE:g} seconds: {shlex.join(command)}") from None
    except OSError as error:
        raise BuildError(f"the compiler cannot be run ({error.strerror}): {shlex.join(command)}") from None
    if done.returncode:
        said = "\n".join(done.stderr.strip().splitlines()[:_STDERR_LINES]) or "it said nothing"
        raise BuildError(f"{shlex.join(command)} failed with status {done.returncode}: {said}")
    if not output.is_file():
        raise BuildError(f"{shlex.join(command)} ended well but has written no file")


def _compiler() -> list[str]:
    """Absolute path of the compiler and the arguments that $CC may bring along."""
    chosen = os.environ.get("CC", "")
    try:
        words = shlex.split(chosen)
    except ValueError as error:
        raise BuildError(f"the environment variable CC is no command line ({error}): {chosen}") from None
    for candidate in words[:1] or COMPILERS:
        if found := shutil.which(candidate):
            return [os.path.abspath(found), *words[1:]]
    if words:
        raise BuildError(f"the environment variable CC is {chosen!r}, but there is no program {words[0]}")
    raise BuildError(
        f"no C compiler: none of {', '.join(COMPILERS)} is on the PATH. Install one (Debian, Ubuntu: apt install gcc "
        "libc6-dev; Fedora: dnf install gcc) or name one with the environment variable CC"
    )


def main() -> None:
    for source in sorted(SOURCES.glob("*.c")):
        try:
            print(f"{source.name}: {library(source.stem)}")
        except BuildError as error:
            print(f"{source.name}: not compiled, a slower way will be taken: {error}")


if __name__ == "__main__":
    main()
