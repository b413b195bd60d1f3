from pathlib import Path

from nethack_pipe.appo import progress
from nethack_pipe.appo.progress import Progress, Row


def row(frames: int, **episodes: list[float]) -> Row:
    return {"frames": frames, "train": {"entropy": frames / 100}, "episodes": episodes}


def test_rows_survive_and_those_to_be_played_again_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    first = Progress(path, 0)
    for frames in (100, 200, 300):
        first.append(row(frames, reward=[0.1 + 0.2]))
    with path.open("a") as file:
        file.write('{"frames": 400, "tra')  # what a kill leaves
    again = Progress(path, 200)
    assert again.rows == [row(100, reward=[0.1 + 0.2]), row(200, reward=[0.1 + 0.2])]
    again.append(row(300))
    assert Progress(path, 300).rows == again.rows


def test_the_curve_begins_with_the_first_ended_episode() -> None:
    rows = [row(100), row(200, reward=[1.0, 3.0], len=[10.0, 20.0]), row(300), row(400, reward=[8.0], len=[30.0])]
    assert progress.curve(rows, []) == [
        {"frames": 200, "return": 2.0, "length": 15.0, "entropy": 2.0},
        {"frames": 300, "return": 2.0, "length": 15.0, "entropy": 3.0},
        {"frames": 400, "return": 4.0, "length": 20.0, "entropy": 4.0},
    ]


def test_metrics_are_of_the_last_hundred_episodes() -> None:
    rows = [row(100, reward=[50.0] * 7, len=[9.0] * 7, max_raw_reward=[1.0] * 7)]
    rows += [row(200, reward=[1.0] * 50 + [3.0] * 48, len=[5.0] * 98, max_raw_reward=[2.0] * 98)]
    rows += [
        row(300, reward=[3.0] * 2, len=[5.0] * 2, max_raw_reward=[2.0] * 2, deaths=[1.0, 0.0], action_eat=[1.0] * 2)
    ]
    assert progress.metrics(rows, []) == {
        "frames": 300,
        "episodes": 107,
        "return": 2.0,
        "length": 5.0,
        "deaths": 0.01,
        "entropy": 2.0,
    }


def test_a_skills_return_is_that_of_games_wholly_its_own() -> None:
    half = row(
        100,
        reward=[5.0],
        len=[4.0],
        skill_explore=[0.5],
        skill_combat=[0.5],
        reward_explore_a=[3.0],
        reward_combat_b=[2.0],
    )
    whole = row(200, reward=[1.0, 9.0], len=[4.0] * 2, skill_explore=[1.0, 0.0], skill_combat=[0.0, 1.0])
    whole["episodes"] |= {
        "reward_explore_a": [2.0, 0.0],
        "reward_explore_c": [-1.0, 0.0],
        "reward_combat_b": [0.0, 9.0],
    }
    skills = ["explore", "combat", "descend"]
    points = [[point[f"return_{skill}"] for skill in skills] for point in progress.curve([half, whole], skills)]
    assert points == [[6.0, 4.0, None], [4.0 / 1.5, 11.0 / 1.5, None]]
    assert [progress.metrics([half, whole], skills)[f"return_{skill}"] for skill in skills] == points[-1]
    # Old games are forgotten, but only by a skill's own new ones.
    many = row(300, reward=[1.0] * 100, len=[4.0] * 100, skill_explore=[1.0] * 100, reward_explore_a=[1.0] * 100)
    last = progress.curve([half, whole, many], skills)[-1]
    assert (last["return_explore"], last["return_combat"]) == (1.0, 11.0 / 1.5)
