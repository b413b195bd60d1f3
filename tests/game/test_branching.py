import pytest

from nethack_pipe import seeds
from nethack_pipe.game.branching import branch
from nethack_pipe.game.game import Game, replay
from tests.helpers.games import digest, play_on, random_actions


@pytest.fixture(params=["savestate", "fork"])
def game(request: pytest.FixtureRequest) -> Game:
    game = Game(branching=request.param)
    game.reset(8)
    play_on(game, random_actions(8, 25))
    assert not game.last.done
    return game


def test_every_action_and_sample_is_what_a_replay_gives(game: Game) -> None:
    before, so_far = digest(game.last), list(game.actions)
    names = ("search", ("north", "west"), "kick:south")

    def zigzag(game: Game) -> str:
        return ("east", "south")[len(game.actions) % 2]

    own = branch(game, names)
    sampled = branch(game, names, horizon=5, policy=zigzag, samples=3, seed=1)
    assert (digest(game.last), game.actions) == (before, so_far)
    for i, name in enumerate(names):
        plan = [name] if isinstance(name, str) else list(name)
        with replay(8, [*so_far, *plan]) as again:
            assert digest(own[i][0][-1]) == digest(again.last) and len(own[i][0]) == len(plan)
        for sample in range(3):
            with replay(8, [*so_far, f"reseed:{seeds.integer(1, 'branch', sample)}", *plan]) as again:
                for _ in range(5 - len(plan)):
                    again.step(zigzag(again))
                assert digest(sampled[i][sample][-1]) == digest(again.last) and len(sampled[i][sample]) == 5
    # The same streams for all actions, different ones for the samples.
    assert len({digest(steps[-1]) for steps in sampled[0]}) == 3


def test_from_an_earlier_moment() -> None:
    with Game(branching="savestate") as game:
        game.reset(8)
        start = game.save()
        play_on(game, random_actions(8, 25))
        before = digest(game.last)
        (((step,),),) = branch(game, ["search"], state=start)
        assert digest(game.last) == before and len(game.actions) == 25
    with replay(8, ["search"]) as again:
        assert digest(step) == digest(again.last)


def test_a_game_that_ends_gives_fewer_steps(game: Game) -> None:
    # The eleventh of these commands makes the hero choke.
    deadly = random_actions(2, 400)
    game.reset(2)
    play_on(game, deadly[:5])
    ends, lives = branch(game, [deadly[5], "search"], horizon=20, policy=lambda game: deadly[len(game.actions)])
    assert [step.done for step in ends[0]] == [False] * 5 + [True]
    assert len(lives[0]) == 20 or lives[0][-1].done
    assert not game.last.done and game.how is None


def test_wrong_arguments_are_named(game: Game) -> None:
    with pytest.raises(ValueError, match="a policy needs a horizon"):
        branch(game, ["north"], horizon=3)
    with pytest.raises(ValueError, match="horizon is 1, but .* a sequence of 2"):
        branch(game, [["north", "north"]], horizon=1, policy=lambda game: "north")
    with pytest.raises(ValueError, match="samples must be None or at least 1, not 0"):
        branch(game, ["north"], samples=0)
