import ctypes
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nethack_pipe.native import build
from nethack_pipe.native.build import BuildError, library

COMPILER = next(filter(None, map(shutil.which, build.COMPILERS)), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

ROOT = Path(__file__).parents[2]
ADD = '#include "numbers.h"\nint add(int a) { return a + NUMBER; }\n'


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with add.c and its header, and an empty cache."""
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "add.c").write_text(ADD)
    (folder / "numbers.h").write_text("#define NUMBER 40\n")
    monkeypatch.setattr(build, "SOURCES", folder)
    monkeypatch.setenv("NETHACK_PIPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    return folder


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def add(path: Path, number: int) -> int:
    return ctypes.CDLL(str(path)).add(number)


def cached(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").iterdir())


@needs_compiler
def test_compiled_once_then_found_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = library("add")
    assert path.parent == tmp_path / "cache"
    assert add(path, 2) == 42
    monkeypatch.setenv("PATH", "")
    assert library("add") == path
    assert cached(tmp_path) == [path.name]


@needs_compiler
def test_the_same_bytes_wherever_the_source_and_the_cache_lie(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sources / "add.c").write_text(ADD + "const char *file(void) { return __FILE__; }\n")
    first = library("add")
    monkeypatch.setattr(build, "SOURCES", shutil.copytree(sources, tmp_path / "elsewhere"))
    monkeypatch.setenv("NETHACK_PIPE_CACHE", str(tmp_path / "other"))
    second = library("add")
    assert first.name == second.name
    assert first.parent != second.parent
    assert first.read_bytes() == second.read_bytes()


@needs_compiler
def test_a_changed_source_header_flag_machine_or_libc_is_another_library(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [library("add")]
    (sources / "add.c").write_text(ADD.replace("+", "-"))
    paths.append(library("add"))
    assert add(paths[-1], 2) == -38
    (sources / "numbers.h").write_text("#define NUMBER 50\n")
    paths.append(library("add"))
    assert add(paths[-1], 2) == -48
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-g0"))
    paths.append(library("add"))
    monkeypatch.setattr(platform, "machine", lambda: "another")
    paths.append(library("add"))
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.99"))
    paths.append(library("add"))
    assert len(set(paths)) == len(paths)


@needs_compiler
def test_a_damaged_library_is_compiled_anew(tmp_path: Path) -> None:
    path = library("add")
    path.write_bytes(path.read_bytes()[:-100])
    assert library("add") == path
    assert add(path, 2) == 42
    assert cached(tmp_path) == [path.name]


@needs_compiler
def test_two_processes_at_once(sources: Path, tmp_path: Path) -> None:
    # Neither compiler begins before both have been started.
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    wait = f"touch {meeting}/$$; while [ $(ls {meeting} | wc -l) -lt 2 ]; do sleep 0.02; done"
    compiler = script(tmp_path / "slow-cc", f'{wait}; exec {COMPILER} "$@"')
    code = (
        "import sys; from pathlib import Path; from nethack_pipe.native import build\n"
        "build.SOURCES = Path(sys.argv[1]); print(build.library('add'))"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(sources)],
            cwd=ROOT,
            env=os.environ | {"CC": compiler},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    [first, second] = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert first == second
    assert add(Path(first), 2) == 42
    assert len(list(meeting.iterdir())) == 2
    assert cached(tmp_path) == [Path(first).name]


@needs_compiler
def test_cc_may_bring_arguments(monkeypatch: pytest.MonkeyPatch, sources: Path) -> None:
    (sources / "add.c").write_text("int add(int a) { return a + NUMBER; }\n")
    monkeypatch.setenv("CC", f"{COMPILER} '-DNUMBER=(1 + 2)'")
    assert add(library("add"), 2) == 5


@pytest.mark.parametrize(
    ("cc", "why"),
    [
        ("/no/such/cc -m64", "CC is '/no/such/cc -m64', but there is no program /no/such/cc$"),
        ("cc '-DX", r"CC is no command line \(No closing quotation\): cc '-DX$"),
        (shutil.which("false"), "false -O2 .* add.c failed with status 1: it said nothing$"),
        (shutil.which("true"), "true -O2 .* add.c ended well but has written no file$"),
    ],
)
def test_a_cc_that_does_not_do(cc: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", cc)
    with pytest.raises(BuildError, match=why):
        library("add")
    assert not (tmp_path / "cache").exists() or cached(tmp_path) == []


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        BuildError, match="none of cc, gcc, clang is on the PATH.*apt install gcc.*environment variable CC"
    ):
        library("add")


def test_a_compiler_that_cannot_be_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = Path(script(tmp_path / "cc", ""))
    program.write_text("#!/no/such/interpreter\n")
    monkeypatch.setenv("CC", str(program))
    with pytest.raises(BuildError, match=r"cannot be run \(No such file or directory\): "):
        library("add")


def test_a_compiler_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "PATIENCE", 0.2)
    monkeypatch.setenv("CC", script(tmp_path / "cc", "exec sleep 60"))
    with pytest.raises(BuildError, match="not ended within 0.2 seconds: "):
        library("add")
    assert cached(tmp_path) == []


@needs_compiler
@pytest.mark.parametrize(
    ("source", "why"), [("int add(int a) { return b; }", "b.* undeclared"), ("int f(void) { return g(); }", "implicit")]
)
def test_a_source_with_an_error(source: str, why: str, sources: Path, tmp_path: Path) -> None:
    (sources / "add.c").write_text(source)
    with pytest.raises(BuildError, match=rf"(?s)-shared .* add\.c failed with status 1: add\.c.*{why}"):
        library("add")
    assert cached(tmp_path) == []


@needs_compiler
def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NETHACK_PIPE_CACHE", str(tmp_path / "sources" / "add.c" / "cache"))
    with pytest.raises(BuildError, match=r"add\.c/cache \(Not a directory\).*NETHACK_PIPE_CACHE chooses another"):
        library("add")


@pytest.mark.parametrize(("system", "libc"), [("linux", ("", "")), ("linux", ("musl", "1.2")), ("darwin", ("", ""))])
def test_only_linux_with_glibc(system: str, libc: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)
    with pytest.raises(BuildError, match="add.c is for Linux with glibc, this is"):
        library("add")


@needs_compiler
def test_set_up_compiles_all_and_never_fails(
    sources: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (sources / "wrong.c").write_text("int")
    build.main()
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == f"add.c: {library('add')}"
    assert second.startswith("wrong.c: not compiled, a slower way will be taken: ")


@needs_compiler
def test_the_sources_of_this_package_compile(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nethack_pipe.native.build"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == sorted(
        path.name for path in ROOT.glob("nethack_pipe/native/*.c")
    )
    for line in lines:
        assert Path(line.partition(": ")[2]).parent == tmp_path / "cache", done.stdout
