"""Where the games of the closed loop begin: with a held-out game, or at a decisive moment of one.

A start is a seed and the actions that lead from it to the moment: replaying them is cheap and exact, so that every
policy takes over the identical game.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import pyarrow as pa

from nethack_pipe import seeds
from nethack_pipe.evaluation.schema import MOMENTS
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.parallel import map_chunks
from nethack_pipe.policies.scripted import Frontier
from nethack_pipe.rollouts.schema import read
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.skills import DECISIVE, Skill

StartKind = Literal["game", "moment"]

SCOUT_TASK: Skill = "descend"  # of the frontier policy that looks for moments: the deeper, the more dangerous
GAMES_PER_MOMENT = 10  # games searched at the most for each moment wanted; HP fall to half in every third game or so
GAMES_PER_SEARCH = 4


@dataclass(frozen=True, slots=True)
class Start:
    """NetHack's seed, and what is played before the policy takes over."""

    seed: int
    actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """Some games to search for the first decisive moment of each of `tasks`, `max_steps` actions each."""

    seeds: tuple[int, ...]
    tasks: tuple[Skill, ...]
    max_steps: int

    def __str__(self) -> str:
        return f"the search for moments in games {', '.join(map(str, self.seeds))}"


def beginnings(root: int, count: int) -> list[Start]:
    """The first `count` held-out games of the closed loop."""
    return [Start(seeds.game_seed(root, "held_out", "evaluate", i)) for i in range(count)]


def search(games: Search) -> list[dict[Skill, Start]]:
    """For each game the first decisive moment of each task that it has one of."""
    found: list[dict[Skill, Start]] = []
    with Game() as game:
        for seed in games.seeds:
            playthrough = Playthrough(game, ACTION_SETS["compass"])
            scene = playthrough.reset(seed)
            scout = Frontier(SCOUT_TASK)
            scout.reset(0, 0)
            moments: dict[Skill, Start] = {}
            for _ in range(games.max_steps):
                for task in games.tasks:
                    if task not in moments and DECISIVE[task](scene):
                        moments[task] = Start(seed, tuple(game.actions))
                if len(moments) == len(games.tasks):
                    break
                scene = playthrough.step(scout.act([0], [playthrough])[0])
                if scene.done:
                    break
            found.append(moments)
    return found


def find_moments(
    root: int, tasks: Sequence[Skill], count: int, max_steps: int, cache: Path | None = None
) -> dict[Skill, list[Start]]:
    """Up to `count` decisive moments for each of `tasks` that `DECISIVE` knows, one a game, from held-out games of
    their own. Games are searched one after the other until there are enough, `GAMES_PER_MOMENT` x `count` at the most;
    `cache` is that of `parallel.map_chunks`."""
    found: dict[Skill, list[Start]] = {task: [] for task in tasks if task in DECISIVE}
    games = [seeds.game_seed(root, "held_out", "moments", i) for i in range(count * GAMES_PER_MOMENT if found else 0)]
    searches = [
        Search(tuple(games[i : i + GAMES_PER_SEARCH]), tuple(found), max_steps)
        for i in range(0, len(games), GAMES_PER_SEARCH)
    ]
    with closing(map_chunks(search, searches, desc="search for moments", cache=cache)) as searched:  # type: ignore[type-var]
        for games_found in searched:
            for moments in games_found:
                for task, moment in moments.items():
                    found[task].append(moment)
            if all(len(starts) >= count for starts in found.values()):
                break
    return {task: list(islice(starts, count)) for task, starts in found.items()}


def moments_table(moments: dict[Skill, list[Start]]) -> pa.Table:
    """One row per moment."""
    rows = [
        {"task": task, "game_seed": start.seed, "actions": list(start.actions)}
        for task, starts in moments.items()
        for start in starts
    ]
    return pa.Table.from_pylist(rows, schema=MOMENTS)


def read_moments(folder: Path) -> dict[Skill, list[Start]]:
    """What `moments_table` was made of, from the table in `folder`."""
    moments: dict[Skill, list[Start]] = {}
    for row in read(folder, "moments", MOMENTS).to_pylist():
        moments.setdefault(row["task"], []).append(Start(row["game_seed"], tuple(row["actions"])))
    return moments
