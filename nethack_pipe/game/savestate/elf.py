"""An ELF shared object's imports, variables and addresses, and a copy of it that imports under other names.

Everything is read where the dynamic linker reads it: the program headers and the tables that the dynamic section points
to. Section headers may be stripped. The formats are those of the System V ABI (chapters 4 and 5); those of DT_GNU_HASH
and of symbol versions are as in glibc's elf/dl-lookup.c.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

_MACHINES = {62: "x86-64", 183: "aarch64"}
_SHARED_OBJECT = 3  # e_type ET_DYN

_HEADER = struct.Struct("<16s2HI3QI6H")
_SEGMENT = struct.Struct("<2I6Q")
_LOAD, _DYNAMIC, _NOTE, _RELRO = 1, 2, 4, 0x6474E552  # p_type
_WRITABLE, _READABLE = 2, 4  # p_flags
_SECTION = struct.Struct("<2I4Q2I2Q")
_STRING_TABLE = 3  # sh_type

# d_tag
_PLTRELSZ, _PLTGOT, _HASH, _STRTAB, _SYMTAB, _STRSZ = 2, 3, 4, 5, 6, 10
_GNU_HASH, _VERSYM = 0x6FFFFEF5, 0x6FFFFFF0
_RELOCATION_BYTES = 24  # Elf64_Rela, which both machines use
_GOT_HEAD = 3  # entries of .got.plt that belong to the dynamic linker

_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_OBJECT = 1  # low four bits of st_info: a variable
_ANY_VERSION = 1  # VER_NDX_GLOBAL

_PAGE = 0x10000  # the largest page of either machine
_ADDRESSES = 1 << 47  # more than any process has


class Unsupported(Exception):
    """This build of the library cannot be patched; the text says why."""


class _Segment(NamedTuple):
    type: int
    flags: int
    offset: int
    address: int
    physical: int
    file_bytes: int
    memory_bytes: int
    align: int

    @property
    def end(self) -> int:
        return self.address + self.memory_bytes


class Library:
    """A parsed shared object. All addresses are relative to where it is loaded.

    Args:
        image: the whole file.

    Attributes:
        imports: names of the undefined dynamic symbols.
        writable: first address of the library's own variables (.data and .bss: behind what the dynamic linker writes,
            RELRO and .got.plt) and the address after the last.

    Raises Unsupported for anything but a whole 64-bit little-endian shared object for x86-64 or aarch64, and when its
    variables cannot be told from what the dynamic linker writes.
    """

    def __init__(self, image: bytes) -> None:
        self._image = image
        self._segments = self._read_header()
        self._loads = [segment for segment in self._segments if segment.type == _LOAD]
        if any(load.offset + load.file_bytes > len(image) for load in self._loads):
            raise Unsupported(f"the library is cut off: its segments go beyond its {len(image)} bytes")
        if any(load.end >= _ADDRESSES for load in self._loads):
            raise Unsupported("the library's program headers are damaged")
        self._dynamic = self._read_dynamic()  # tag -> (value, offset of that value in the file)
        self._strings = self._part(self._value(_STRTAB), self._value(_STRSZ))
        self._symbols = self._array(self._value(_SYMTAB), _SYMBOL, self._count_symbols())
        self._names = self._read_names()
        self.imports = frozenset(name for _, name in self._undefined())
        self._defined = {
            name: symbol for name, symbol in zip(self._names, self._symbols, strict=True) if symbol["section"]
        }
        self.writable = self._find_writable()

    def address(self, name: str) -> tuple[int, int]:
        """Address and size in bytes of what the library exports under `name`. Raises Unsupported if that is nothing."""
        if name not in self._defined:
            raise Unsupported(f"the library exports no {name}")
        symbol = self._defined[name]
        return int(symbol["value"]), int(symbol["size"])

    def rename(self, names: Mapping[str, str]) -> bytes:
        """The library's file with other names, without versions, for some of its imports.

        The new names stand in a copy of the string table at the end of the file. A program header is needed to have it
        loaded: that of a note (the build id) becomes it. Undefined symbols are in no hash table that is looked up.

        Args:
            names: import -> new name. Imports that the library does not have are passed over: builds differ.

        Raises Unsupported when the library itself defines one of the names, or has no note.
        """
        if own := sorted(names.keys() & self._defined.keys()):
            raise Unsupported(f"the library does not import {', '.join(own)} but has its own")
        notes = [segment for segment in self._segments if segment.type == _NOTE]
        if not notes:
            raise Unsupported("the library has no note (build id) whose program header could be used to load new names")

        strings, symbols = bytearray(self._strings), self._symbols.copy()
        versions = None
        if _VERSYM in self._dynamic:
            versions = self._array(self._value(_VERSYM), np.dtype("<u2"), len(symbols)).copy()
        for index, name in self._undefined():
            if name in names:
                symbols["name"][index] = len(strings)
                strings += names[name].encode() + b"\0"
                if versions is not None:
                    versions[index] = _ANY_VERSION

        image = bytearray(self._image)
        image += bytes(-len(image) % _PAGE)
        address = _page_after(max(load.end for load in self._loads))
        new = _Segment(
            type=_LOAD,
            flags=_READABLE,
            offset=len(image),
            address=address,
            physical=address,
            file_bytes=len(strings),
            memory_bytes=len(strings),
            align=_PAGE,
        )
        image += strings
        self._write(image, self._value(_SYMTAB), symbols.tobytes())
        if versions is not None:
            self._write(image, self._value(_VERSYM), versions.tobytes())
        for tag, value in ((_STRTAB, new.address), (_STRSZ, len(strings))):
            struct.pack_into("<Q", image, self._dynamic[tag][1], value)
        self._write_segments(image, replaced=notes[-1], new=new)
        self._move_string_section(image, new)
        return bytes(image)

    # -- Reading ---------------------------------------------------------------------------------------------------

    def _read_header(self) -> list[_Segment]:
        image = self._image
        if image[:4] != b"\x7fELF":
            raise Unsupported("the library is not an ELF file (Linux's format)")
        if len(image) < _HEADER.size:
            raise Unsupported(f"the library is cut off: it has {len(image)} bytes")
        if image[4] != 2 or image[5] != 1:
            raise Unsupported("the library is not a 64-bit little-endian one")
        _, kind, machine, _, _, segments_at, sections_at, _, _, segment_bytes, count, section_bytes, sections, _ = (
            _HEADER.unpack_from(image)
        )
        if kind != _SHARED_OBJECT:
            raise Unsupported(f"the ELF file is of type {kind}, not a shared object ({_SHARED_OBJECT})")
        if machine not in _MACHINES:
            raise Unsupported(f"the library is for ELF machine {machine}, not for {' or '.join(_MACHINES.values())}")
        if segment_bytes != _SEGMENT.size or (sections and section_bytes != _SECTION.size):
            raise Unsupported("the library's program or section headers have another size than ELF64's")
        if max(segments_at + count * _SEGMENT.size, sections_at + sections * _SECTION.size) > len(image):
            raise Unsupported(f"the library is cut off: its headers go beyond its {len(image)} bytes")
        self._segments_at = segments_at
        self._sections_at = range(sections_at, sections_at + sections * _SECTION.size, _SECTION.size)
        return [_Segment(*_SEGMENT.unpack_from(image, segments_at + index * _SEGMENT.size)) for index in range(count)]

    def _read_dynamic(self) -> dict[int, tuple[int, int]]:
        for segment in self._segments:
            if segment.type == _DYNAMIC:
                start = self._offset(segment.address, segment.file_bytes)
                entries = self._array(segment.address, np.dtype("<u8"), segment.file_bytes // 16 * 2).tolist()
                return {
                    tag: (value, start + 16 * index + 8)
                    for index, (tag, value) in enumerate(zip(entries[::2], entries[1::2], strict=True))
                }
        raise Unsupported("the library has no dynamic section")

    def _value(self, tag: int) -> int:
        if tag not in self._dynamic:
            raise Unsupported(f"the library's dynamic section lacks entry {tag:#x}")
        return self._dynamic[tag][0]

    def _count_symbols(self) -> int:
        word = np.dtype("<u4")
        if _GNU_HASH not in self._dynamic:
            return int(self._array(self._value(_HASH), word, 2)[1])
        table = self._value(_GNU_HASH)
        bucket_count, first_hashed, bloom_words, _ = self._array(table, word, 4).tolist()
        buckets = table + 16 + 8 * bloom_words
        # The symbols of the last bucket are the last of all; the odd hash ends them.
        last = int(self._array(buckets, word, bucket_count).max(initial=0))
        if last < first_hashed:
            raise Unsupported("the library exports nothing")
        hashes = buckets + 4 * bucket_count
        while not self._array(hashes + 4 * (last - first_hashed), word, 1)[0] & 1:
            last += 1
        return last + 1

    def _read_names(self) -> list[str]:
        strings, starts = self._strings, self._symbols["name"]
        if not strings.endswith(b"\0") or starts.max(initial=0) >= len(strings):
            raise Unsupported("the library's string table is damaged")
        return [strings[start : strings.index(b"\0", start)].decode(errors="replace") for start in starts.tolist()]

    def _undefined(self) -> Iterator[tuple[int, str]]:
        """Index and name of each undefined symbol; the nameless one at the beginning stands for none."""
        for index in np.flatnonzero(self._symbols["section"] == 0).tolist():
            if self._names[index]:
                yield index, self._names[index]

    def _find_writable(self) -> tuple[int, int]:
        ends = [segment.end for segment in self._segments if segment.type == _RELRO]
        constant_end = max(ends, default=0)
        if _PLTGOT in self._dynamic:
            entries = _GOT_HEAD + self._dynamic.get(_PLTRELSZ, (0, 0))[0] // _RELOCATION_BYTES
            ends.append(self._value(_PLTGOT) + 8 * entries)
        if not ends:
            raise Unsupported("the library has neither RELRO nor a GOT for functions: where do its variables begin?")
        start = max(ends)
        loads = [load for load in self._loads if load.flags & _WRITABLE and load.end > start]
        if len(loads) != 1:
            raise Unsupported(f"the library's variables lie in {len(loads)} segments instead of one")
        # Some linkers put the GOT behind the variables.
        before = self._symbols[(self._symbols["info"] & 15 == _OBJECT) & (self._symbols["section"] != 0)]["value"]
        if np.any((before >= max(constant_end, loads[0].address)) & (before < start)):
            raise Unsupported("the library has variables in front of its GOT for functions")
        return max(start, loads[0].address), loads[0].end

    def _offset(self, address: int, size: int) -> int:
        for load in self._loads:
            if load.address <= address and address + size <= load.address + load.file_bytes:
                return load.offset + address - load.address
        raise Unsupported(f"the library's headers speak of {size} bytes at {address:#x}, which are not in the file")

    def _part(self, address: int, size: int) -> bytes:
        start = self._offset(address, size)
        return self._image[start : start + size]

    def _array(self, address: int, dtype: np.dtype, count: int) -> np.ndarray:
        return np.frombuffer(self._image, dtype, count, self._offset(address, count * dtype.itemsize))

    # -- Writing ---------------------------------------------------------------------------------------------------

    def _write(self, image: bytearray, address: int, data: bytes) -> None:
        start = self._offset(address, len(data))
        image[start : start + len(data)] = data

    def _write_segments(self, image: bytearray, replaced: _Segment, new: _Segment) -> None:
        segments = [segment for segment in self._segments if segment is not replaced]
        segments.insert(segments.index(self._loads[-1]) + 1, new)  # glibc relies on ascending addresses
        for index, segment in enumerate(segments):
            _SEGMENT.pack_into(image, self._segments_at + index * _SEGMENT.size, *segment)

    def _move_string_section(self, image: bytearray, new: _Segment) -> None:
        """Let the section header of the string table, if there is one, point to the new table: for nm and debuggers."""
        for start in self._sections_at:
            fields = list(_SECTION.unpack_from(image, start))
            if fields[1] == _STRING_TABLE and fields[3] == self._value(_STRTAB):
                fields[3:6] = new.address, new.offset, new.file_bytes
                _SECTION.pack_into(image, start, *fields)


def _page_after(address: int) -> int:
    return address + -address % _PAGE
