import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from nle import _pynethack

from nethack_pipe.game.savestate.elf import Library, Unsupported
from nethack_pipe.native import build

IMAGE = Path(_pynethack.__file__).with_name("libnethack.so").read_bytes()
PAGE = 0x10000
PLTRELSZ, PLTGOT, STRTAB, STRSZ, SYMTAB, GNU_HASH = 2, 3, 5, 10, 6, 0x6FFFFEF5

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, build.COMPILERS)), reason="there is no C compiler")


def segments(image: bytes) -> list[list[int]]:
    """type, flags, offset, address, physical address, bytes in the file, bytes in memory, alignment"""
    (at,), (count,) = struct.unpack_from("<Q", image, 32), struct.unpack_from("<H", image, 56)
    return [list(struct.unpack_from("<2I6Q", image, at + 56 * i)) for i in range(count)]


def loads(image: bytes) -> list[list[int]]:
    return [segment for segment in segments(image) if segment[0] == 1]


def sections(image: bytes) -> dict[str, tuple[int, int, int]]:
    """Address, offset in the file and size of each section."""
    (at,), (count, names) = struct.unpack_from("<Q", image, 40), struct.unpack_from("<2H", image, 60)
    headers = [struct.unpack_from("<2I4Q", image, at + 64 * i) for i in range(count)]
    strings = image[headers[names][4] :]
    return {strings[h[0] : strings.index(b"\0", h[0])].decode(): (h[3], h[4], h[5]) for h in headers}


def with_dynamic(tag: int, value: int, new_tag: int | None = None) -> bytes:
    """The library with another value, or another tag, in an entry of its dynamic section."""
    _, offset, size = sections(IMAGE)[".dynamic"]
    image = bytearray(IMAGE)
    for at in range(offset, offset + size, 16):
        if struct.unpack_from("<Q", image, at)[0] == tag:
            struct.pack_into("<2Q", image, at, tag if new_tag is None else new_tag, value)
    assert image != IMAGE
    return bytes(image)


def with_bytes(at: int, *values: int) -> bytes:
    return IMAGE[:at] + bytes(values) + IMAGE[at + len(values) :]


def without_sections(image: bytes) -> bytes:
    return image[:40] + bytes(8) + image[48:60] + bytes(4) + image[64:]


def load(image: bytes, folder: Path, *before: Path) -> subprocess.CompletedProcess[str]:
    """Load the libraries `before` for all to see, then `image`, in a process of its own; print `calls` of the first."""
    path = folder / "patched.so"
    path.write_bytes(image)
    script = (
        "import ctypes, os, sys\n"
        "first, *_ = [ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_GLOBAL) for path in sys.argv[1:]]\n"
        "if len(sys.argv) > 2: print(ctypes.c_int.in_dll(first, 'calls').value)\n"
    )
    command = [sys.executable, "-c", script, *map(str, before), str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(IMAGE)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose C files `build.library` compiles."""
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    monkeypatch.setenv("NETHACK_PIPE_CACHE", str(tmp_path / "cache"))
    yield tmp_path


def test_imports(library: Library) -> None:
    assert {"malloc", "free", "_Znwm", "fopen", "time", "__cxa_finalize"} <= library.imports
    assert not {"", "settings", "moves", "current_nle_ctx", "nle_step"} & library.imports


def test_addresses(library: Library) -> None:
    assert library.address("moves")[1] == struct.calcsize("l")
    assert library.address("current_nle_ctx")[1] == struct.calcsize("P")
    start, size = library.address("settings")
    assert start % 8 == 0
    assert size > 4096  # a path and more
    text, _, text_size = sections(IMAGE)[".text"]
    assert text <= library.address("nle_step")[0] < text + text_size
    for name in ("malloc", "no_such_thing"):
        with pytest.raises(Unsupported, match=f"exports no {name}"):
            library.address(name)


def test_writable_is_data_and_bss(library: Library) -> None:
    start, end = library.writable
    (got, _, got_size), (data, *_), (bss, _, bss_size) = (sections(IMAGE)[n] for n in (".got.plt", ".data", ".bss"))
    assert got + got_size <= start <= data < start + 32
    assert end == bss + bss_size
    for name in ("settings", "moves", "youmonst", "level", "current_nle_ctx"):
        address, size = library.address(name)
        assert start <= address and address + size <= end, name


def test_a_renamed_import_is_looked_for_under_its_new_name(library: Library, tmp_path: Path) -> None:
    image = library.rename({"malloc": "valloc", "not_imported": "anything"})
    done = load(image, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert Library(image).imports == library.imports - {"malloc"} | {"valloc"}
    # Without "version GLIBC_..." behind it: any version would do.
    done = load(library.rename({"malloc": "nethack_pipe_malloc"}), tmp_path)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("undefined symbol: nethack_pipe_malloc")


@needs_compiler
def test_renamed_imports_call_another_library_from_the_first_constructor_on(
    library: Library, sources: Path, tmp_path: Path
) -> None:
    (sources / "counting.c").write_text(
        "#include <stdlib.h>\nint calls;\nvoid *counting_new(size_t size) { calls++; return malloc(size); }\n"
    )
    done = load(library.rename({"_Znwm": "counting_new"}), tmp_path, build.library("counting"))
    assert done.stderr == ""
    assert int(done.stdout) > 0


def test_everything_else_stays_where_it_was(library: Library) -> None:
    renamed = library.rename({"malloc": "m", "free": "f"})
    assert (
        renamed == library.rename({"free": "f", "malloc": "m"}) == Library(IMAGE).rename({"malloc": "m", "free": "f"})
    )
    again = Library(renamed)
    assert again.writable == library.writable
    assert again.address("settings") == library.address("settings")
    parts = sections(IMAGE)
    assert sections(renamed).keys() == parts.keys()
    changed = {".dynsym", ".dynstr", ".gnu.version", ".dynamic", ".bss"}
    for name in parts.keys() - changed:
        _, offset, size = parts[name]
        assert sections(renamed)[name] == parts[name]
        assert renamed[offset : offset + size] == IMAGE[offset : offset + size], name


def test_the_new_names_are_mapped_with_any_page_size(library: Library) -> None:
    renamed = library.rename({"malloc": "m"})
    assert len(segments(renamed)) == len(segments(IMAGE))
    *others, new = loads(renamed)
    assert others == loads(IMAGE)
    kind, flags, offset, address, _, file_bytes, memory_bytes, align = new
    assert (kind, flags, align, offset % PAGE, address % PAGE) == (1, 4, PAGE, 0, 0)
    assert file_bytes == memory_bytes > sections(IMAGE)[".dynstr"][2]
    assert address >= others[-1][3] + others[-1][6]


@pytest.mark.skipif(not shutil.which("readelf") or not shutil.which("nm"), reason="there are no binutils")
def test_binutils_see_the_same(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "renamed.so"
    path.write_bytes(library.rename({"malloc": "nethack_pipe_malloc"}))

    def output(*command: str) -> str:
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    undefined = {line.split()[-1].partition("@")[0] for line in output("nm", "-D", "--undefined-only").splitlines()}
    assert undefined == library.imports - {"malloc"} | {"nethack_pipe_malloc"}
    assert f"(STRTAB)             {loads(path.read_bytes())[-1][3]:#x}" in output("readelf", "-dW")
    [line] = [line for line in output("readelf", "-W", "--dyn-syms").splitlines() if "nethack_pipe_malloc" in line]
    assert line.endswith("UND nethack_pipe_malloc")


def test_without_section_headers_it_is_the_same(library: Library, tmp_path: Path) -> None:
    stripped = Library(without_sections(IMAGE))
    assert (stripped.imports, stripped.writable) == (library.imports, library.writable)
    renamed = stripped.rename({"malloc": "valloc"})
    [*_, mapped] = loads(renamed)
    assert mapped == loads(library.rename({"malloc": "valloc"}))[-1]
    assert load(renamed, tmp_path).returncode == 0


def test_a_note_in_front_of_the_segments(tmp_path: Path) -> None:
    headers = sorted(segments(IMAGE), key=lambda segment: segment[0] != 4)
    assert headers[0][0] == 4
    moved = IMAGE[:64] + b"".join(struct.pack("<2I6Q", *header) for header in headers) + IMAGE[64 + 56 * len(headers) :]
    renamed = Library(moved).rename({"malloc": "valloc"})
    addresses = [segment[3] for segment in loads(renamed)]
    assert addresses == sorted(addresses)
    assert load(renamed, tmp_path).returncode == 0


@needs_compiler
@pytest.mark.parametrize("option", ["--hash-style=gnu", "--hash-style=sysv", "-z,now", "-z,norelro"])
def test_other_ways_to_link(option: str, sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, f"-Wl,{option}"))
    (sources / "tiny.c").write_text(
        "#include <stdlib.h>\nlong first = 1, last;\nvoid *make(void) { return malloc((size_t) (first + last)); }\n"
    )
    image = build.library("tiny").read_bytes()
    library = Library(image)
    assert "malloc" in library.imports
    start, end = library.writable
    (data, _, _), (bss, _, bss_size) = sections(image)[".data"], sections(image)[".bss"]
    assert start <= data and end == bss + bss_size
    assert all(start <= library.address(name)[0] < end for name in ("first", "last"))
    for name, (address, _, size) in sections(image).items():
        assert not (".got" in name or name in (".dynamic", ".init_array")) or address + size <= start, name


def test_what_cannot_be_renamed(library: Library) -> None:
    with pytest.raises(Unsupported, match="does not import nle_end, nle_step but has its own"):
        library.rename({"nle_end": "a", "malloc": "b", "nle_step": "c"})
    with pytest.raises(Unsupported, match="no note"):
        Library(library.rename({"malloc": "m"})).rename({"m": "valloc"})


GOT_ENTRIES = sections(IMAGE)[".got.plt"][2] // 8


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (b"", "not an ELF file"),
        (b"#!/bin/sh\n" * 100, "not an ELF file"),
        (IMAGE[:30], "cut off: it has 30 bytes"),
        (IMAGE[:200], "cut off: its headers go beyond its 200 bytes"),
        (IMAGE[: len(IMAGE) // 2], "cut off: its headers go beyond"),
        (IMAGE[:-1], "cut off: its headers go beyond"),
        (without_sections(IMAGE)[: len(IMAGE) // 2], "cut off: its segments go beyond"),
        (with_bytes(4, 1), "not a 64-bit little-endian one"),
        (with_bytes(5, 2), "not a 64-bit little-endian one"),
        (with_bytes(16, 2), "of type 2, not a shared object"),
        (with_bytes(18, 243), "for ELF machine 243, not for x86-64 or aarch64"),
        (with_bytes(54, 32), "another size than ELF64's"),
        (with_bytes(56, 0), "no dynamic section"),
        (with_dynamic(STRTAB, 0, new_tag=99), "lacks entry 0x5"),
        (with_dynamic(GNU_HASH, 0, new_tag=99), "lacks entry 0x4"),
        (with_dynamic(SYMTAB, 1 << 40), "at 0x10000000000, which are not in the file"),
        (with_dynamic(STRSZ, 1 << 40), "1099511627776 bytes at .* which are not in the file"),
        (with_dynamic(STRSZ, 1000), "string table is damaged"),
        (with_dynamic(PLTRELSZ, 24 * (GOT_ENTRIES + 1000)), "variables in front of its GOT"),
        (with_dynamic(PLTGOT, 1 << 40), "variables lie in 0 segments"),
    ],
)
def test_what_is_no_library_of_ours(image: bytes, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        Library(image)
