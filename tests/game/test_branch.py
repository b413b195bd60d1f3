"""What a branch promises, whichever way it is made: by savestate and by fork."""

import numpy as np
import pytest

from nethack_pipe.game.actions import ACTIONS
from nethack_pipe.game.game import Game, replay
from tests.helpers.games import (
    digest,
    files,
    go_to_level,
    on_level_two,
    play,
    play_on,
    press,
    random_actions,
    tour,
    way_back,
)

MOVES = ACTIONS[:4]


@pytest.fixture(autouse=True, params=["savestate", "fork"])
def branching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NETHACK_PIPE_BRANCHING", request.param)
    return request.param


def test_a_branch_is_what_replay_gives_and_leaves_the_game_alone() -> None:
    compared = 0
    for seed in (1, 4):
        actions = random_actions(seed, 60)
        with Game() as game:
            undisturbed = play(game, seed, actions)

        def branch_at_some_steps(game: Game, seed: int = seed) -> None:
            nonlocal compared
            step = len(game.actions)
            if step % 15 == 14:
                continuation = random_actions(100 * seed + step, 30)
                branched = game.branch(lambda game: play_on(game, continuation))
                with replay(seed, game.actions) as again:
                    assert branched == play_on(again, continuation)
                compared += len(branched)

        with Game() as game:
            assert play(game, seed, actions, branch_at_some_steps) == undisturbed
    assert compared > 150


def test_probe_gives_one_step_per_action_that_keeps_its_data() -> None:
    with Game() as game:
        game.reset(3)
        before = digest(game.last)
        steps = game.probe([*MOVES, "search", ACTIONS.index("wait")])
        assert digest(game.last) == before
        assert len(game.actions) == 0
        digests = [digest(step) for step in steps]
        for action, step in zip([*MOVES, "search", "wait"], steps, strict=True):
            with replay(3, [action]) as again:
                assert digest(again.last) == digest(step)
        game.step("search")
        assert [digest(step) for step in steps] == digests
        with pytest.raises(ValueError, match="no action 'fly'"):
            game.probe(["north", "fly"])


def test_reseeded_branches_differ_and_can_be_replayed() -> None:
    actions = ["search"] * 40

    def reseeded(game: Game, seed: int) -> tuple[list[str], list[str]]:
        game.reseed(seed)
        return play_on(game, actions), game.actions

    with Game() as game:
        game.reset(2)
        play_on(game, ["south", "west"])
        samples = [game.branch(lambda game, seed=seed: reseeded(game, seed)) for seed in (1, 2, 1)]
        own = game.branch(lambda game: play_on(game, actions))
    assert samples[0] == samples[2]
    assert samples[0][0] != samples[1][0] != own != samples[0][0]
    with replay(2, samples[1][1]) as again:
        assert digest(again.last) == samples[1][0][-1]


def test_reseeding_keeps_the_levels_to_come() -> None:
    def walls_below(game: Game, seed: int | None) -> bytes:
        if seed is not None:
            game.reseed(seed)
        go_to_level(game, 3)
        chars = press(game, "\x06").observation["chars"]
        return np.isin(chars, [ord("|"), ord("-")]).tobytes()

    with on_level_two(6) as game:
        own = game.branch(lambda game: walls_below(game, None))
        others = [game.branch(lambda game, seed=seed: walls_below(game, seed)) for seed in (1, 2)]
        # Doors and monsters are drawn with the same characters, so a few cells may differ.
        for other in others:
            assert np.mean(np.frombuffer(own, bool) != np.frombuffer(other, bool)) < 0.01
    with on_level_two(7) as game:
        other = game.branch(lambda game: walls_below(game, None))
        assert np.mean(np.frombuffer(own, bool) != np.frombuffer(other, bool)) > 0.05


def test_trap_2_a_child_that_comes_back_to_a_level_does_not_change_it_for_its_parent() -> None:
    def go_round(game: Game) -> list[str]:
        go_to_level(game, 1)
        play_on(game, random_actions(0, 30))
        go_to_level(game, 3)
        return [digest(go_to_level(game, 2)), digest(go_to_level(game, 1))]

    with on_level_two(1) as game:
        expected = way_back(game)
        go_to_level(game, 4)
        further = tour(game, 1, (2, 1, 2), steps=5)
    with on_level_two(1) as game:
        kept = files(game)
        first = game.branch(go_round)
        assert files(game) == kept
        assert game.branch(go_round) == first
        assert way_back(game) == expected
        go_to_level(game, 4)
        # The files have changed since the branches above: these are the ones to come back to now.
        kept = files(game)
        game.branch(go_round)
        assert files(game) == kept
        assert tour(game, 1, (2, 1, 2), steps=5) == further


def test_a_branch_inside_a_branch() -> None:
    def inner(game: Game) -> list[str]:
        go_to_level(game, 1)
        return play_on(game, random_actions(5, 10))

    def outer(game: Game) -> tuple[list[str], list[str], list[str]]:
        go_to_level(game, 3)
        kept = files(game)
        first = game.branch(inner)
        assert files(game) == kept
        second, back = game.branch(inner), way_back(game)
        go_to_level(game, 2)  # writes the file of level 1 anew
        game.branch(inner)
        return first, second, back

    with on_level_two(4) as game:
        expected = way_back(game)
    with on_level_two(4) as game:
        go_to_level(game, 3)
        expected_from_three = way_back(game)
    with on_level_two(4) as game:
        kept = files(game)
        first, second, back = game.branch(outer)
        assert first == second
        assert back == expected_from_three
        assert files(game) == kept
        assert way_back(game) == expected


def test_big_answers_pass() -> None:
    with Game() as game:
        game.reset(1)
        steps = game.branch(lambda game: [game.step("search").copy() for _ in range(20)])
        assert game.branch(lambda game: bytes(5_000_000)) == bytes(5_000_000)
    assert [int(step.observation["blstats"][20]) for step in steps] == sorted(
        int(step.observation["blstats"][20]) for step in steps
    )
    assert len(steps) == 20


def test_exceptions_of_a_continuation_are_raised() -> None:
    def fail(error: Exception) -> None:
        raise error

    with Game() as game:
        game.reset(11)
        game.step("search")
        with pytest.raises(KeyError, match="no such thing"):
            game.branch(lambda game: game.step("search") and fail(KeyError("no such thing")))
        with pytest.raises((AttributeError, TypeError), match="pickle"):
            game.branch(lambda game: game.step("search") and (lambda: None))
        with pytest.raises(RuntimeError, match="a branch cannot reset its game"):
            game.branch(lambda game: game.reset(1))
        assert digest(game.step("search")) == digest(replay(11, ["search", "search"]).last)
