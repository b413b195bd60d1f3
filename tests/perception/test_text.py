"""Prompts, answers and the way back, word for word."""

import random
import string

import pytest

from nethack_pipe.game.actions import ACTIONS, DIRECTIONS
from nethack_pipe.game.game import Game
from nethack_pipe.perception import text
from nethack_pipe.perception.text import Delta
from nethack_pipe.tasks.playthrough import Playthrough
from tests.helpers.scenes import Story

PAINTING = """
    -------
    |....f+
    |.n.@)|
    |...>.|
    -------
"""
STATE = (
    "seen:16 rooms:1 depth:1 turn:7\n"
    "hp:9/14 ac:4 gold:30 hunger:1\n"
    "msg:You miss the newt. The kitten picks up a gem.\n"
    "------ \n"
    "....f+ \n"
    ".n.@)| \n"
    "...>.| \n"
    "------ \n"
    "adj: n=. s=> e=* w=. ne=f nw=. se=. sw=. on=<\n"
)


@pytest.fixture
def story():
    story = Story()
    story.show(PAINTING)
    return story


def test_one_whole_state_and_prompt(story):
    message = "You miss the newt.  The kitten picks up\ta \x1bgem.\n"
    scene = story.show(PAINTING, "west", message, hp=9, gold=30, turn=7)
    assert text.state_text(scene, story.step) == STATE
    assert text.prompt(STATE, "north") == STATE + "act: n tile=. from=<\n=>"


@pytest.mark.parametrize(
    ("action", "line"),
    [
        ("south", "act: s tile=> from=<"),
        ("east", "act: e tile=* from=<"),
        ("northeast", "act: ne tile=f from=<"),
        ("southwest", "act: sw tile=. from=<"),
        ("wait", "act: wait tile=< from=<"),
        ("search", "act: search tile=< from=<"),
        ("pickup", "act: pickup tile=< from=<"),
        ("down", "act: down tile=< from=<"),
        ("kick", "act: kick tile=< from=<"),
        ("kick:east", "act: kick e tile=* from=<"),
        ("open:northeast", "act: open ne tile=f from=<"),
        ("eat:f", "act: eat f tile=< from=<"),
        ("drop:n", "act: drop n tile=< from=<"),
        ("drop:$", "act: drop $ tile=< from=<"),
    ],
)
def test_prompts_of_every_kind_of_action(action, line):
    assert text.prompt(STATE, action) == f"{STATE}{line}\n=>"


def test_a_prompt_changes_nothing_but_the_action():
    # Replacing a word of the prompt by the action's name would also rewrite the neighbours.
    prompts = {text.prompt(STATE, action) for action in ACTIONS}
    assert len(prompts) == len(ACTIONS)
    assert all(prompt.startswith(STATE + "act: ") and prompt.endswith("\n=>") for prompt in prompts)


def test_what_lies_under_the_hero_is_told(story):
    on_stairs = story.show("""
        -------
        |....f+
        |.n..)|
        |...@.|
        -------
    """, "south")  # fmt: skip
    assert text.state_text(on_stairs, story.step).endswith(" on=>\n")
    on_item = story.show("""
        -------
        |....f+
        |.n..@|
        |...>.|
        -------
    """, "northeast", "You see here a dagger.")  # fmt: skip
    state = text.state_text(on_item, story.step)
    assert state.endswith(" on=*\n") and text.prompt(state, "pickup").endswith("act: pickup tile=* from=*\n=>")
    assert text.neighbour(state, "southwest") == ">"


def test_the_view_is_blank_beyond_the_edge_of_the_map():
    story = Story()
    scene = story.show("..\n.@", hero=(20 - 3, 78 - 10))
    story.observation["chars"][20, 76:] = list(b"ab@")
    story.observation["chars"][18, 78] = ord("c")
    assert text.state_text(scene, story.step).splitlines()[3:8] == ["   c   ", " " * 7, " ab@   ", " " * 7, " " * 7]
    scene = story.show("..\n.@", hero=(-3, -10))
    story.observation["chars"][:] = ord("x")
    assert text.state_text(scene, story.step).splitlines()[3:8] == [" " * 7] * 2 + ["   xxxx"] * 3


def test_no_neighbours_in_a_text():
    with pytest.raises(ValueError, match="no 'adj:' line with sw="):
        text.neighbour("msg:adj\nmap\n", "southwest")


def test_a_message_is_one_line_of_80_printable_characters():
    assert text.clean("  You\nsee \x00\x1b here\ta \xe9clair.  ") == "You see here a clair."
    assert text.clean("a" * 79 + " bcd") == "a" * 79
    assert text.clean("ab " * 60) == ("ab " * 26 + "ab")[:80]
    assert text.clean("") == ""


# -- Deltas ------------------------------------------------------------------------------------------------------------


def test_the_delta_of_a_step(story):
    before = story.memory.scene
    after = story.show("""
        -------
        |....f+
        |.n@<)|
        |...>.|
        ---,---
    """, "west", "You see a door.", hp=11, gold=7)  # fmt: skip
    assert text.delta(before, after) == Delta(-1, 0, -3, 7, 0, True, 1, "You see a door.")
    assert text.target(text.delta(before, after)) == (
        "pos:(-1,0) | hp:-3 | gold:+7 | depth:same | alive:yes | explored:+1 | msg:You see a door."
    )


def test_the_delta_of_a_change_of_level_counts_what_is_seen_there(story):
    before = story.memory.scene
    first = story.show("|.....@..|", "down", depth=2)
    assert text.delta(before, first) == Delta(2, -2, 0, 0, 1, True, 8, "")
    up = story.show(PAINTING, "up", depth=1)
    assert text.delta(first, up) == Delta(-2, 2, 0, 0, -1, True, 0, "")
    assert text.delta(up, story.show("|.....@..|#", "down", depth=2)).explored == 1


def test_the_delta_of_a_death_is_that_of_the_last_living_moment(story):
    before = story.memory.scene
    after = story.show(PAINTING, "wait", "The newt bites!  You die...", died=True)
    assert text.target(text.delta(before, after)) == (
        "pos:(0,0) | hp:same | gold:same | depth:same | alive:no | explored:same | msg:The newt bites! You die..."
    )


def test_random_deltas_come_back_as_they_were():
    rng = random.Random(5)
    characters = string.ascii_letters + string.digits + "|| :()+-,.!=>'\""
    for _ in range(2000):

        def number(most):
            return rng.choice([0, rng.randint(-most, most)])

        message = text.clean("".join(rng.choices(characters, k=rng.randint(0, 90))))
        change = Delta(
            number(78), number(20), number(500), number(100000), number(50), rng.random() < 0.9, number(900), message
        )
        answer = text.target(change)
        assert text.parse(answer) == change
        assert text.parse(f"  {answer}\n") == change


def test_messages_that_look_like_answers_come_back_too():
    for message in ("a | hp:-3 | msg:b", "msg:", "| alive:no |", "pos:(1,1)", "=>"):
        change = Delta(1, 0, 0, 0, 0, True, 0, message)
        assert text.parse(text.target(change)) == change


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "north",
        "pos:(1,0)",
        "pos:(1,0) | hp:same | gold:same | depth:same | alive:yes | explored:+4",
        "pos:(1,0) | hp:3 | gold:same | depth:same | alive:yes | explored:+4 | msg:",
        "pos:(1,0) | hp:same | gold:same | depth:same | alive:maybe | explored:+4 | msg:",
        "pos:(1.5,0) | hp:same | gold:same | depth:same | alive:yes | explored:+4 | msg:",
        "pos:1,0 | hp:same | gold:same | depth:same | alive:yes | explored:+4 | msg:",
        "hp:same | pos:(1,0) | gold:same | depth:same | alive:yes | explored:+4 | msg:",
        "act: n => pos:(1,0) | hp:same | gold:same | depth:same | alive:yes | explored:+4 | msg:",
        "pos:(1,0) | hp:same | gold:same | depth:same | alive:yes | explored:+4 | msg:two\nlines",
        "pos:(1,0) | hp:+" + "9" * 5000 + " | gold:same | depth:same | alive:yes | explored:+4 | msg:",
    ],
)
def test_what_is_no_answer_is_refused(answer):
    assert text.parse(answer) is None


def test_baselines():
    assert text.baseline("nothing_changes", STATE, "north") == Delta()
    assert text.baseline("move_succeeds", STATE, "north") == Delta(dx=0, dy=-1)
    assert text.baseline("move_succeeds", STATE, "southwest") == Delta(dx=-1, dy=1)
    assert text.baseline("move_succeeds", STATE, "east") == Delta(dx=1)  # an item is no obstacle
    assert text.baseline("move_succeeds", STATE, "wait") == Delta()
    assert text.baseline("move_succeeds", STATE, "kick:north") == Delta()
    for solid in "|0T?":
        assert text.baseline("move_succeeds", STATE.replace("n=.", f"n={solid}", 1), "north") == Delta()


def test_targets_of_a_real_game_are_not_all_alike():
    # Were observations kept that NetHack uses again, every change would be none.
    with Game() as game:
        playthrough = Playthrough(game, ACTIONS)
        playthrough.reset(8)
        rng = random.Random(8)
        changes = []
        for _ in range(80):
            before = playthrough.scene
            x, y = before.x, before.y
            action = rng.choice([name for name in playthrough.legal if name in DIRECTIONS])
            after = playthrough.step(action)
            change = text.delta(before, after)
            assert text.parse(text.target(change)) == change
            assert (before.x, before.y) == (x, y) and (change.dx, change.dy) == (after.x - x, after.y - y)
            changes.append(change)
    assert sum(change.dx != 0 or change.dy != 0 for change in changes) > 40
    assert any(change.message for change in changes)
    assert any(change.explored for change in changes)
