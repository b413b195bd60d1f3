import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from nethack_pipe.game import tables
from nethack_pipe.game.game import Game
from nethack_pipe.game.tables import BL
from tests.helpers.games import WIZARD_KEYS, digest, give_up, go_to_level, monsters, play, press, random_actions, tour
from tests.helpers.play_process import digests

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return digests()


def start(
    before: tuple[str, ...] = (), environment: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.Popen:
    return subprocess.Popen(
        [*before, sys.executable, "-m", "tests.helpers.play_process"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def answer(process: subprocess.Popen) -> dict[str, str]:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error.decode()
    return json.loads(out)


def test_another_process_plays_the_same_games(expected: dict[str, str]) -> None:
    assert answer(start()) == expected


@pytest.mark.parametrize(
    ("date", "zone"),
    [
        pytest.param("2026-10-26 12:00:00", "UTC", id="full moon"),
        pytest.param("2027-06-04 03:00:00", "UTC", id="new moon at night in another year"),
        pytest.param("2026-03-13 00:10:00", "UTC", id="Friday 13th at midnight"),
        pytest.param("2026-10-26 12:00:00", "Asia/Tokyo", id="full moon in Tokyo"),
    ],
)
def test_the_calendar_does_not_matter(date: str, zone: str, expected: dict[str, str]) -> None:
    faketime = shutil.which("faketime")
    if faketime is None:
        pytest.skip("faketime is not installed: that games do not depend on the calendar was not checked")
    assert answer(start((faketime, date), {"TZ": zone})) == expected


def test_earlier_episodes_do_not_matter() -> None:
    actions = random_actions(0, 60)
    with Game(("tty_chars", "glyphs")) as game:
        fresh = [*play(game, 5, actions), digest(give_up(game))]
        for seed in (6, 7):
            play(game, seed, actions)
            give_up(game)
        assert [*play(game, 5, actions), digest(give_up(game))] == fresh
    with Game(WIZARD_KEYS, wizard=True) as game:
        tour(game, 1, (4, 3, 2))
        after = tour(game, 2, (2, 3, 2))
    with Game(WIZARD_KEYS, wizard=True) as game:
        assert tour(game, 2, (2, 3, 2)) == after


def files(game: Game) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in Path(game._nethack._vardir).iterdir() if path.is_file()}


def test_the_record_and_level_files_of_earlier_episodes_are_gone() -> None:
    # By fork: with savestates NetHack writes no file at all.
    with Game(branching="fork") as game:
        game.reset(1)
        new = files(game)
        assert new["record"] == new["xlogfile"] == 0
        give_up(game)
        assert files(game)["xlogfile"] > 0
        game.reset(1)
        assert files(game) == new
    with Game(wizard=True, branching="fork") as game:
        game.reset(1)
        go_to_level(game, 3)
        assert files(game).keys() > new.keys()
        game.reset(1)
        assert files(game) == new


def test_seeds_differ() -> None:
    with Game() as game:
        first = [digest(game.reset(seed)) for seed in (0, 1, 2, 3, 2**61, 2**62 - 1)]
    assert len(set(first)) == 6


def test_sixty_four_games_at_once_in_one_process_change_levels_undisturbed() -> None:
    levels = (2, 1, 3, 2)
    seeds = range(64)
    with Game(WIZARD_KEYS, wizard=True) as game:
        alone = [tour(game, seed, levels, steps=2) for seed in seeds]

    games = [Game(WIZARD_KEYS, wizard=True) for _ in seeds]
    together: list[list[str]] = [[digest(game.reset(seed))] for game, seed in zip(games, seeds, strict=True)]
    for i, level in enumerate(levels):
        for game, seed in zip(games, seeds, strict=True):
            together[seed].append(digest(go_to_level(game, level)))
            together[seed].append(repr(monsters(game)))
        for step in range(2):
            for game, seed in zip(games, seeds, strict=True):
                together[seed].append(digest(game.step(random_actions(1000 * seed + i, 2)[step])))
    # Branches of one game leave the 63 others alone, too.
    for playing in games[:4]:
        playing.branch(lambda game: go_to_level(game, 1).text)
    assert together == alone
    ends = [digest(go_to_level(game, 1)) for game in games]
    for game in games:
        game.close()
    with Game(WIZARD_KEYS, wizard=True) as game:
        for seed in (0, 3, 4, 63):
            tour(game, seed, levels, steps=2)
            assert digest(go_to_level(game, 1)) == ends[seed]


def test_games_in_threads_do_not_disturb_each_other() -> None:
    seeds = range(4)
    results: dict[int, list[str]] = {}

    def work(seed: int) -> None:
        with Game(WIZARD_KEYS, wizard=True) as game:
            results[seed] = tour(game, seed, (2, 1, 3), steps=10)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Game(WIZARD_KEYS, wizard=True) as game:
        assert results == {seed: tour(game, seed, (2, 1, 3), steps=10) for seed in seeds}


def test_eight_processes_in_one_folder_change_levels_undisturbed(tmp_path: Path, expected: dict[str, str]) -> None:
    processes = [start(environment={"TMPDIR": str(tmp_path)}, cwd=tmp_path) for _ in range(8)]
    assert [answer(process) for process in processes] == [expected] * 8
    assert list(tmp_path.iterdir()) == []


def test_two_policies_meet_the_same_second_level() -> None:
    def second_level(seed: int, actions: list[str]) -> bytes:
        with Game(wizard=True) as game:
            game.reset(seed)
            for action in actions:
                game.step(action)
            go_to_level(game, 2)
            seen = press(game, "\x06").observation  # wizard mode's map
            assert seen["blstats"][BL.DEPTH] == 2
            cmap = tables.CMAP_OF_GLYPH[seen["glyphs"]]
            walls = (cmap >= 1) & (cmap <= 11)
            assert walls.sum() > 50
            return walls.tobytes()

    idle = second_level(8, ["search"] * 3)
    assert second_level(8, random_actions(1, 60)) == idle
    assert second_level(9, ["search"] * 3) != idle
