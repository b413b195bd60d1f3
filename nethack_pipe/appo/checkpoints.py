"""Training states in a folder: written whole, checked when read, and a damaged one is passed over aloud."""

import io
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_PATTERN = "frames_*.pt"
_KEPT = 3


def write(folder: Path, frames: int, state: dict[str, Any]) -> None:
    """Write `state` (tensors and plain numbers) after `frames` frames beside, then rename; the last three are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    data = buffer.getvalue()
    path = folder / f"frames_{frames:012d}.pt"
    beside = path.with_suffix(".tmp")
    with beside.open("wb") as file:
        file.write(zlib.crc32(data).to_bytes(4, "little") + data)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    for old in sorted(folder.glob(_PATTERN))[:-_KEPT]:
        old.unlink()


def read(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """The state in `path`. Raises ValueError when the file is not whole."""
    data = path.read_bytes()
    if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
        raise ValueError(f"{path}: not a whole checkpoint")
    return torch.load(io.BytesIO(data[4:]), map_location=device, weights_only=True)


def frames_of(path: Path) -> int:
    """The number of frames after which `path` was written."""
    return int(path.stem.removeprefix("frames_"))


def newest(folder: Path, usable: Callable[[int], bool]) -> Path | None:
    """The newest whole checkpoint after a number of frames that is `usable`; None when there is none."""
    for path in sorted(folder.glob(_PATTERN), reverse=True):
        if not usable(frames_of(path)):
            continue
        try:
            read(path)
        except (ValueError, OSError) as error:
            print(f"WARNING: {error}; training goes back to the one before it", file=sys.stderr, flush=True)
            continue
        return path
    return None
