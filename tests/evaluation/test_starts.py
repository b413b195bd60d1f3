"""Where games of the closed loop begin: the same moments for everybody, and really decisive ones."""

import pytest

from nethack_pipe import seeds
from nethack_pipe.evaluation.starts import (
    DECISIVE,
    SCOUT_TASK,
    Search,
    beginnings,
    find_moments,
    moments_table,
    read_moments,
    search,
)
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.policies.scripted import Frontier
from nethack_pipe.rollouts.schema import write_shards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.skills import TASKS

STEPS = 300


@pytest.fixture(scope="module")
def moments():
    return find_moments(42, TASKS, 3, STEPS)


def test_beginnings_are_held_out_games_and_other_ones_for_another_root():
    games = [start.seed for start in beginnings(1, 5)]
    assert games == [seeds.game_seed(1, "held_out", "evaluate", i) for i in range(5)]
    assert all(seed % 2 == 1 for seed in games) and len(set(games)) == 5
    assert all(start.actions == () for start in beginnings(1, 5))
    assert beginnings(1, 3) == beginnings(1, 5)[:3]
    assert not set(games) & {start.seed for start in beginnings(2, 5)}


def test_a_moment_is_the_first_decisive_one_of_its_game(moments):
    assert set(moments) == {"survive", "combat"} and all(len(starts) == 3 for starts in moments.values())
    for task, starts in moments.items():
        assert len({start.seed for start in starts}) == 3
        for start in starts:
            with Game() as game:
                playthrough = Playthrough(game, ACTION_SETS["compass"])
                scenes = [playthrough.reset(start.seed), *(playthrough.step(action) for action in start.actions)]
            assert start.seed % 2 == 1 and len(start.actions) < STEPS
            assert [DECISIVE[task](scene) for scene in scenes] == [False] * len(start.actions) + [True]
            assert scenes[-1].alive
            if task == "survive":
                assert 2 * scenes[-1].hp <= scenes[-1].max_hp


def test_moments_lie_on_the_scouts_way(moments):
    start = moments["survive"][0]
    with Game() as game:
        playthrough = Playthrough(game, ACTION_SETS["compass"])
        playthrough.reset(start.seed)
        scout = Frontier(SCOUT_TASK)
        scout.reset(0, 0)
        for action in start.actions:
            assert scout.act([0], [playthrough]) == [action]
            playthrough.step(action)


def test_games_are_searched_in_turn_until_there_are_enough(moments):
    games = [seeds.game_seed(42, "held_out", "moments", i) for i in range(30)]
    found = search(Search(tuple(games[:4]), ("survive", "combat"), STEPS))
    in_combat = [moment["combat"] for moment in found if "combat" in moment]
    assert moments["combat"][: len(in_combat)] == in_combat[:3]
    places = [games.index(start.seed) for start in moments["survive"]]
    assert places == sorted(places)
    assert find_moments(42, ["combat"], 2, STEPS) == {"combat": moments["combat"][:2]}
    assert find_moments(42, ["explore", "descend"], 2, STEPS) == {}
    assert find_moments(42, ["combat"], 0, STEPS) == {"combat": []}


def test_too_short_a_search_finds_less():
    assert find_moments(42, ["survive"], 1, 1) == {"survive": []}


def test_moments_come_back_from_their_table(moments, tmp_path):
    write_shards(moments_table(moments), tmp_path, "moments")
    assert read_moments(tmp_path) == moments
    write_shards(moments_table({"combat": []}), tmp_path, "moments")
    assert read_moments(tmp_path) == {}
