"""The summary of one made-up episode, whole."""

from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.episode import Episode
from nethack_pipe.tasks.rewards import RewardWeights
from tests.helpers.scenes import Story

WEIGHTS = RewardWeights()


def test_the_summary_of_an_episode():
    story = Story()
    episode = Episode(story.show("@n##", score=10, gold=3))
    told = [
        ("explore", "#@.##", "east", "You kill the newt!", {"score": 17, "hp": 12}),
        ("combat", "#@.##", "east", "", {}),  # held fast: a repeated state, the same action again
        ("explore", "#@.##", "pickup", "", {"took_time": False}),  # senseless, and a repeated state
        ("explore", "..@#", "down", "", {"depth": 2, "gold": 8}),
        ("explore", "#@.##", "up", "You die...", {"depth": 1, "hp": 4, "died": True}),  # a recent tile
    ]
    for task, painting, action, text, changes in told:
        before = story.memory.scene
        after = story.show(painting, action, text, **changes)
        episode.add(task, action, before, after, rewards.components(task, before, action, after, WEIGHTS))
    explore = {"new_tile": 1 + 4, "repeated_state": -0.25, "recent_tile": -0.1, "senseless": -0.5, "death": -100.0}
    summary = episode.summary()
    assert summary == {
        "task_reward": sum(explore.values()),
        "env_reward": 7.0,
        "length": 5.0,
        "unique_tiles": 9.0,
        "rooms": 0.0,
        "kills": 1.0,
        "final_hp": 4.0,
        "depth": 2.0,
        "gold": 8.0,
        "alive": 0.0,
        "repeated_state_rate": 0.4,
        "repeated_action_rate": 0.2,
        "recent_tile_rate": 0.2,
        "senseless_rate": 0.2,
        **{f"reward_explore_{term}": value for term, value in explore.items()},
        **{"action_east": 0.4, "action_pickup": 0.2, "action_down": 0.2, "action_up": 0.2},
    }
    assert all(type(value) is float for value in summary.values())


def test_an_episode_without_steps():
    story = Story()
    summary = Episode(story.show("@##", hp=9)).summary()
    assert (summary["length"], summary["task_reward"], summary["final_hp"], summary["alive"]) == (0.0, 0.0, 9.0, 1.0)
