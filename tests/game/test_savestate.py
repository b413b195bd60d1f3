"""Savestates are exact, leave nothing behind, and say what they cannot do."""

import copy
import ctypes
import gc
import importlib.metadata
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
from _ctypes import dlclose
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from nle import nethack

from nethack_pipe.game import internals, tables
from nethack_pipe.game.actions import ACTIONS
from nethack_pipe.game.game import Game, GameState, replay
from nethack_pipe.game.savestate import library, saver
from nethack_pipe.game.savestate.library import Unavailable
from nethack_pipe.game.savestate.saver import SaveError, Saver, patched
from tests.helpers.games import (
    digest,
    files,
    give_up,
    go_to_level,
    monsters,
    play,
    play_on,
    press,
    random_actions,
    tour,
)
from tests.helpers.key_games import DIGGER, EnvironmentGame, KeyGame, Plan, branched, main_line, start
from tests.helpers.savestate_process import ALL_KEYS, Process, branches_and_probes, crowded, plans

PLANS = [
    Plan(1),
    Plan(2, lgen=False),
    Plan(3, DIGGER),
    Plan(4, DIGGER, lgen=False),
    Plan(5, wizard=True),
    Plan(6, "wiz-elf-cha-fem", wizard=True, lgen=False),
    Plan(7, env="NetHackScore-v0"),
    Plan(8, env="NetHackScore-v0", limits=(5000, 70), lgen=False),
    Plan(9, "@", env="NetHackChallenge-v0"),
]


@pytest.fixture(scope="module", autouse=True)
def reference() -> Iterator[Process]:
    """The replays, which run beside the other tests."""
    process = Process("replays", plans(PLANS), NETHACK_PIPE_BRANCHING="fork")
    yield process
    process.end()


def by_savestate(*, wizard: bool = False, **arguments: object) -> Game:
    return Game(ALL_KEYS, wizard=wizard, branching="savestate", **arguments)  # type: ignore[arg-type]


def by_fork(*, wizard: bool = False, **arguments: object) -> Game:
    """On NLE's own library."""
    return Game(ALL_KEYS, wizard=wizard, branching="fork", **arguments)  # type: ignore[arg-type]


# -- Through Game ------------------------------------------------------------------------------------------------------


def among_others(game: Game) -> None:
    """Peaceful and hostile monsters about, things on the floor: every action finds something to do."""
    game.reset(31)
    press(game, "\x07peaceful dwarf\r" * 4 + "\x07hill orc\r")
    play_on(game, ["drop", "drop", "drop"])


def hallucinating(game: Game) -> None:
    game.reset(34)
    press(game, "\x07peaceful dwarf\r" * 4 + "\x17uncursed potion of hallucination\r")
    potions = game.last.observation["inv_oclasses"] == tables.POTION_CLASS
    game.step(f"drink:{chr(game.last.observation['inv_letters'][potions][-1])}")


def on_stairs(game: Game) -> None:
    game.reset(32)
    go_to_level(game, 2)
    press(game, "\x06_>.")


def walking(game: Game) -> None:
    game.reset(33)
    play_on(game, random_actions(33, 30))


@pytest.mark.parametrize(
    ("wizard", "scene"), [(True, among_others), (True, hallucinating), (True, on_stairs), (False, walking)]
)
def test_probe_equals_fork_and_replay_in_every_field(wizard: bool, scene: Callable[[Game], None]) -> None:
    walk = random_actions(30, 12)
    with by_savestate(wizard=wizard) as game, by_fork(wizard=wizard) as forked, by_fork(wizard=wizard) as replayed:
        scene(game)
        scene(forked)
        seen = []
        for done in (0, 6):
            steps = game.probe(ACTIONS)
            seen += steps
            digests = dict(zip(ACTIONS, map(digest, steps), strict=True))
            assert digests == dict(zip(ACTIONS, map(digest, forked.probe(ACTIONS)), strict=True))
            for action in ACTIONS:
                scene(replayed)
                play_on(replayed, walk[:done])
                assert digests[action] == digest(replayed.step(action)), (done, action)
            assert play_on(game, walk[done : done + 6]) == play_on(forked, walk[done : done + 6])
        assert len(game.actions) == len(forked.actions)
    assert len({digest(step) for step in seen}) > 15
    assert {step.took_time for step in seen} == {True, False}
    assert all(step.observation["inv_worn"].any() for step in seen)
    if scene is among_others:
        assert any(step.observation["peaceful"].sum() >= 2 for step in seen)
        assert any("Really attack" in step.text for step in seen)
        assert any("  " in step.text for step in seen)


def tree(game: Game, depth: int, draw: random.Random) -> list:
    """Branches inside of branches, some of them on other levels, some to the game's end."""
    if game.last.done or depth == 0:
        return []
    result: list = []
    for _ in range(3):
        seed = draw.randrange(1 << 30)

        def play(game: Game, seed: int = seed) -> list:
            draw = random.Random(seed)
            kind = draw.random()
            if kind < 0.4:
                here = [digest(go_to_level(game, draw.randrange(1, 6)))]
            elif kind < 0.5:
                here = [digest(give_up(game))]
            else:
                here = play_on(game, random_actions(seed, 4))
            return [*here, repr(monsters(game)), tree(game, depth - 1, draw), play_on(game, ["search", "kick"])]

        result.append(game.branch(play))
        result.append(play_on(game, random_actions(seed + 1, 2)))
    return result


def test_branches_inside_branches_equal_those_by_fork() -> None:
    with by_savestate(wizard=True) as game, by_fork(wizard=True) as forked:
        game.reset(41)
        forked.reset(41)
        grown = tree(game, 3, random.Random(41))
        assert grown == tree(forked, 3, random.Random(41))
        assert digest(go_to_level(game, 1)) == digest(go_to_level(forked, 1))
        assert (game.actions, game.how) == (forked.actions, None)
    assert len(str(grown)) > 15_000


def test_a_game_goes_back_to_its_moments_in_any_order_also_from_its_end() -> None:
    levels = (2, 1, 3, 2, 4, 1)
    walks = [random_actions(50 + number, 6) for number in range(12)]

    def one_moment(game: Game, number: int) -> list[str]:
        there = [digest(go_to_level(game, levels[number // 2]))] if number % 2 else []
        return there + play_on(game, walks[number])

    with by_fork(wizard=True) as plain:
        plain.reset(51)
        expected = [one_moment(plain, number) for number in range(12)]
        end = digest(give_up(plain))
    with by_savestate(wizard=True) as game:
        game.reset(51)
        states: list[GameState] = []
        for number in range(12):
            states.append(game.save())
            assert one_moment(game, number) == expected[number]
        last = game.save()
        assert digest(give_up(game)) == end and game.how == "QUIT"
        over = game.save()
        draw = random.Random(0)
        for _ in range(60):
            number = draw.randrange(12)
            step = game.load(states[number])
            assert game.last is step and not step.done and game.how is None
            assert len(game.actions) == 6 * number
            for following in range(number, min(number + draw.randrange(1, 4), 12)):
                assert one_moment(game, following) == expected[following]
            if draw.random() < 0.3:
                give_up(game)
        # The moments may also be forgotten in any order.
        draw.shuffle(states)
        while states:
            game.load(states.pop())
            game.step("search")
        assert game.load(over).done and game.how == "QUIT"
        with pytest.raises(RuntimeError, match="is over"):
            game.step("search")
        game.load(last)
        assert digest(give_up(game)) == end


class State(ctypes.Structure):
    """struct state of savestate.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("instance", "next")),
        *((name, ctypes.c_size_t) for name in ("capacity", "size", "arena_top", "arena_offset")),
        ("bytes", ctypes.c_void_p),
    ]


def memory(state: GameState) -> np.ndarray:
    """The words of memory that a state holds."""
    held = State.from_address(state.savestate.pointer)
    return np.frombuffer(ctypes.string_at(held.bytes, (held.arena_offset + held.arena_top) // 8 * 8), np.uint64)


def test_the_same_keys_lead_to_the_same_memory_whatever_was_in_between() -> None:
    """Also of what NetHack never initialised: unused parts of allocated blocks, left-overs on the stack."""

    def play(game: Game) -> np.ndarray:
        play_on(game, random_actions(7, 20))
        go_to_level(game, 3)
        press(game, "\x07gnome\r" * 20)
        play_on(game, random_actions(8, 20))
        return memory(game.save())

    def play_otherwise(game: Game, level: int) -> None:
        go_to_level(game, level)
        press(game, "\x07dragon\r" * 200)
        play_on(game, random_actions(9, 20))
        give_up(game)

    with by_savestate(wizard=True) as game:
        for seed in range(3):
            game.reset(seed)
            start = game.save()
            # At its first call of a function the dynamic linker, too, leaves something on the stack.
            play(game)
            game.load(start)
            play_otherwise(game, 2)
            game.load(start)
            expected = play(game)
            game.load(start)
            assert len(memory(game.save())) < len(expected)
            play_otherwise(game, 12)
            game.load(start)
            found = play(game)
            assert len(found) == len(expected) > 60_000
            # Files are kept elsewhere in memory each time.
            assert np.sum(found != expected) <= 20


def test_what_is_worn_is_looked_up_again_after_going_back() -> None:
    """Not verbose, so that nothing is said about the drop that moves worn things to other places of the inventory."""
    options = [*nethack.NETHACKOPTIONS, "!verbose"]
    arguments: Any = {"character": "sam-hum-law-mal", "options": options}
    with by_savestate(**arguments) as game, by_fork(**arguments) as plain:
        for one in (game, plain):
            one.reset(1)
        branch, expected = (one.branch(lambda game: digest(game.step("drop:c"))) for one in (game, plain))
        assert branch == expected
        worn = game.last.observation["inv_worn"].tolist()
        assert digest(game.step("drop:c")) == digest(plain.step("drop:c")) == branch
        assert game.last.text == "" and game.last.observation["inv_worn"].tolist() != worn


def test_reseeded_branches_equal_reseeded_replays_also_on_new_levels() -> None:
    def reseeded(game: Game, seed: int) -> list[str]:
        game.reseed(seed)
        below = play_on(game, random_actions(seed, 15))
        return [*below, digest(go_to_level(game, 5)), repr(monsters(game)), *play_on(game, random_actions(seed, 10))]

    with by_savestate(wizard=True) as game, by_fork(wizard=True) as plain:
        game.reset(61)
        walk = random_actions(61, 10)
        play_on(game, walk)
        own = game.branch(lambda game: digest(go_to_level(game, 5)))
        for seed in (1, 2, 3):
            branch = game.branch(lambda game, seed=seed: reseeded(game, seed))  # type: ignore[misc]
            play(plain, 61, walk)
            assert branch == reseeded(plain, seed)
        play(plain, 61, walk)
        assert digest(go_to_level(plain, 5)) == own == digest(go_to_level(game, 5))


# -- Many games at once ------------------------------------------------------------------------------------------------


def branching_tour(game: Game, seed: int) -> Iterator[str]:
    """One digest after the other; with branches in between that die, change level or both."""
    yield digest(game.reset(seed))
    for number, level in enumerate((3, 2, 1, 3)):
        game.branch(lambda game: (go_to_level(game, 4), play_on(game, ["kick"]), give_up(game).done))
        yield digest(go_to_level(game, level))
        yield repr(monsters(game))
        for action in random_actions(seed + number, 3):
            yield game.branch(lambda game: play_on(game, random_actions(seed, 6))[-1])
            yield digest(game.step(action))


def alone(seeds: range) -> list[list[str]]:
    with by_fork(wizard=True) as game:
        return [list(branching_tour(game, seed)) for seed in seeds]


def test_a_dozen_games_that_take_turns_are_as_they_are_alone() -> None:
    seeds = range(70, 82)
    games = [by_savestate(wizard=True) for _ in seeds]
    tours = [branching_tour(game, seed) for game, seed in zip(games, seeds, strict=True)]
    together = list(zip(*tours, strict=True))
    for game in games:
        game.close()
    expected = alone(range(70, 74))
    assert [list(tour) for tour in zip(*together, strict=True)][:4] == expected
    with by_savestate(wizard=True) as game:
        assert list(branching_tour(game, 81)) == [digests[-1] for digests in together]


def test_games_in_threads_are_as_they_are_alone() -> None:
    seeds = range(90, 94)
    found: dict[int, list[str]] = {}

    def work(seed: int) -> None:
        with by_savestate(wizard=True) as game:
            found[seed] = list(branching_tour(game, seed))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert [found[seed] for seed in seeds] == alone(seeds)


# -- Leaks -------------------------------------------------------------------------------------------------------------


LIBC = ctypes.CDLL(None)


class MallocInfo(ctypes.Structure):
    """struct mallinfo2 of glibc >= 2.33."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    ]


def allocated() -> int:
    """kB that malloc has given out; 0 where it does not tell."""
    if not hasattr(LIBC, "mallinfo2"):
        return 0
    LIBC.mallinfo2.restype = MallocInfo
    told = LIBC.mallinfo2()
    return (told.uordblks + told.hblkhd) // 1024


def held(game: Game | None = None) -> dict[str, int]:
    """What this process holds: kB of memory, memory maps, descriptors, files in the game's and the temporary folder."""
    gc.collect()
    if hasattr(LIBC, "malloc_trim"):  # what other tests have freed is given back before, not by chance in between
        LIBC.malloc_trim(0)
    return {
        "resident kB": int(Path("/proc/self/statm").read_text().split()[1]) * 4,
        "allocated kB": allocated(),
        "maps": Path("/proc/self/maps").read_text().count("\n"),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "game's files": len(files(game)) if game else 0,
        "temporary files": len(os.listdir(tempfile.gettempdir())),
    }


def assert_no_more(after: dict[str, int], before: dict[str, int]) -> None:
    """But for what malloc keeps for later and Python's own caches."""
    allowed = {"resident kB": 4000, "allocated kB": 200, "maps": 20}
    too_much = [name for name, value in after.items() if value > before[name] + allowed.get(name, 0)]
    assert too_much == [], (before, after)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder in which nobody else works."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_resets_branches_and_ends_leave_nothing(temporary: Path) -> None:
    with by_savestate(wizard=True) as game:
        for seed in range(400):
            if seed == 60:
                before = held(game)
            game.reset(seed)
            kept = game.save()
            game.branch(lambda game: give_up(game).done)
            game.branch(lambda game: (go_to_level(game, 3), go_to_level(game, 1), give_up(game).done))
            if seed % 2:
                go_to_level(game, 2)
                other = game.save()
                game.branch(lambda game: game.step("search").done)
                game.load(kept)
                game.load(other)
            if seed % 3 == 0:
                give_up(game)
        assert_no_more(held(game), before)
    assert list(temporary.iterdir()) == []


def test_games_made_and_closed_leave_nothing(temporary: Path) -> None:
    states: list[GameState] = []
    for number in range(60):
        if number == 10:
            states.clear()
            before = held()
        game = by_savestate()
        game.reset(number)
        states.append(game.save())
        game.step("search")
        if number % 2:
            game.close()
        del game
        if number % 5 == 4:
            states.clear()
    assert_no_more(held(), before)


def test_thousands_of_loads_and_hundreds_of_deaths_leave_nothing(temporary: Path) -> None:
    with by_savestate() as game:
        game.reset(1)
        state = game.save()
        for number in range(20_000):
            if number == 500:
                before = held(game)
            passing = game.save()
            game.load(passing if number % 2 else state)
            if number % 100 == 0:
                del passing
                several = [game.save() for _ in range(6)]
                several.clear()
        assert_no_more(held(game), before)
        for number in range(350):
            if number == 50:
                before = held(game)
            game.branch(lambda game: give_up(game).done)
        assert_no_more(held(game), before)
        assert digest(game.step("search")) == digest(replay(1, ["search"], observation_keys=ALL_KEYS).last)


# -- What cannot be done is told, and nothing is lost ------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ttyrec", "pixels"])
def test_recordings_and_pixels_are_refused_and_the_game_goes_on(how: str, tmp_path: Path) -> None:
    class Watched(EnvironmentGame):
        def _make(self) -> gymnasium.Env:
            special: dict[str, Any] = {"render_mode": "pixel"}
            if how == "ttyrec":
                special = {"save_ttyrec_every": 1, "savedir": str(tmp_path / str(id(self)))}
            env: Any = gymnasium.make("NetHackScore-v0", observation_keys=ALL_KEYS, fix_moon_phase=True, **special)
            self._nethack = env.unwrapped.nethack
            return env

    keys = [0, 1, 2, 3] * 10
    with patched():
        game = Watched(Plan(1, env="NetHackScore-v0"))
    with pytest.raises(SaveError, match="a recording cannot be taken back" if how == "ttyrec" else "draw pixels"):
        Saver(game.game)
    plain = Watched(Plan(1, env="NetHackScore-v0"))
    assert game.follow(keys) == plain.follow(keys)
    game.close()
    plain.close()


def test_a_bare_nethack_that_records_is_refused(tmp_path: Path) -> None:
    with patched():
        game = nethack.Nethack(ttyrec=str(tmp_path / "game.ttyrec3.bz2"))
    with pytest.raises(SaveError, match=r"game\.ttyrec3\.bz2: a recording cannot be taken back"):
        Saver(game)
    game.close()


def test_only_games_made_on_the_patched_library_can_be_saved() -> None:
    before = nethack.nethack.DLPATH
    with patched():
        not_begun = nethack.Nethack(ttyrec=None)
        meanwhile = nethack.nethack.DLPATH
    assert before == nethack.nethack.DLPATH != meanwhile
    plain = KeyGame(Plan(1))
    for game in (not_begun, plain.game):
        with pytest.raises(SaveError, match="has not begun, or does not run on the patched library"):
            Saver(game).save()
        game.close()


def test_states_of_other_games_resets_and_processes_are_refused() -> None:
    expected = play(by_fork(), 3, ["search"] * 6)
    with by_savestate() as game, by_savestate() as other:
        assert digest(game.reset(3)) == expected[0]
        other.reset(3)
        state = game.save()
        with pytest.raises(SaveError, match="of another game"):
            other.load(state)
        assert digest(other.step("search")) == expected[1]
        with pytest.raises(TypeError, match="expected a savestate, got str"):
            game._saver.load("state")  # type: ignore[union-attr, arg-type]
        assert digest(game.step("search")) == expected[1]

        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="holds in its own process only"):
                copied(state)
        with pytest.raises(TypeError, match="holds in its own process only"):
            game.branch(lambda game: game.save())
        assert digest(game.step("search")) == expected[2]

        child = os.fork()
        if child == 0:
            code = 2
            try:
                game.load(state)
            except SaveError as error:
                code = 0 if f"of another process ({os.getppid()})" in str(error) else 1
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert digest(game.step("search")) == expected[3]

        game.load(state)
        assert digest(game.step("search")) == expected[1]
        game.reset(4)
        kept = digest(game.last)
        with pytest.raises(SaveError, match="of an earlier game: the game was reset or closed"):
            game.load(state)
        assert digest(game.last) == kept
        assert play(game, 3, ["search"] * 6) == expected
        state = game.save()
        game.close()
        with pytest.raises(SaveError, match="of an earlier game: the game was reset or closed"):
            game.load(state)


def test_a_game_by_fork_has_no_states() -> None:
    with by_savestate() as game, by_fork() as forked:
        game.reset(1)
        forked.reset(1)
        with pytest.raises(SaveError, match=r"by fork: it has branch\(\) and probe\(\)"):
            forked.save()
        with pytest.raises(SaveError, match="by fork: it has no savestates"):
            forked.load(game.save())


def test_a_forked_process_branches_its_copy_and_leaves_the_game_alone() -> None:
    with by_savestate(wizard=True) as game, by_fork(wizard=True) as plain:
        for one in (game, plain):
            one.reset(5)
            go_to_level(one, 2)
        kept = game.save()

        def in_a_copy(game: Game) -> list:
            own = [digest(game.branch(lambda game: go_to_level(game, 4)).copy()), digest(go_to_level(game, 1))]
            give_up(game)
            return own

        assert game._fork(in_a_copy) == plain.branch(in_a_copy)
        for one in (game, plain):
            go_to_level(one, 1)
        assert digest(game.last) == digest(plain.last)
        game.load(kept)
        play_on(game, ["search"])
        assert game.last.observation["blstats"][12] == 2


def test_a_full_arena_only_means_that_games_are_branched_by_fork() -> None:
    small, tiny = Process("small_arena"), Process("tiny_arena")
    with by_fork(wizard=True) as game:
        expected = crowded(game, lambda game: None)
        after = digest(game.step("search"))
    found = small.answer()
    # After reset; after the two branches that need more than there is; no more; after the next reset.
    assert found["can be saved"] == [True, True, True, False, True, False, True]
    assert found["digests"][: len(expected)] == expected
    assert found["digests"][-1] == after
    # One for each line that branches: Python shows a warning once per place.
    texts = [text for text, _ in found["warnings"]]
    assert 1 <= len(texts) <= 3
    assert set(texts) == {
        "game 1: the game cannot be saved: NetHack needs more memory than the arena has; it is branched by fork"
    }
    assert {kind for _, kind in found["warnings"]} == {"RuntimeWarning"}
    found = tiny.answer()
    assert (found["digests"], found["can be saved"]) == (expected, False)


def test_without_savestates_there_is_one_warning_and_the_same_results(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def fall_back(first: str = "", **environment: str) -> Process:
        return Process("fall_back", first=first, NETHACK_PIPE_BRANCHING="", **environment)

    causes = {
        "failed with status 1": fall_back(CC="/bin/false", NETHACK_PIPE_CACHE=str(tmp_path / "cache")),
        "can be kept nowhere": fall_back(NETHACK_PIPE_CACHE=str(tmp_path / "file" / "cache")),
        "made for nle 1.3.0, installed is 1.2.0": fall_back(
            "import importlib.metadata; importlib.metadata.version = lambda name: '1.2.0'"
        ),
        "it needs fcntl, qsort, which is not known": fall_back(
            "from nethack_pipe.game.savestate import library; library._HARMLESS -= {'fcntl', 'qsort'}"
        ),
    }
    with by_fork() as game:
        expected = branches_and_probes(game, 21)
    for cause, process in causes.items():
        found = process.answer()
        (warning,) = found["warnings"]
        assert warning.startswith("no savestates: ") and cause in warning and "branched by fork instead" in warning
        assert found["digests"] == expected
    with by_savestate() as game:
        assert branches_and_probes(game, 21) == expected


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETHACK_PIPE_BRANCHING", "spoon")
    with pytest.raises(ValueError, match=r"NETHACK_PIPE_BRANCHING: expected savestate or fork .*, got 'spoon'"):
        Game()
    monkeypatch.setenv("NETHACK_PIPE_BRANCHING", "fork")
    with Game() as game:
        game.reset(1)
        with pytest.raises(SaveError, match="by fork"):
            game.save()
    monkeypatch.setenv("NETHACK_PIPE_BRANCHING", "savestate")
    with Game() as game:
        game.reset(1)
        assert game.save().savestate.nbytes > 100_000
    monkeypatch.setattr(saver, "hooks", library.hooks.__wrapped__)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.4.0")
    with pytest.raises(Unavailable, match=r"made for nle 1\.3\.0, installed is 1\.4\.0"):
        Game()


# -- Files and options -------------------------------------------------------------------------------------------------


def test_nothing_is_written_to_the_games_folder() -> None:
    def everything(folder: Path) -> dict[str, tuple[int, int]]:
        return {
            str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
            for path in folder.rglob("*")
        }

    with by_savestate(wizard=True) as game, by_fork(wizard=True) as plain:
        folder = Path(game._nethack._vardir)
        game.reset(1)
        new = everything(folder)
        levels = (2, 5, 1, 10, 5, 2, 1)
        assert tour(game, 1, levels) == tour(plain, 1, levels)
        assert len(files(plain)) > len(new)
        assert everything(folder) == new
        # What NetHack gives back is used again.
        assert game.save().savestate.nbytes < 900_000
        game.branch(lambda game: (go_to_level(game, 3), give_up(game).done))
        assert digest(give_up(game)) == digest(give_up(plain))
        assert everything(folder) == new
        # The record of the first game is not there in the second.
        again = [digest(game.reset(2)), digest(give_up(game))]
        assert again == [digest(plain.reset(2)), digest(give_up(plain))]


def test_deleted_and_half_written_files_go_back() -> None:
    with by_savestate(wizard=True) as game, by_fork(wizard=True) as plain:
        for one in (game, plain):
            one.reset(1)
            go_to_level(one, 2)
        before = held(game)
        state = game.save()
        own = ctypes.CDLL(game._nethack.dlpath)  # NetHack's own functions for its files
        try:
            said = ctypes.create_string_buffer(256)
            content = os.read(own.open_levelfile(1, said), 1 << 20)
            assert len(content) > 1000
            with pytest.raises(SaveError, match="in the middle of writing a file"):
                game.save()
            game.load(state)
            own.delete_levelfile(1)
            assert own.open_levelfile(1, said) == -1 and b'Cannot open file "1lock.1"' in said.value
            assert os.write(own.create_levelfile(1, said), b"another") == 7
            game.load(state)
            assert os.read(own.open_levelfile(1, said), 1 << 20) == content
            game.load(state)
        finally:
            dlclose(own._handle)
        assert held(game)["descriptors"] == before["descriptors"]
        assert digest(go_to_level(game, 1)) == digest(go_to_level(plain, 1))
        game.save()


def test_a_killed_game_leaves_its_empty_folder(tmp_path: Path) -> None:
    process = Process("be_killed", TMPDIR=str(tmp_path))
    assert process.wait() == -signal.SIGKILL
    (folder,) = tmp_path.iterdir()
    left = {path.name: path.lstat().st_size for path in folder.iterdir() if not path.is_symlink() and path.is_file()}
    assert left == {"logfile": 0, "perm": 0, "record": 0, "xlogfile": 0}
    assert list((folder / "save").iterdir()) == []


def test_options_with_regular_expressions(tmp_path: Path) -> None:
    # "@" and a path, to which NLE appends the hero's name as the next option.
    (tmp_path / "rc,name:Agent-mon-hum-neu-mal").write_text(
        'OPTIONS=name:Agent-mon-hum-neu-mal,menucolors,autopickup,pickup_types:$?!/%\nMSGTYPE=hide "You hear .*"\n'
        'MSGTYPE=stop "^It.s a wall"\nMENUCOLOR="apple|orange"=red\nMENUCOLOR="potions? of"=green\n'
        'AUTOPICKUP_EXCEPTION="<.*apple"\nAUTOPICKUP_EXCEPTION=">.*orange"\n'
    )
    file = [f"@{tmp_path}/rc"]
    inline = [*nethack.NETHACKOPTIONS, "menucolors", 'menucolor:"apple"=red']

    def inventory(game: Game) -> tuple[str, bool]:
        game._press(ord("i"))
        colours = game.last.observation["tty_colors"]
        red = (colours == 1).any()
        return digest(press(game, "")), bool(red)

    def played(game: Game) -> list:
        found: list = [digest(game.reset(11)), inventory(game)]
        assert found[-1][1]
        for number in range(3):
            found += game.branch(lambda game: play_on(game, ["drop", "drop", *random_actions(11, 30)]))
            found.append(game.branch(lambda game: (inventory(game), digest(give_up(game)))))
            found += play_on(game, ["drop", "north", *random_actions(12 + number, 6)])
            found.append(inventory(game))
        return found

    for options in (file, inline):
        with by_savestate(options=options) as game, by_fork(options=options) as plain:
            assert played(game) == played(plain)


def test_the_save_command_in_a_branch_does_no_harm() -> None:
    def save_command(game: Game) -> list[str]:
        return [digest(press(game, "Sy")), *play_on(game, ["search", "east"])]

    with by_savestate() as game, by_fork() as plain:
        for one in (game, plain):
            one.reset(12)
        assert game.branch(save_command) == plain.branch(save_command)
        assert play_on(game, random_actions(12, 20)) == play_on(plain, random_actions(12, 20))


# -- Key by key: last, the replays take their time --------------------------------------------------------------------


def test_every_branch_equals_its_replay_in_a_process_without_savestates(reference: Process) -> None:
    found = {}
    for plan in PLANS:
        with patched():
            game = start(plan)
        found[str(plan)] = branched(game)
        game.close()
    replays = reference.answer()
    assert replays.keys() == found.keys()
    for plan in PLANS:
        name = str(plan)
        main, digests = replays[name]
        result = found[name]
        assert [i for i, digest in enumerate(result.branches) if digest != digests[i]] == [], name
        assert [i for i, digest in result.again.items() if digest != digests[i]] == [], name
        assert (result.main, len(result.branches)) == (main, len(digests)), name
    results = found.values()
    assert sum(bool(digest) for result in results for digest in result.branches) > 600
    assert sum(result.asking for result in results) > 150
    assert sum(result.ended for result in results) > 30
    assert sum(result.changed_level for result in results) > 30


def test_probe_of_keys_shows_what_pressing_them_shows() -> None:
    """Saver.probe, with no view of a Game's."""
    plan = Plan(1)
    keys = [ord(key) for key in "hjklsi:#,\x1b\r y"]
    with patched():
        game, other = start(plan), start(plan)
    by_probe, by_press = Saver(game.game), Saver(other.game)
    statuses = set()
    for key in [*main_line(plan)[:40], *(ord(key) for key in "\x1b\x1b\x1b\xf1y" + " " * 12)]:
        state, rows, outcomes = by_probe.save(), *by_probe.probe(by_probe.save(), keys)
        observations = by_probe.observations(rows)
        start_again = by_press.save()
        for i, probed in enumerate(keys):
            other.press(probed)
            for name, array in other.game._obs_buffers.items():
                np.testing.assert_array_equal(observations[name][i], array, name)
            assert (outcomes["status"][i] == saver.OVER) == other.over
            if outcomes["status"][i] == saver.AWAITS_COMMAND:
                assert not other.asks and outcomes["turn"][i] == other.game._obs_buffers["blstats"][20]
            by_press.load(start_again)
        statuses |= set(outcomes["status"].tolist())
        by_probe.load(state)
        for one in (game, other):
            one.press(key)
        if game.over:
            break
    assert statuses == {saver.AWAITS_COMMAND, saver.ASKS, saver.OVER}
    game.close()
    other.close()


def test_where_the_data_file_was_read_to_belongs_to_the_state() -> None:
    """NetHack reads a text page by page from where it thinks that it is in its data file."""
    first_page, next_page, another_text = ([ord(key) for key in keys] for keys in ("?b", " ", "\x1b?d  "))
    plain = start(Plan(1))
    plain.follow(first_page)
    expected = plain.follow(next_page)
    plain.close()
    with patched():
        game = start(Plan(1))
    saver = Saver(game.game)
    game.follow(first_page)
    state = saver.save()
    for _ in range(2):
        game.follow(another_text)
        saver.load(state)
        assert game.follow(next_page) == expected
        saver.load(state)
    game.close()


def test_truncation_inside_a_branch() -> None:
    """Step counts go back with the game."""
    plan = Plan(7, env="NetHackScore-v0", limits=(20, 5000))
    keys = main_line(plan)[:15]
    with patched():
        game = start(plan)
    saver = Saver(game.game)
    game.follow(keys)
    state = saver.save()
    for _ in range(3):
        truncated = [game.game.step(1)[3] for _ in range(6)]
        assert truncated == [False] * 4 + [True] * 2
        saver.load(state)
    game.close()

    plan = Plan(8, env="NetHackScore-v0", limits=(5000, 20))
    with patched():
        game = start(plan)
    saver = Saver(game.game)
    game.follow(keys)
    state = saver.save()
    for _ in range(3):
        results = []
        while not game.over:
            results.append(game.game.step(1))
        assert [terminated for _, _, terminated, _, _ in results] == [False] * (len(results) - 1) + [True]
        assert int(results[-1][-1]["end_status"]) == -1
        assert 4 <= len(results) <= 6
        saver.load(state)
    game.close()


def test_what_an_environment_collects_goes_back_with_it() -> None:
    """NetHackScout rewards by a dictionary of what it has explored."""
    with patched():
        game = start(Plan(7, env="NetHackScout-v0"))
    saver = Saver(game.game)
    keys = main_line(game.plan)
    game.follow(keys[:20])
    state = saver.save()
    first = game.follow(keys[20:60])
    for _ in range(2):
        saver.load(state)
        assert game.follow(keys[20:60]) == first
    game.close()


def test_arrays_that_come_too_late_are_refused() -> None:
    with patched():
        game = start(Plan(1))
    Saver(game.game).save()
    with pytest.raises(SaveError, match="counts cannot become a part of this game's states"):
        Saver(game.game, {"counts": np.zeros(8)}).save()
    game.close()


def test_a_game_that_is_over_cannot_be_probed() -> None:
    with patched():
        game = start(Plan(1))
    game.follow([ord(key) for key in "\xf1y" + " " * 12])
    assert game.over
    saver = Saver(game.game)
    with pytest.raises(SaveError, match="the game is over"):
        saver.probe(saver.save(), [ord("s")])
    assert game.over
    game.close()


def test_a_recording_that_begins_later_is_refused_too(tmp_path: Path) -> None:
    with patched():
        game = nethack.Nethack(ttyrec=None)
    game.reset()
    saver = Saver(game)
    saver.save()
    game.reset(str(tmp_path / "later.ttyrec3.bz2"))
    with pytest.raises(SaveError, match="a recording cannot be taken back"):
        saver.save()
    game.close()


def test_without_address_space_games_are_branched_by_fork() -> None:
    found = Process("no_address_space").answer()
    with by_fork() as game:
        assert found["digests"] == branches_and_probes(game, 21)
    assert "no address space is left for the arena; it is branched by fork" in found["warnings"][0]


def mapped_from(game: Game, name: str) -> str:
    """The file that lies where the game's own copy of the library has `name`."""
    copy_of_library = ctypes.CDLL(game._nethack.dlpath)
    address = internals._address(copy_of_library, name)
    dlclose(copy_of_library._handle)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, *_, file = line.split(maxsplit=5)
        first, last = (int(text, 16) for text in addresses.split("-"))
        if first <= address < last:
            return file
    raise AssertionError(f"{name} is not mapped")


def test_games_share_what_is_never_written_and_nothing_else() -> None:
    file = str(library.hooks().patched)
    with by_savestate() as first, by_savestate() as second:
        first.reset(1)
        for seed in (2, 3):
            second.reset(seed)
            for game in (first, second):
                assert mapped_from(game, "nle_step") == mapped_from(game, "vowels") == file
                assert mapped_from(game, "youmonst") != file
        second.step("search")
        twice = [digest(first.step("north")), digest(second.step("north"))]
    with by_fork() as first, by_fork() as second:
        first.reset(1)
        second.reset(3)
        second.step("search")
        assert [digest(first.step("north")), digest(second.step("north"))] == twice


def test_a_game_whose_library_was_deleted_plays_on_on_its_own_copy(tmp_path: Path) -> None:
    found = Process("lost_library", NETHACK_PIPE_CACHE=str(tmp_path)).answer()
    with by_fork() as game:
        assert found == branches_and_probes(game, 21)
