from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nethack_pipe.evaluation.starts import Start, find_moments
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.policies.greedy import TaskGreedy, candidates
from nethack_pipe.policies.scripted import Frontier, Random
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.prayer import Prayer, dying
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import SKILLS, SkillMask
from tests.helpers.games import replayed
from tests.helpers.scenes import Story, playing

PRAYING = ACTION_SETS["compass_pray"]


def scene(**stats):
    return Story().show("...\n.@.\n...", **stats)


@pytest.mark.parametrize(
    ("level", "hp", "max_hp", "critical"),
    [
        (1, 5, 12, True),
        (1, 6, 12, False),
        (3, 8, 40, True),  # a fifth
        (3, 9, 40, False),
        (1, 6, 60, False),  # more than 15 points a level do not count
        (8, 10, 60, True),  # a sixth
        (8, 11, 60, False),
        (14, 12, 84, True),  # a seventh
        (14, 13, 84, False),
    ],
)
def test_when_hit_points_are_critically_low(level, hp, max_hp, critical):
    assert dying(scene(hp=hp, max_hp=max_hp, experience_level=level)) is critical


def test_when_prayers_are_due():
    prayer = Prayer()
    assert not prayer.is_due(scene(hp=3, turn=100)) and prayer.is_due(scene(hp=3, turn=101))
    assert not prayer.is_due(scene(hp=10, turn=101))
    assert prayer.is_due(scene(hp=10, turn=900, hunger=3)) and not prayer.is_due(scene(hp=10, turn=900, hunger=2))
    prayer.prayed(scene(hp=3, turn=200))
    assert not prayer.is_due(scene(hp=3, turn=699)) and prayer.is_due(scene(hp=3, turn=700))


def test_prayers_are_legal_when_they_are_due_and_only_then():
    game, playthrough = playing("...\n.@.\n...", PRAYING, turn=300, hp=14)
    masks = {skill: SkillMask(skill, PRAYING) for skill in SKILLS}

    def may_pray(action: str, **changes) -> bool:
        game.paint("...\n.@.\n...", action, **changes)
        playthrough.step(action)
        allowed = {bool(mask.of(playthrough)[PRAYING.index("pray")]) for mask in masks.values()}
        assert allowed == {"pray" in playthrough.legal}, "dying matters to every skill"
        return allowed.pop()

    assert "pray" not in playthrough.legal
    assert may_pray("search", turn=301, hp=3)
    assert not may_pray("pray", turn=304, hp=3), "the god is asked once"
    assert not may_pray("search", turn=800, hp=3) and may_pray("search", turn=801, hp=3)
    assert not may_pray("pray", turn=804, hp=3)
    playthrough.reset(0)
    assert "pray" in playthrough.legal, "of another game"


def test_a_branch_knows_when_its_hero_prayed_last():
    game, playthrough = playing("...\n.@.\n...", PRAYING, turn=300, hp=3)
    twin = playthrough.twin(game, playthrough.memory.copy())
    game.paint("...\n.@.\n...", "pray", turn=303, hp=3)
    twin.step("pray")
    assert not twin.prayer.is_due(twin.scene) and playthrough.prayer.is_due(playthrough.scene)


@pytest.fixture(scope="module")
def near_death() -> list[Start]:
    """Moments of real fights at which a hero who only searches had better pray."""
    found = []
    for moment in find_moments(42, ["survive"], 12, 500)["survive"]:
        with taken_over(moment) as playthrough:
            for _ in range(30):
                if playthrough.scene.done or "pray" in playthrough.legal:
                    break
                playthrough.step("search")
            if not playthrough.scene.done and "pray" in playthrough.legal:
                found.append(Start(moment.seed, tuple(playthrough.game.actions)))
    assert len(found) >= 3
    return found[:3]


@contextmanager
def taken_over(start: Start) -> Iterator[Playthrough]:
    with Game() as game:
        yield replayed(game, start.seed, start.actions, PRAYING)


def test_a_god_heals_a_dying_hero_who_prays_in_time(near_death):
    for start in near_death:
        with taken_over(start) as playthrough:
            hurt = playthrough.scene
            healed = playthrough.step("pray")
            assert healed.alive and healed.hp == healed.max_hp > hurt.hp, healed.text
            assert healed.turn - hurt.turn >= 3 and "pray" not in playthrough.legal


@pytest.mark.parametrize("task", SKILLS)
def test_scripts_and_the_look_ahead_pray_where_they_may(task, near_death):
    for start in near_death:
        with taken_over(start) as playthrough:
            frontier, look_ahead, random = Frontier(task), TaskGreedy(task, RewardWeights()), Random()
            for policy in (frontier, look_ahead, random):
                policy.reset(0, 5)
            assert frontier.act([0], [playthrough]) == ["pray"]
            assert "pray" in {random.act([0], [playthrough])[0] for _ in range(200)}
            assert "pray" in candidates(playthrough)
            if task == "survive":
                assert look_ahead.act([0], [playthrough]) == ["pray"], "it is paid for hit points"


def test_the_look_ahead_prays_only_where_everybody_may():
    _, playthrough = playing("...\n.@.\n...", PRAYING, turn=300, hp=14)
    assert "pray" not in candidates(playthrough)
    _, playthrough = playing("...\n.@.\n...", turn=300, hp=3)
    assert "pray" not in candidates(playthrough), "not in compass"
