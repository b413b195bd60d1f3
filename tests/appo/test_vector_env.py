import os
import re
import time
from functools import partial

import numpy as np
import pytest

from nethack_pipe.appo import vector_env
from nethack_pipe.appo.vector_env import GameError, VectorEnv
from tests.helpers.toy_env import NUM_ACTIONS, OBSERVATION_SIZE, ToyEnv


def seed_of(number: int) -> int:
    return 3 * number + 1


def sixteen_times(number: int) -> int:
    return 16 * number


def play(games: VectorEnv, steps: int, first: int = 0) -> tuple[list[np.ndarray], list[tuple[int, dict[str, float]]]]:
    """All arrays of `steps` steps with the first legal action in every game, and the statistics of the ended games."""
    observations = games.reset(first)
    arrays, ended = list(observations.values()), []
    for _ in range(steps):
        actions = observations["action_mask"].argmax(axis=1)
        observations, rewards, terminated, truncated, finished = games.step(actions)
        arrays += [*observations.values(), rewards, terminated, truncated]
        ended += sorted(finished.items())
    return arrays, ended


def test_any_number_of_processes_plays_the_same() -> None:
    results = []
    for processes in (1, 2, 3, 7):
        games = VectorEnv(ToyEnv, 5, processes, seed_of)
        results.append(play(games, 40, first=1000))
        games.close()
    arrays, ended = results[0]
    assert len(ended) >= 5 * 2
    for other_arrays, other_ended in results[1:]:
        assert other_ended == ended
        assert all(np.array_equal(a, b) for a, b in zip(arrays, other_arrays, strict=True))


def test_shapes_dtypes_and_the_first_reward() -> None:
    games = VectorEnv(ToyEnv, 3, 2, seed_of)
    alone = ToyEnv()
    observations = games.reset(4)
    expected, _ = alone.reset(seed=seed_of(4 + 1))
    assert observations["obs"].shape == (3, OBSERVATION_SIZE) and observations["obs"].dtype == np.float32
    assert np.array_equal(observations["obs"][1], expected["obs"])
    assert games.action_space.n == NUM_ACTIONS
    right = observations["obs"][:, :NUM_ACTIONS].argmax(axis=1)
    following, rewards, terminated, truncated, ended = games.step(right)
    assert rewards.dtype == np.float32 and rewards.tolist() == [1.0, 1.0, 1.0]
    assert terminated.dtype == truncated.dtype == np.bool_ and not terminated.any() and ended == {}
    expected, *_ = alone.step(int(right[1]))
    assert np.array_equal(following["obs"][1], expected["obs"])
    assert np.array_equal(observations["obs"][1], alone_first(5))  # what was returned before is not overwritten
    games.close()


def alone_first(number: int) -> np.ndarray:
    return ToyEnv().reset(seed=seed_of(number))[0]["obs"]


def test_each_game_number_is_played_once_and_ended_games_go_on_with_the_next() -> None:
    games = VectorEnv(ToyEnv, 4, 2, seed_of)
    _, ended = play(games, 64, first=100)
    seeds = {(game, stats["seed"]) for game, stats in ended}
    assert len(seeds) == len(ended) >= 4 * 4
    for game in range(4):
        own = sorted(seed for g, seed in seeds if g == game)
        assert own == [seed_of(100 + game + 4 * episode) for episode in range(len(own))]
    games.close()


def test_after_a_moment_the_same_game_goes_on_and_no_number_is_used_up() -> None:
    games = VectorEnv(partial(ToyEnv, moments=True), 4, 2, seed_of)
    _, ended = play(games, 64, first=100)
    whole = [(game, stats["seed"]) for game, stats in ended if stats]
    cut = [game for game, stats in ended if not stats]
    for game in range(4):
        own = [seed for g, seed in whole if g == game]
        assert own == [seed_of(100 + game + 4 * episode) for episode in range(len(own))]
        assert cut.count(game) - sum(int(seed) & 4 > 0 for seed in own) in (0, 1)  # the last one may not be over yet
    assert 8 <= len(cut) < len(whole)
    games.close()


def test_game_processes_do_not_import_torch() -> None:
    games = VectorEnv(ToyEnv, 1, 1, seed_of)
    _, ended = play(games, 20)
    assert [stats["torch_imported"] for _, stats in ended][:1] == [0.0]
    games.close()


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("raise", "raised:.*a troublesome game"),
        ("die", r"died with its process \(exit code -9\)"),
        ("exit", r"died with its process \(exit code 3\)"),
        ("hang", "did not answer within 2 s"),
    ],
)
def test_trouble_names_the_seed_and_ends_every_process(
    trouble: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    games = VectorEnv(partial(ToyEnv, trouble), 4, 2, sixteen_times)
    pids = [process.pid for process in games._processes]
    monkeypatch.setattr(vector_env, "HANG_SECONDS", 2.0)
    start = time.monotonic()
    with pytest.raises(GameError) as error:
        play(games, 10, first=7)
    assert time.monotonic() - start < 10
    found = re.match(rf"(?s)the game with seed (\d+) {words}", str(error.value))
    assert found and int(found[1]) in [16 * number for number in range(7, 11)], str(error.value)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(GameError, match="closed"):
        games.reset(0)


def test_a_constructor_that_raises() -> None:
    with pytest.raises(GameError, match="(?s)game process 0 raised:.*a troublesome constructor"):
        VectorEnv(partial(ToyEnv, "construct"), 2, 1, seed_of)
