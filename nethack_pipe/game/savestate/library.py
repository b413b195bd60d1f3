"""The patched copy of NLE's library, and the C functions that save and load the games which run on it.

See nethack_pipe/native/savestate.c for how it works. Nothing in NLE's own folder changes: the copy lies in the cache
of compiled files, under the hash of the library it was made from.
"""

import ctypes
import functools
import hashlib
import importlib.metadata
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

from nle.nethack import nethack

from nethack_pipe.game import internals
from nethack_pipe.game.savestate import elf
from nethack_pipe.native import build, cache

NLE_VERSION = "1.3.0"
# What one game may allocate, in bytes; only what it uses becomes real memory (about 0.3 MB at the start).
ARENA_BYTES = 64 << 20

# NetHack's imports that keep state outside of its own variables -> what answers them in savestate.c.
_RENAMED = {
    **{
        name: f"sst_{name}"
        for name in (
            *("malloc", "calloc", "realloc", "free", "open", "creat", "close", "unlink", "rename", "access", "chmod"),
            *("fopen", "fdopen", "fmemopen", "fclose", "regcomp", "regfree"),
        )
    },
    "__cxa_finalize": "sst_cxa_finalize",
    "_Znwm": "sst_new",
    "_ZdlPv": "sst_delete",
    "_ZNSs4_Rep9_S_createEmmRKSaIcE": "sst_string_create",
    "_ZNSs4_Rep10_M_destroyERKSaIcE": "sst_string_destroy",
    "_ZNSsC1ERKSs": "sst_string_copy",
    "_ZNSs6assignEPKcm": "sst_string_assign_chars",
    "_ZNSs6assignERKSs": "sst_string_assign",
}
# Those that keep none, or work on what the others gave. A library that needs more is not the one that this is made for.
_HARMLESS = frozenset(
    """
    _IO_getc _IO_putc _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable _Unwind_Resume
    _ZNSs4_Rep20_S_empty_rep_storageE _ZNSt8ios_base4InitC1Ev _ZNSt8ios_base4InitD1Ev
    _ZSt17__throw_bad_allocv _ZSt19__throw_logic_errorPKc _ZSt20__throw_length_errorPKc __ctype_b_loc
    __cxa_atexit __cxa_begin_catch __cxa_end_catch __cxa_rethrow __errno_location __getauxval
    __gmon_start__ __gxx_personality_v0 __pthread_key_create _exit abort clearerr exit fcntl ferror
    fflush fgetc fgets fileno fprintf fputc fputs fread fscanf fseek ftell fwrite getcwd getenv getlogin
    getpid getpwnam getpwuid getrlimit gettimeofday getuid ioctl isatty localtime lseek memcpy memmove
    memset mktime mmap mprotect munmap perror qsort read regerror regexec rewind sigaction sleep
    snprintf sprintf sscanf stderr stdin stdout stpcpy strcat strchr strcmp strcpy strerror strlen
    strncat strncmp strncpy strnlen strrchr strstr strtol sysconf tcgetattr tcsetattr time ungetc
    vsnprintf write
    """.split()  # noqa: SIM905
)
# The strings that nle_settings begins with: hackdir, scoreprefix, options, wizkit (include/nletypes.h).
_SETTINGS_STRINGS = 4096 + 4096 + 32768 + 4096
_HEADER_BYTES = 64 + 16 * 56  # the ELF header and more program headers than there are


class Unavailable(Exception):
    """There can be no savestates here; the text says why."""


class _Layout(ctypes.Structure):  # struct layout of savestate.c
    _fields_ = [
        *(
            (name, c_uint64)
            for name in (
                *("span", "writable", "writable_end", "constant", "constant_end", "settings", "current_ctx", "get_obs"),
                *("step", "in_parse", "moves", "movement", "monsters", "invent", "arena"),
            )
        ),
        ("header", c_char_p),
        ("header_size", c_uint64),
        ("path", c_char_p),
    ]


class View(ctypes.Structure):
    """struct view of savestate.c: where a `Game` keeps its arrays."""

    _fields_ = [
        ("block", c_void_p),
        ("block_size", c_size_t),
        *((name, c_void_p) for name in ("glyphs", "blstats", "letters", "peaceful", "worn")),
        *(
            (name, c_int64)
            for name in (*("first_pet", "first_detected", "first_no_monster", "x", "y", "condition", "hallucinating"),)
        ),
    ]


class Region(ctypes.Structure):
    """struct region of savestate.c: a piece of memory."""

    _fields_ = [("at", c_void_p), ("size", c_size_t)]


class Hooks:
    """The functions of savestate.c, and the path of the library whose games they save."""

    def __init__(self, library: Path, patched: Path) -> None:
        self.patched = patched
        image = patched.read_bytes()
        self._layout = _layout(elf.Library(image), image, patched)  # C keeps the addresses of its texts
        hooks = ctypes.PyDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        state, text = c_void_p, c_char_p
        if _function(hooks.sst_configure, c_int, POINTER(_Layout))(self._layout):
            raise Unavailable("libstdc++.so.6 is not loaded")
        self.find = _function(hooks.sst_find, c_void_p, c_char_p, POINTER(c_uint64))
        self.add_region = _function(hooks.sst_add_region, c_int, c_void_p, c_void_p, c_size_t)
        self.save = _function(hooks.sst_save, state, c_void_p, c_uint64, POINTER(c_char_p))
        self.load = _function(hooks.sst_load, text, state)
        self.free_state = _function(hooks.sst_free_state, None, state)
        self.state_size = _function(hooks.sst_state_size, c_size_t, state)
        self.probe = _function(
            *(hooks.sst_probe, text, state, c_int, POINTER(c_int32), POINTER(View), POINTER(Region), c_int, c_void_p),
            *(c_size_t, c_void_p),
        )

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Games that NLE makes meanwhile run on the patched library."""
        with _dlpath_lock:
            original, nethack.DLPATH = nethack.DLPATH, str(self.patched)
            try:
                yield
            finally:
                nethack.DLPATH = original


_dlpath_lock = threading.Lock()


@functools.cache
def hooks() -> Hooks:
    """The one instance of `Hooks` in this process, made at the first call. Raises Unavailable."""
    version = importlib.metadata.version("nle")
    if version != NLE_VERSION:
        raise Unavailable(f"savestates are made for nle {NLE_VERSION}, installed is {version}")
    image = Path(nethack.DLPATH).read_bytes()
    try:
        library = build.library("savestate")
        original = elf.Library(image)
        unknown = original.imports - _RENAMED.keys() - _HARMLESS
        if unknown:
            raise elf.Unsupported(f"it needs {', '.join(sorted(unknown))}, which is not known to keep no state")
        key = hashlib.sha256(image + repr(sorted(_RENAMED.items())).encode()).hexdigest()[:16]
        patched = cache.stored(f"libnethack-{key}.so", lambda path: _write(path, original.rename(_RENAMED)))
    except elf.Unsupported as error:
        raise Unavailable(f"this build of NLE's library cannot be patched: {error}") from None
    except (build.BuildError, cache.CacheError) as error:
        raise Unavailable(str(error)) from None
    try:
        return Hooks(library, patched)
    except OSError as error:  # a cache folder from which nothing may be run, for one
        raise Unavailable(f"the compiled library cannot be loaded: {error}") from None


def _layout(library: elf.Library, image: bytes, path: Path) -> _Layout:
    def at(name: str) -> int:
        return library.address(name)[0]

    writable, writable_end = library.writable
    settings, settings_size = library.address("settings")
    if settings_size < _SETTINGS_STRINGS or not writable <= settings < writable_end:
        raise Unavailable("this build of NLE's library has other settings than nle 1.3.0")
    return _Layout(
        span=writable_end,
        writable=writable,
        writable_end=writable_end,
        constant=settings,
        constant_end=settings + _SETTINGS_STRINGS,
        settings=settings,
        current_ctx=at("current_nle_ctx"),
        get_obs=at("nle_get_obs"),
        step=at("nle_step"),
        in_parse=at("iflags") + internals.FLAGS_IN_PARSE,
        moves=at("moves"),
        movement=at("youmonst") + internals.MON_MOVEMENT,
        monsters=at("level") + internals.LEVEL_MONSTERS,
        invent=at("invent"),
        arena=ARENA_BYTES,
        header=image[:_HEADER_BYTES],
        header_size=_HEADER_BYTES,
        path=bytes(path),
    )


def _write(path: Path, image: bytes) -> None:
    path.write_bytes(image)


def _function(function: Callable, result: type | None, *arguments: object) -> Callable:
    function.restype, function.argtypes = result, arguments  # type: ignore[attr-defined]
    return function
