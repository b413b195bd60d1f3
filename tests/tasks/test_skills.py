"""When skills start and stop, and whom the scheduler calls."""

from collections import Counter

import pytest

from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS
from nethack_pipe.tasks.skills import (
    ALLOWED,
    SKILLS,
    Scheduler,
    SkillMask,
    can_start,
    should_stop,
)
from tests.helpers.scenes import Story, playing

QUIET = "|.....@.......|"
FOE = "|.n...@.......|"
STAIRS = "|.....@....>..|"  # five tiles away


def scene(painting=QUIET, **stats):
    return Story().show(painting, **stats)


def on_item(painting="|.....@.......|", **stats):
    story = Story()
    story.show(painting.replace("@.", "@)"))
    return story.show(painting.replace("@.", ".@"), "east", "You see here a dagger.", **stats)


def on_stairs():
    story = Story()
    story.show("|@>...|")
    return story.show("|.@...|", "east")


def starts(scene):
    return {skill for skill in SKILLS if can_start(skill, scene)}


def test_what_can_start():
    assert starts(scene()) == {"explore"}
    assert starts(scene(FOE)) == {"explore", "combat"}
    assert starts(scene("|.f...@.S....G|")) == {"explore"}  # pet, statue, peaceful
    assert starts(scene(STAIRS)) == {"explore", "descend"}
    assert starts(scene("|.....@.....>.|")) == {"explore"}  # six tiles
    assert starts(scene("|.....@....<..|")) == {"explore"}
    assert starts(on_stairs()) == {"explore", "descend"}
    assert starts(on_item()) == {"explore", "resource"}
    assert starts(scene("|.....@)......|")) == {"explore"}  # beside him, not under him
    assert starts(scene(hp=7)) == starts(scene(hp=1)) == {"explore", "survive"}
    assert starts(scene(hp=8)) == {"explore"}
    assert starts(scene(hp=7, max_hp=15)) == {"explore", "survive"}


@pytest.mark.parametrize("skill", SKILLS)
def test_a_skill_stops_after_eight_steps(skill):
    everything = on_item("|.n...@....>..|", hp=3)
    assert not should_stop(skill, everything, 7)
    assert should_stop(skill, everything, 8)


def test_combat_and_survive_stop_when_their_reason_is_gone():
    assert should_stop("combat", scene(), 1) and not should_stop("combat", scene(FOE), 1)
    assert should_stop("survive", scene(hp=8), 1) and not should_stop("survive", scene(hp=7), 1)
    for skill in ("explore", "descend", "resource"):
        assert not should_stop(skill, scene(), 1)


def test_the_rules_in_their_order():
    scheduler = Scheduler("rule_based", SKILLS)
    assert scheduler.next(on_item("|.n...@....>..|", hp=7)) == "survive"
    assert scheduler.next(on_item("|.n...@....>..|")) == "combat"
    assert scheduler.next(on_item("|.....@....>..|")) == "resource"
    assert scheduler.next(scene(STAIRS)) == "descend"
    assert scheduler.next(scene()) == "explore"


def test_only_enabled_skills_are_called():
    everything = on_item("|.n...@....>..|", hp=7)
    assert Scheduler("rule_based", ("explore", "descend")).next(everything) == "descend"
    for name in ("rule_based", "random", "round_robin"):
        assert Scheduler(name, ("combat", "survive")).next(scene()) == "combat"  # the first, where none can start


def test_round_robin_takes_turns_among_those_that_can_start():
    scheduler = Scheduler("round_robin", SKILLS)
    everything = on_item("|.n...@....>..|", hp=7)
    assert [scheduler.next(everything) for _ in range(6)] == [*SKILLS, "explore"]
    assert [scheduler.next(scene(FOE)) for _ in range(3)] == ["combat", "explore", "combat"]
    scheduler.reset(0)
    assert scheduler.next(everything) == "explore"


def test_random_draws_evenly_and_the_same_from_the_same_seed():
    everything = on_item("|.n...@....>..|", hp=7)
    scheduler = Scheduler("random", SKILLS)

    def draw(seed):
        scheduler.reset(seed)
        return [scheduler.next(everything) for _ in range(500)]

    assert draw(3) == draw(3) != draw(4)
    assert set(Counter(draw(3))) == set(SKILLS) and min(Counter(draw(3)).values()) > 70


def test_per_episode_keeps_what_the_seed_drew_whatever_happens():
    scheduler = Scheduler("per_episode", ("combat", "descend"))
    drawn = []
    for seed in range(200):
        scheduler.reset(seed)
        drawn.append(scheduler.first("combat"))
        assert {scheduler.next(scene(FOE)), scheduler.next(on_stairs()), scheduler.first("combat")} == {drawn[-1]}
    assert 70 < Counter(drawn)["descend"] < 130
    assert Scheduler("rule_based", SKILLS).first("survive") == "survive"


def test_per_episode_skills_are_drawn_by_their_shares():
    scheduler = Scheduler("per_episode", ("explore", "descend"), {"explore": 1.0, "descend": 3.0, "combat": 9.0})
    drawn = Counter()
    for seed in range(1000):
        scheduler.reset(seed)
        drawn[scheduler.first("explore")] += 1
    assert set(drawn) == {"explore", "descend"} and 700 < drawn["descend"] < 800


def test_every_skill_allows_walking_and_waiting_and_nothing_unknown():
    for allowed in ALLOWED.values():
        assert {"north", "south", "east", "west", "wait", "search"} <= allowed <= set(ACTION_SETS["compass_pray"])
    assert "pickup" in ALLOWED["resource"] and "down" in ALLOWED["descend"] and "kick" in ALLOWED["combat"]
    assert not ALLOWED["combat"] & {"pickup", "eat", "drink", "drop"}


@pytest.mark.parametrize(
    ("painting", "moves"),
    [
        ("   \n#@#\n   ", {"east", "west"}),  # what is beside the hero and not seen is rock
        ("|.#\n|@ \n|--", {"north", "northeast"}),
        ("   \n @ \n   ", set(DIRECTIONS)),  # who sees nothing at all may try
    ],
)
def test_a_skill_chooses_from_its_own_legal_actions_without_steps_into_the_unknown(painting, moves):
    _, game = playing(painting, ACTION_SETS["compass"])
    for skill in SKILLS:
        mask = SkillMask(skill, game.actions).of(game)
        chosen = {name for name, allowed in zip(game.actions, mask, strict=True) if allowed}
        assert chosen == moves | {"wait", "search"}


def test_a_step_that_did_not_even_cost_time_is_not_tried_again_from_there():
    painting = "-.\n.@.\n..."
    painted, game = playing(painting, ACTION_SETS["compass"])
    mask = SkillMask("explore", game.actions)
    assert {"southeast", "north"} <= {
        name for name, allowed in zip(game.actions, mask.of(game), strict=True) if allowed
    }
    painted.paint(painting, "southeast", "You are carrying too much to get through.", took_time=False)
    game.step("southeast")
    left = {name for name, allowed in zip(game.actions, mask.of(game), strict=True) if allowed}
    assert "southeast" not in left and {"south", "east", "north", "search"} <= left


def test_what_has_just_done_nothing_is_not_done_again_at_once():
    painted, game = playing("...\n.@.\n...", ACTION_SETS["compass"])
    mask = SkillMask("explore", game.actions)
    for action, took_time, allowed in (("search", False, False), ("search", True, True), ("wait", False, True)):
        painted.paint("...\n.@.\n...", action, took_time=took_time)
        game.step(action)
        assert mask.of(game)[game.actions.index("search")] == allowed


def test_what_is_legal_but_not_the_skills_own_is_left_out():
    _, game = playing("+..\n.@.\n...", ACTION_SETS["compass"])
    assert "open" in game.legal and "kick" in game.legal
    chosen = {
        skill: {
            name for name, allowed in zip(game.actions, SkillMask(skill, game.actions).of(game), strict=True) if allowed
        }
        for skill in SKILLS
    }
    assert {skill for skill in SKILLS if "open" in chosen[skill]} == {"explore", "descend", "resource"}
    assert {skill for skill in SKILLS if "kick" in chosen[skill]} == {"explore", "combat", "descend", "resource"}
