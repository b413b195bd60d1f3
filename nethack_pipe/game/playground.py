"""The folder in which one running game keeps its level files, record and logs."""

import os

# Level files are told to be untouched by a modification time that no clock gives. A process that branches inside a
# branch uses another one, so that its parent still sees what it did.
_UNTOUCHED_NS = 1_000_000_000
_KEPT_EMPTY = frozenset(("record", "logfile", "xlogfile", "perm"))


class Playground:
    """The game folder `path`, which NLE made. `depth` says how many branches deep the current process is."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._contents: dict[str, bytes] = {}

    def clear(self) -> None:
        """Make the folder as it was before the first game: no level files, empty record and logs."""
        self._contents = {}
        for name, size, _ in self._files():
            path = os.path.join(self._path, name)
            if name not in _KEPT_EMPTY:
                os.unlink(path)
            elif size:
                os.truncate(path, 0)

    def remember(self, depth: int) -> None:
        """Note every file's contents, for `restore`. Reads only files that changed since the last time."""
        untouched = _UNTOUCHED_NS * (depth + 1)
        contents = {}
        for name, _, modified in self._files():
            if modified == untouched and name in self._contents:
                contents[name] = self._contents[name]
            else:
                path = os.path.join(self._path, name)
                with open(path, "rb") as file:
                    contents[name] = file.read()
                os.utime(path, ns=(untouched, untouched))
        self._contents = contents

    def restore(self, depth: int) -> None:
        """Undo everything that was done to the files since `remember`."""
        untouched = _UNTOUCHED_NS * (depth + 1)
        present = {name: modified for name, _, modified in self._files()}
        for name in present.keys() - self._contents.keys():
            os.unlink(os.path.join(self._path, name))
        for name, content in self._contents.items():
            if present.get(name) != untouched:
                path = os.path.join(self._path, name)
                with open(path, "wb") as file:
                    file.write(content)
                os.utime(path, ns=(untouched, untouched))

    def _files(self) -> list[tuple[str, int, int]]:
        """Name, size in bytes and modification time in nanoseconds of the regular files (not the link to nhdat)."""
        files = []
        with os.scandir(self._path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    files.append((entry.name, status.st_size, status.st_mtime_ns))
        return files
