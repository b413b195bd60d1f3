"""The world outside: whole games with random heroes, and the figures by which others report theirs.

As in NLE's NetHackChallenge the hero's role is random. Skills take turns by the rule-based scheduler, and a rule says
when to pray, for every policy alike. An action here is a whole command with its questions answered; others count keys.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from nethack_pipe import seeds
from nethack_pipe.evaluation.schema import WORLD
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import RANDOM_HERO, Game
from nethack_pipe.game.tables import MONSTER_NAMES
from nethack_pipe.perception import glyphs
from nethack_pipe.policies.protocol import Policy
from nethack_pipe.policies.scripted import Frontier
from nethack_pipe.statistics import mean_interval, paired_difference
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.skills import SKILLS, Scheduler, Skill, should_stop

REPORTED = ("progression", "depth", "experience_level", "score", "length", "prayers", "alive")
COMPARED = ("progression", "depth", "score")

# Percent of human games that were won, of those that reached depth, or experience level, 1, 2, 3 ...; 1 is where all
# begin. From BALROG (Paglieri et al. 2024), balrog/environments/nle/achievements.json, rounded to two decimals.
WON_FROM_DEPTH = (
    *(0.0, 1.54, 1.75, 2.12, 2.65, 3.54, 4.85, 6.96, 9.77, 12.56),
    *(16.13, 20.61, 25.66, 29.25, 30.88, 32.49, 34.01, 35.26, 36.55, 37.9),
    *(39.29, 40.83, 42.58, 44.52, 46.64, 50.68, 55.44, 60.16, 64.65, 69.13),
    *(71.01, 71.76, 72.32, 72.84, 73.28, 73.69, 74.21, 74.71, 75.37, 76.1),
    *(76.74, 77.25, 77.72, 78.13, 78.59, 78.9, 79.3, 79.67, 80.18, 80.68),
)
WON_FROM_EXPERIENCE_LEVEL = (
    *(0.0, 1.85, 2.08, 2.42, 2.91, 3.69, 5.08, 7.45, 11.7, 17.91),
    *(25.48, 33.26, 41.44, 49.4, 57.79, 62.61, 65.63, 68.1, 70.15, 71.74),
    *(72.87, 73.71, 74.43, 75.13, 75.86, 76.42, 77.03, 77.6, 77.83, 78.05),
)


def progression(depth: int, experience_level: int) -> float:
    """BALROG's progression, percent: that of the best milestone among the deepest level and the highest experience
    level reached, both from 1. Deeper than the table (50) counts as its end."""
    deepest = min(depth, len(WON_FROM_DEPTH))
    return max(WON_FROM_DEPTH[deepest - 1], WON_FROM_EXPERIENCE_LEVEL[experience_level - 1])


@dataclass(frozen=True, slots=True)
class WholeGame:
    """One game to play: to its end, or `max_steps` actions long.

    Attributes:
        skills: these take turns; the first one where none of them has anything to do.
        prays: whether the hero prays when `tasks.prayer.Prayer` says so, whether or not the policy could.
    """

    policy: str
    seed: int
    policy_seed: int
    max_steps: int
    actions: str
    skills: tuple[Skill, ...]
    prays: bool

    def __str__(self) -> str:
        return f"the whole game {self.seed} of {self.policy}"


def whole_games(
    root: int,
    games: int,
    policy: str,
    max_steps: int,
    actions: str,
    skills: Sequence[Skill] = SKILLS,
    prays: bool = True,
) -> list[WholeGame]:
    """The same held-out games for every policy."""
    return [
        WholeGame(
            policy,
            seeds.game_seed(root, "held_out", "world", i),
            seeds.integer(root, "evaluate", "world", policy, i),
            max_steps,
            actions,
            tuple(skills),
            prays,
        )
        for i in range(games)
    ]


def play_whole_game(whole: WholeGame) -> dict[str, Any]:
    """Plays a game with the frontier policy, as `play_with` does."""
    frontier = Frontier(whole.skills[0])
    return play_with(frontier, partial(setattr, frontier, "task"), whole)


def play_with(policy: Policy, set_skill: Callable[[Skill], None], whole: WholeGame) -> dict[str, Any]:
    """Plays a game; its row, with the columns of `schema.WORLD_COLUMNS`. `set_skill` tells the policy its skill."""
    scheduler = Scheduler("rule_based", whole.skills)
    with Game(character=RANDOM_HERO) as game:
        playthrough = Playthrough(game, ACTION_SETS[whole.actions])
        scene = playthrough.reset(whole.seed)
        role = MONSTER_NAMES[glyphs.MONSTER_OF[game.last.observation["glyphs"].flat[scene.cell]]]
        policy.reset(0, whole.policy_seed)
        skill = scheduler.next(scene)
        set_skill(skill)
        depth, experience_level, length, skill_steps = scene.depth, scene.experience_level, 0, 0
        while not scene.done and length < whole.max_steps:
            if whole.prays and playthrough.prayer.is_due(scene):
                scene = playthrough.step("pray")
            else:
                scene = playthrough.step(policy.act([0], [playthrough])[0])
            length += 1
            skill_steps += 1
            depth = max(depth, scene.depth)
            experience_level = max(experience_level, scene.experience_level)
            if should_stop(skill, scene, skill_steps):
                skill, skill_steps = scheduler.next(scene), 0
                set_skill(skill)
        return {
            "policy": whole.policy,
            "game_seed": whole.seed,
            "role": role,
            "length": float(length),
            "turns": float(scene.turn),
            "depth": float(depth),
            "experience_level": float(experience_level),
            "score": float(scene.score),
            "prayers": float(game.actions.count("pray")),
            "progression": progression(depth, experience_level),
            "alive": float(scene.alive),
            "how": game.how or "",
        }


def world_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """The rows of `play_whole_game` as a table."""
    return pa.Table.from_pylist(list(rows), schema=WORLD)


def score(rows: Iterable[dict[str, Any]], root: int, against: str | None = None) -> dict[str, dict[str, Any]]:
    """By policy ``games`` and `REPORTED`, each as ``{mean, low, high}``; for all but `against` also
    ``<figure>_minus_<against>`` of `COMPARED`, paired by game."""
    games: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        games.setdefault(row["policy"], {})[row["game_seed"]] = row
    metrics: dict[str, dict[str, Any]] = {}
    for policy, own in games.items():
        report: dict[str, Any] = {"games": len(own)}
        for name in REPORTED:
            rng = seeds.rng(root, "evaluate", "world", policy, name)
            report[name] = mean_interval([row[name] for row in own.values()], rng)
        if against in games and policy != against:
            other = games[against]
            if other.keys() != own.keys():
                raise ValueError(f"whole games: {policy} and {against} did not play the same games")
            for name in COMPARED:
                report[f"{name}_minus_{against}"] = paired_difference(
                    [own[seed][name] for seed in sorted(own)],
                    [other[seed][name] for seed in sorted(own)],
                    seeds.rng(root, "evaluate", "world", policy, name, "minus", against),
                )
        metrics[policy] = report
    return metrics
