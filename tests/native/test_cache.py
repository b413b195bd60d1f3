import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nethack_pipe.native.cache import CacheError, folders, stored


@pytest.fixture(autouse=True)
def two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of an environment and of a user under `tmp_path`."""
    monkeypatch.delenv("NETHACK_PIPE_CACHE", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return [tmp_path / "prefix" / "var" / "nethack-pipe", tmp_path / "xdg" / "nethack-pipe"]


def writer(content: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(content)

    return write


def never(path: Path) -> None:
    raise AssertionError(f"{path} is made again")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() or path.name.startswith(".")]


def test_folders(two_folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert folders() == two_folders
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders() == [two_folders[0], tmp_path / ".cache" / "nethack-pipe"]
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert folders() == two_folders[:1]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETHACK_PIPE_CACHE", "mine")
    assert folders() == [tmp_path / "mine"]


def test_made_once_whole_and_for_all_to_read(two_folders: list[Path]) -> None:
    path = stored("thing-1.bin", writer(b"content"))
    assert path.parent == two_folders[0]
    assert path.read_bytes() == b"content"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stored("thing-1.bin", never) == path
    other = stored("thing-2.bin", writer(b"other"))
    assert other.read_bytes() == b"other"
    assert sorted(files(two_folders[0])) == sorted([path, other])


def test_found_in_the_second_folder(two_folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETHACK_PIPE_CACHE", str(two_folders[1]))
    path = stored("thing-1.bin", writer(b"content"))
    monkeypatch.delenv("NETHACK_PIPE_CACHE")
    assert stored("thing-1.bin", never) == path
    assert not two_folders[0].exists()


@pytest.mark.parametrize("damage", [b"", b"conten", b"cOntent", b"content and more"])
def test_a_damaged_file_is_made_anew(damage: bytes, two_folders: list[Path]) -> None:
    path = stored("thing-1.bin", writer(b"content"))
    path.write_bytes(damage)
    assert stored("thing-1.bin", writer(b"content")) == path
    assert path.read_bytes() == b"content"
    assert files(two_folders[0]) == [path]


def test_other_bytes_for_the_same_name_do_not_disturb_whoever_has_the_first(two_folders: list[Path]) -> None:
    path = stored("thing-1.bin", writer(b"content"))
    path.write_bytes(b"damaged")
    other = stored("thing-1.bin", writer(b"by another compiler"))
    assert (path.read_bytes(), other.read_bytes()) == (b"damaged", b"by another compiler")
    assert stored("thing-1.bin", never) == other


def test_a_folder_that_cannot_be_written_is_passed_over(two_folders: list[Path]) -> None:
    two_folders[0].parent.parent.write_text("a file where a folder should be")
    path = stored("thing-1.bin", writer(b"content"))
    assert path.parent == two_folders[1]
    assert stored("thing-1.bin", never) == path


def test_a_full_disk_leaves_nothing_and_the_next_folder_is_taken(two_folders: list[Path]) -> None:
    def fail_once(path: Path) -> None:
        path.write_bytes(b"con")
        if two_folders[0] in path.parents:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        path.write_bytes(b"content")

    path = stored("thing-1.bin", fail_once)
    assert path.parent == two_folders[1]
    assert path.read_bytes() == b"content"
    assert files(two_folders[0]) == []


def test_no_folder_at_all(two_folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prefix").write_text("")
    (tmp_path / "xdg").write_text("")
    with pytest.raises(CacheError) as caught:
        stored("thing-1.bin", writer(b"content"))
    assert str(caught.value) == (
        f"thing-1.bin can be kept nowhere: {two_folders[0]} (Not a directory), {two_folders[1]} (Not a directory). "
        "The environment variable NETHACK_PIPE_CACHE chooses another folder"
    )
    monkeypatch.setenv("NETHACK_PIPE_CACHE", str(tmp_path / "xdg" / "mine"))
    with pytest.raises(CacheError, match=rf"nowhere: {tmp_path}/xdg/mine \(Not a directory\)\. "):
        stored("thing-1.bin", writer(b"content"))


def test_what_fails_to_be_made_leaves_nothing(two_folders: list[Path]) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise ValueError("cannot be made")

    with pytest.raises(ValueError, match="cannot be made"):
        stored("thing-1.bin", fail)
    assert files(two_folders[0]) == files(two_folders[1]) == []
