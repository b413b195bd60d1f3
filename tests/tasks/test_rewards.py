"""The five task rewards, term by term on made-up transitions, and their once-only rules in real games."""

import pytest

from nethack_pipe.game import tables
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.policies.scripted import Frontier
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import TASKS
from tests.helpers.scenes import Story

WEIGHTS = RewardWeights()


class Told(Story):
    """A story that says what each task pays for its last step."""

    def pays(self, task: str, painting: str, action: str, text: str = "", **kwargs) -> dict[str, float]:
        """The terms that are not zero."""
        before = self.memory.scene
        after = self.show(painting, action, text, **kwargs)
        parts = rewards.components(task, before, action, after, WEIGHTS)
        total = rewards.reward(task, before, action, after, WEIGHTS)
        assert total == pytest.approx(sum(parts.values()))
        return {term: value for term, value in parts.items() if value}


def told(painting: str, **stats) -> Told:
    story = Told()
    story.show(painting, **stats)
    return story


# -- explore -----------------------------------------------------------------------------------------------------------


def test_explore_pays_for_tiles():
    assert told("@##").pays("explore", "#@###", "east") == {"new_tile": 2.0}
    assert told("@##").pays("explore", "#@#|-", "east") == {}  # walls are none


def test_explore_pays_for_rooms():
    # Four tiles and a doorway.
    assert told("@##").pays("explore", "#@#,....", "east") == {"new_tile": 5.0, "new_room": 5.0}


def test_explore_pays_for_stairs():
    assert told("@##").pays("explore", "#@#>", "east") == {"new_tile": 1.0, "new_stairs": 10.0}
    assert told("@##").pays("explore", "#@#<>", "east") == {"new_tile": 2.0, "new_stairs": 20.0}


def test_explore_pays_for_items():
    assert told("@###").pays("explore", "#@#)", "east") == {"new_item": 2.0}
    assert told("@###").pays("explore", "#@#*", "east") == {}  # a body


def test_explore_charges_for_a_repeated_state():
    assert told("@##").pays("explore", "@##", "search") == {"repeated_state": -0.25}
    assert told("@##").pays("explore", "@##", "search", hp=13) == {}


def test_explore_charges_for_a_recent_tile():
    story = told("@##")
    story.show("#@#", "east", hp=13)
    assert story.pays("explore", "@##", "west", hp=12) == {"recent_tile": -0.10}


def test_explore_charges_for_the_same_action_where_nothing_moves():
    story = told("@##")
    story.show("@##", "east", hp=13)  # held fast
    assert story.pays("explore", "@##", "east", hp=12) == {"repeated_action": -0.35}
    assert story.pays("explore", "@##", "search", hp=11) == {}


def test_explore_charges_nothing_for_walking_straight_on():
    story = told("@....")
    story.show(".@...", "east")
    assert [story.pays("explore", "." * n + "@" + "." * (4 - n), "east") for n in (2, 3, 4)] == [{}, {}, {}]


def test_explore_charges_for_death():
    assert told("@##").pays("explore", "@##", "north", hp=13, died=True) == {"death": -100.0}


@pytest.mark.parametrize("task", TASKS)
def test_death_costs_a_hundred_in_every_task(task):
    paid = told("@n").pays(task, "@n", "north", died=True)
    assert paid["death"] == -100.0
    assert "death" not in told("@n").pays(task, "@n", "north")


@pytest.mark.parametrize(
    ("painting", "action", "kwargs", "is_senseless"),
    [
        ("@n#", "wait", {}, True),  # a hostile adjacent
        ("@n#", "search", {}, False),
        ("@f#", "wait", {}, False),  # a pet
        ("@G#", "wait", {}, False),  # a peaceful
        ("@S#", "wait", {}, False),  # a statue
        ("@#n", "wait", {}, False),  # not adjacent
        ("@##", "wait", {}, False),
        ("@##", "pickup", {"took_time": False}, True),  # nothing lies there
        ("@##", "pickup", {}, True),
        ("@##", "open", {"took_time": False}, True),  # no door
        ("@##", "open:north", {"took_time": False}, True),
        ("@+#", "open", {}, False),
        ("@##", "up", {"took_time": False}, True),
        ("@##", "eat", {"took_time": False}, True),
        ("@|#", "east", {"took_time": False}, True),  # a bump
        ("@##", "east", {}, False),
    ],
)
def test_senseless_actions(painting, action, kwargs, is_senseless):
    charges = {"explore": -0.5, "survive": -0.5, "resource": -1.0}
    for task, charge in charges.items():
        paid = told(painting).pays(task, painting, action, hp=13, **kwargs)
        assert paid.get("senseless") == (charge if is_senseless else None)


def test_picking_up_what_lies_there_is_not_senseless():
    story = told("@)#")
    story.show("#@#", "east", "You see here a dagger.")
    assert "senseless" not in story.pays("explore", "#@#", "pickup", "b - a dagger.")
    assert story.pays("explore", "#@#", "pickup", took_time=False)["senseless"] == -0.5  # and now nothing is left


# -- survive -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "paid"),
    [
        (14, 11, {"hp_lost": -3.0}),
        (8, 6, {"hp_lost": -2.0}),  # above half before
        (7, 6, {"hp_lost": -2.0}),  # at half: twice
        (5, 2, {"hp_lost": -6.0}),
        (5, 9, {"hp_gained": 2.0}),
        (13, 14, {"hp_gained": 0.5}),
    ],
)
def test_survive_counts_hit_points(before, after, paid):
    assert told("@##", hp=before).pays("survive", "#@#", "east", hp=after) == paid


def test_survive_charges_for_repetitions_and_senseless_actions():
    story = told("@##")
    assert story.pays("survive", "@##", "search") == {"repeated_state": -0.25}
    assert story.pays("survive", "@##", "search", hp=13) == {"hp_lost": -1.0, "repeated_action": -0.25}
    story.show("#@#", "east")
    assert story.pays("survive", "@##", "west", hp=12) == {"hp_lost": -1.0, "recent_tile": -0.10}
    assert story.pays("survive", "@##", "up", hp=11, took_time=False) == {"hp_lost": -1.0, "senseless": -0.5}


def test_survive_pays_nothing_for_what_explore_pays():
    assert told("@##").pays("survive", "#@#,....>)", "east") == {}


# -- combat ------------------------------------------------------------------------------------------------------------


def test_combat_pays_for_a_kill_and_for_a_clear_neighbourhood():
    assert told("@n.").pays("combat", "@..", "east", "You kill the newt!") == {"kill": 15.0, "cleared": 5.0}
    assert told("@n.\nn").pays("combat", "@..\nn", "east", "You kill the newt!") == {"kill": 15.0}
    assert told("@.n").pays("combat", "@..", "east", "You kill the newt!") == {"kill": 15.0}
    text = "You kill the newt!  You kill the newt!"
    assert told("@n.\nn").pays("combat", "@..\n.", "east", text) == {"kill": 30.0, "cleared": 5.0}


def test_combat_pays_for_the_way_out_of_a_monster():
    story = told("|...|\n|.@.|\n|...|")
    stomach = dict.fromkeys([(0, 2), (1, 1), (1, 3), (2, 2)], tables.SWALLOW_OFF)
    assert story.pays("combat", "   \n  @", "wait", hero=(1, 2), glyphs=stomach) == {}
    assert story.pays("combat", "   \n  @", "wait", hero=(1, 2), glyphs=stomach) == {"idle": -0.5}
    paid = story.pays("combat", "|...|\n|.@.|\n|...|", "north", "You destroy the fog cloud!")
    assert paid == {"kill": 15.0, "cleared": 5.0}


@pytest.mark.parametrize("symbol", "fGS")
def test_combat_pays_nothing_for_the_leaving_of_pets_peacefuls_and_statues(symbol):
    assert told(f"@{symbol}.").pays("combat", "@..", "west", "") == {}
    assert told(f"@{symbol}.").pays("combat", "@..", "search", "") == {}


def test_combat_pays_nothing_where_nobody_was_killed_by_the_hero():
    assert told("@n.").pays("combat", "@.n", "west") == {}  # it went away
    assert told("@n.").pays("combat", "@..", "west", "The kitten kills the newt!") == {}
    assert told("@f.").pays("combat", "@..", "east", "You kill the poor kitten!  You murderer!") == {}


def test_combat_charges_for_hit_points_and_idleness():
    assert told("@n.").pays("combat", "@n.", "east", hp=12) == {"hp_lost": -3.0}
    assert told("@n.", hp=5).pays("combat", "@n.", "east", hp=4) == {"hp_lost": -1.5}
    assert told("@n.").pays("combat", "@n.", "wait") == {"idle": -0.5}
    assert told("@n.").pays("combat", "@n.", "search") == {"idle": -0.5}
    assert told("@.n").pays("combat", "@.n", "wait") == {}
    assert told("@f.").pays("combat", "@f.", "wait") == {}


# -- descend -----------------------------------------------------------------------------------------------------------


def test_descend_pays_for_ways_down_only():
    assert told("@##").pays("descend", "#@#>", "east") == {"new_down_stairs": 25.0}
    assert told("@##").pays("descend", "#@#<", "east") == {}


def test_descend_pays_for_every_level_deeper_than_ever():
    story = told("|@..|")
    assert story.pays("descend", "|@..|", "down", depth=2) == {"deeper": 100.0}
    assert story.pays("descend", "|@..|", "up", depth=1) == {"no_progress": -0.1}
    assert story.pays("descend", "|@..|", "down", depth=2) == {"no_progress": -0.1}
    assert story.pays("descend", "|@..|", "east", depth=5) == {"deeper": 300.0}  # a hole


def test_descend_counts_gold_once_and_not_as_score():
    assert told("@##").pays("descend", "#@#", "east", score=9) == {"score": pytest.approx(0.9)}
    # NetHack's score holds the gold.
    story = told("@##")
    assert story.pays("descend", "#@#", "east", gold=30, score=30) == {"gold": 6.0, "no_progress": -0.1}
    assert story.pays("descend", "#@#", "drop:$", gold=0, score=0) == {"no_progress": -0.1}
    assert story.pays("descend", "#@#", "pickup", gold=30, score=30) == {"no_progress": -0.1}
    paid = story.pays("descend", "##@", "east", gold=35, score=135)
    assert paid == {"gold": 1.0, "score": 10.0}


def test_descend_pays_nothing_for_dropping_the_gold_one_began_with():
    # NetHack's score counts the gold above that only: botl_score().
    story = told("@##", gold=500, score=20)
    assert story.pays("descend", "@##", "drop:$", gold=0, score=20) == {"no_progress": -0.1}
    assert story.pays("descend", "@##", "pickup", gold=500, score=20) == {"no_progress": -0.1}
    assert story.pays("descend", "#@#", "east", gold=510, score=30) == {"gold": 2.0, "no_progress": -0.1}


def test_descend_pays_for_experience():
    paid = told("@##").pays("descend", "#@#", "east", experience_level=2, score=20)
    assert paid == {"experience_level": 1.0, "score": 2.0}
    assert told("@##", experience_level=2).pays("descend", "#@#", "east", experience_level=1) == {"no_progress": -0.1}


def test_descend_charges_for_steps_without_progress():
    assert told("@##").pays("descend", "#@#", "east") == {"no_progress": -0.1}
    assert told("@##").pays("descend", "#@##", "east") == {}


# -- resource ----------------------------------------------------------------------------------------------------------


def test_resource_pays_for_items():
    assert told("@###").pays("resource", "#@#)", "east") == {"new_item": 1.0}
    story = told("@)#")
    story.show("#@#", "east", "You see here a dagger.")
    assert story.pays("resource", "#@#", "pickup", "b - a dagger.") == {"pickup": 2.0}
    # Nothing is picked up without a letter.
    story = told("@)#")
    story.show("#@#", "east", "You see here a dagger.")
    assert story.pays("resource", "#@#", "pickup", "You cannot reach the floor.") == {}


def test_resource_pays_for_gold_once():
    story = told("@$#")
    assert story.pays("resource", "#@#", "east", "$ - 12 gold pieces.", gold=12) == {"gold": 12.0}
    assert story.pays("resource", "#@#", "drop:$", "You drop 12 gold pieces.", gold=0) == {"waste": -2.0}
    assert story.pays("resource", "#@#", "pickup", "$ - 12 gold pieces.", gold=12) == {}
    assert story.pays("resource", "##@", "east", gold=13) == {"gold": 1.0}


def test_resource_pays_nothing_for_dropping_and_picking_up():
    story = told("@##")
    down = story.pays("resource", "@##", "drop", "You drop a dagger.")
    up = story.pays("resource", "@##", "pickup", "b - a dagger.")
    assert (down, up) == ({"waste": -2.0}, {})
    story.pays("resource", "@##", "drop", "You drop a dagger.")
    assert story.pays("resource", ")@#", "east") == {}


@pytest.mark.parametrize(
    ("action", "stats", "wasted"),
    [
        ("eat", {"hunger": 1}, True),
        ("eat:f", {"hunger": 0}, True),
        ("eat", {"hunger": 2}, False),
        ("eat:f", {"hunger": 3}, False),
        ("drink", {"hp": 14}, True),
        ("drink:g", {"hp": 8}, True),
        ("drink", {"hp": 7}, False),
        ("drop", {"burden": 0}, True),
        ("drop:a", {"burden": 0}, True),
        ("drop", {"burden": 1}, False),
    ],
)
def test_resource_charges_for_what_has_no_reason(action, stats, wasted):
    assert told("@##", **stats).pays("resource", "@##", action) == ({"waste": -2.0} if wasted else {})
    # What did not happen wastes nothing, but is senseless.
    assert told("@##", **stats).pays("resource", "@##", action, took_time=False) == {"senseless": -1.0}


def test_weights_are_parameters():
    weights = RewardWeights(combat=rewards.CombatWeights(kill=7.0, cleared=0.5))
    story = told("@n.")
    before = story.memory.scene
    after = story.show("@..", "east", "You kill the newt!")
    assert rewards.reward("combat", before, "east", after, weights) == 7.5
    assert rewards.reward("combat", before, "east", after, WEIGHTS) == 20.0


# -- In real games -----------------------------------------------------------------------------------------------------


class Played:
    """A real game; `step` gives every task's terms that are not zero."""

    def __init__(self, game: Game, seed: int) -> None:
        self.playthrough = Playthrough(game, ACTION_SETS["compass"])
        self.playthrough.reset(seed)

    def step(self, action: str) -> dict[str, dict[str, float]]:
        before = self.playthrough.scene
        after = self.playthrough.step(action)
        return {
            task: {term: value for term, value in parts.items() if value}
            for task in TASKS
            for parts in [rewards.components(task, before, action, after, WEIGHTS)]
        }

    def follow(self, policy: Frontier, until, limit: int = 300) -> list[dict[str, dict[str, float]]]:
        policy.reset(0, 0)
        paid = []
        while not until(self.playthrough.scene):
            assert len(paid) < limit
            paid.append(self.step(policy.act([0], [self.playthrough])[0]))
        return paid


BACK = {"north": "south", "south": "north", "east": "west", "west": "east"}


def off(scene) -> str:
    """A direction with bare floor."""
    return next(name for name in BACK if scene.tile(name) == Tile.FLOOR)


def test_walking_off_and_on_stairs_and_up_and_down_pays_nothing():
    with Game() as game:
        played = Played(game, 36)
        step = off(played.playthrough.scene)
        start = [played.step(action) for action in (step, BACK[step]) * 3]
        assert not any("new_stairs" in paid["explore"] for paid in start)
        first = played.follow(Frontier("descend"), lambda scene: scene.depth == 2)
        assert sum(paid["explore"].get("new_stairs", 0) for paid in first) == 10.0
        assert sum(paid["descend"].get("new_down_stairs", 0) for paid in first) == 25.0
        assert [paid["descend"].get("deeper") for paid in first] == [None] * (len(first) - 1) + [100.0]

        step = off(played.playthrough.scene)
        for action in (step, BACK[step], step, BACK[step], "up", "down", "up", "down"):
            paid = played.step(action)
            assert played.playthrough.scene.took_time
            assert not {"new_stairs", "new_room", "new_tile"} & paid["explore"].keys()
            assert not {"deeper", "new_down_stairs", "score"} & paid["descend"].keys()
        assert played.playthrough.scene.depth == 2 and played.playthrough.memory.max_depth == 2


def test_dropping_and_picking_up_pays_nothing():
    with Game() as game:
        played = Played(game, 0)
        step = off(played.playthrough.scene)
        back = BACK[step]
        total = dict.fromkeys(("new_item", "pickup", "waste", "gold"), 0.0)
        for action in ("drop", step, back, "pickup", "drop", step, back, "pickup"):
            paid = played.step(action)
            assert played.playthrough.scene.took_time, action
            assert "new_item" not in paid["explore"], action
            for term in total:
                total[term] += paid["resource"].get(term, 0.0)
        assert total == {"new_item": 0.0, "pickup": 0.0, "waste": -4.0, "gold": 0.0}


def test_a_burdened_hero_earns_nothing_by_dropping_and_picking_up():
    story = told("@##", burden=1)
    for _ in range(3):
        assert story.pays("resource", "@##", "drop", "You drop a dagger.", burden=0) == {}
        assert story.pays("resource", "@##", "pickup", "b - a dagger.", burden=1) == {}


def test_dropping_gold_and_picking_it_up_pays_nothing():
    with Game(character="tou-hum-neu-fem") as game:
        played = Played(game, 2)
        gold = played.playthrough.scene.gold
        assert gold > 100
        step = off(played.playthrough.scene)
        back = BACK[step]
        held = []
        for action in ("drop:$", step, back):  # stepping back picks gold up by itself
            paid = played.step(action)
            held.append(played.playthrough.scene.gold)
            assert "gold" not in paid["resource"] and "new_item" not in paid["resource"]
            assert "gold" not in paid["descend"] and "score" not in paid["descend"]
            assert "new_item" not in paid["explore"]
        assert held == [0, 0, gold]


def test_commands_that_take_no_time_are_no_way_to_survive():
    with Game() as game:
        played = Played(game, 5)
        played.step(off(played.playthrough.scene))
        paid = [played.step(action)["survive"] for action in ("up", "pickup", "up", "pickup", "open", "down")]
        assert all(parts["senseless"] == -0.5 for parts in paid)
        assert all(sum(parts.values()) <= -0.75 for parts in paid)  # a repeated state too
        assert played.playthrough.scene.turn == 2


def test_dying_is_charged_once_and_the_last_living_moment_counts():
    with Game(character="tou-hum-neu-fem") as game:
        played = Played(game, 3)
        paid = played.follow(Frontier("descend"), lambda scene: scene.done)
        scene = played.playthrough.scene
    assert not scene.alive and scene.hp > 0 and scene.depth >= 1 and scene.max_hp > 0
    for task in TASKS:
        assert [step[task].get("death") for step in paid] == [None] * (len(paid) - 1) + [-100.0]
