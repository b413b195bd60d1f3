from pathlib import Path

import pytest
import torch

from nethack_pipe.appo import checkpoints


def state(value: float) -> dict[str, object]:
    return {"env_steps": int(value), "model": {"weight": torch.full((3,), value)}, "curr_lr": 1e-4}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    checkpoints.write(tmp_path / "new", 5, state(5.0))
    path = checkpoints.newest(tmp_path / "new", lambda frames: True)
    assert path is not None and checkpoints.frames_of(path) == 5
    back = checkpoints.read(path)
    assert back["env_steps"] == 5 and back["curr_lr"] == 1e-4
    assert back["model"]["weight"].tolist() == [5.0, 5.0, 5.0]


def test_the_newest_usable_one_is_found_and_three_are_kept(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path, lambda frames: True) is None
    for frames in (9, 10, 100, 1000):
        checkpoints.write(tmp_path, frames, state(frames))
    assert [checkpoints.frames_of(path) for path in sorted(tmp_path.iterdir())] == [10, 100, 1000]
    found = checkpoints.newest(tmp_path, lambda frames: frames < 1000)
    assert found is not None and checkpoints.frames_of(found) == 100


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_one_is_passed_over_aloud(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints.write(tmp_path, 1, state(1.0))
    checkpoints.write(tmp_path, 2, state(2.0))
    path = tmp_path / "frames_000000000002.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes({"truncated": data[: len(data) // 2], "flipped": data, "empty": b""}[damage])
    with pytest.raises(ValueError, match="frames_000000000002.pt: not a whole checkpoint"):
        checkpoints.read(path)
    found = checkpoints.newest(tmp_path, lambda frames: True)
    assert found is not None and checkpoints.frames_of(found) == 1
    assert "WARNING" in (said := capsys.readouterr().err) and "frames_000000000002.pt" in said
