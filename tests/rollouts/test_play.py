"""Playing batches of games: who is asked when, and when a game is over."""

from nethack_pipe.policies.scripted import Frontier
from nethack_pipe.rollouts.play import GameSpec, play


class Spy:
    """Waits, and notes who was asked."""

    def __init__(self, events):
        self.events = events

    def reset(self, slot, seed):
        self.events.append(("reset", slot, seed))

    def act(self, slots, games):
        self.events.append(("act", tuple(slots), tuple(game.game.seed for game in games)))
        return ["search" for _ in slots]


def test_everybody_is_called_in_turn():
    events = []
    play(
        Spy(events),
        [GameSpec(4, 40), GameSpec(5, 50)],
        2,
        start=lambda slot, game: events.append(("start", slot, game.scene.turn)),
        before=lambda slot, game: events.append(("before", slot, game.scene.turn)),
        after=lambda slot, game, action: events.append(("after", slot, action, game.before.turn, game.scene.turn)),
    )
    assert events == [
        *(("reset", 0, 40), ("start", 0, 1), ("reset", 1, 50), ("start", 1, 1)),
        *(("before", 0, 1), ("before", 1, 1), ("act", (0, 1), (4, 5))),
        *(("after", 0, "search", 1, 2), ("after", 1, "search", 1, 2)),
        *(("before", 0, 2), ("before", 1, 2), ("act", (0, 1), (4, 5))),
        *(("after", 0, "search", 2, 3), ("after", 1, "search", 2, 3)),
    ]


def test_a_game_that_is_over_is_played_no_more():
    steps, done = [0, 0], [0, 0]

    def after(slot, game, action):
        steps[slot] += 1
        done[slot] += game.scene.done

    specs = [GameSpec(3, 0), GameSpec(4, 0)]  # the first hero dies
    play(Frontier("descend"), specs, 120, start=lambda *_: None, before=lambda *_: None, after=after)
    assert done == [1, 0] and steps[0] < 120 and steps[1] == 120
