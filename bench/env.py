"""Steps per second of raw gym NLE, `Game` and `SkillEnv`, and branches per second: ``python -m bench.env``.

All play the same seeded games of 200 steps, alone or 16 games in turn in one process as in training, with the
observation keys glyphs, chars, blstats and message. Of the 13 reference actions those nine are played, at random, that
are one key for raw NLE as well: kick, eat, drink and drop are whole commands here (a meal takes many turns), there only
a question. The parts take turns in rounds, and ratios are medians over rounds, so that what else the machine does
cancels out. Prints a table and, as the last line, the ratios as JSON.
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import gymnasium
from nle import nethack
from nle.env import NLE

from nethack_pipe.game.actions import ACTION_SETS, KEYS
from nethack_pipe.game.game import Game, nethack_seeds

OBSERVATION_KEYS = ("glyphs", "chars", "blstats", "message")
ACTIONS = ACTION_SETS["reference"]
PLAYED = 9  # the first nine actions
ROUNDS = 9
GAMES = 8  # per part and round
STEPS = 200
IN_TURN = 16  # games at a time, where they take turns
PROBES = 6  # states per round, each with one branch per action

T = TypeVar("T")
RAW, RAW_IN_TURN = "raw gym NLE", "raw, 16 in turn"
Play = Callable[[int], tuple[int, float]]  # plays a round, from this seed on: steps, seconds


def raw_nle(names: Iterable[str]) -> NLE:
    """Gym NLE with the actions of these names, each one key."""
    keys = [next(key for key in nethack.ACTIONS if int(key) == KEYS[name]) for name in names]
    return NLE(observation_keys=OBSERVATION_KEYS, actions=keys, save_ttyrec_every=0)


def raw(at_a_time: int = 1) -> Play:
    def begin(env: NLE, seed: int) -> None:
        core, disp, lgen = nethack_seeds(seed)
        env.seed(core, disp, False, lgen)
        env.reset()

    return _playing([raw_nle(ACTIONS) for _ in range(at_a_time)], begin, _gym_step)


def game(at_a_time: int = 1) -> Play:
    games = [Game(OBSERVATION_KEYS) for _ in range(at_a_time)]
    return _playing(games, lambda game, seed: game.reset(seed), lambda game, action: game.step(action).done)


def skill_env() -> Play:
    from nethack_pipe.tasks.env import EnvConfig, SkillEnv

    return _playing([SkillEnv(EnvConfig())], lambda env, seed: env.reset(seed=seed), _gym_step)


def _gym_step(env: gymnasium.Env, action: int) -> bool:
    _, _, terminated, truncated, _ = env.step(action)
    return terminated or truncated


def _playing(games: Sequence[T], begin: Callable[[T, int], object], step: Callable[[T, int], bool]) -> Play:
    """Plays the games of a round, as many at a time as there are `games`, a step of each in turn. `step` says whether
    it was the last."""

    def play(first: int) -> tuple[int, float]:
        steps, start = 0, time.perf_counter()
        for seed in range(first, first + max(GAMES, len(games)), len(games)):
            dice = [random.Random(seed + i) for i in range(len(games))]
            for i, game in enumerate(games):
                begin(game, seed + i)
            alive = list(range(len(games)))
            for _ in range(STEPS):
                steps += len(alive)
                alive = [i for i in alive if not step(games[i], dice[i].randrange(PLAYED))]
        return steps, time.perf_counter() - start

    return play


def branches() -> Play:
    game = Game()

    def play(first: int) -> tuple[int, float]:
        seconds = 0.0
        for seed in range(first, first + PROBES):
            game.reset(seed)
            game.step("search")
            start = time.perf_counter()
            game.probe(ACTIONS)
            seconds += time.perf_counter() - start
        return PROBES * len(ACTIONS), seconds

    return play


def main() -> None:
    parts = {
        **{RAW: raw(), "Game": game(), "SkillEnv": skill_env()},
        **{RAW_IN_TURN: raw(IN_TURN), "Game, 16 in turn": game(IN_TURN), "branch": branches()},
    }
    rates: dict[str, list[float]] = {name: [] for name in parts}
    for i in range(ROUNDS + 1):
        for name, play in parts.items():
            count, seconds = play(1 + i * GAMES)
            if i > 0:  # the first round warms up
                rates[name].append(count / seconds)

    def over_raw(name: str) -> float:
        plain = RAW_IN_TURN if name.endswith("in turn") else RAW
        return statistics.median(a / b for a, b in zip(rates[name], rates[plain], strict=True))

    print(f"{'':16} {'per second':>12} {'over raw':>9}   ({ROUNDS} rounds of {GAMES} games of {STEPS} steps)")
    for name in [name for name in parts if name != "branch"]:
        print(f"{name:16} {statistics.median(rates[name]):12.0f} {over_raw(name):9.2f}")
    print(f"{'branch':16} {statistics.median(rates['branch']):12.0f} {'':9}   (one step each)")
    ratios = {"game_over_raw": "Game", "skill_env_over_raw": "SkillEnv", "games_in_turn_over_raw": "Game, 16 in turn"}
    print(json.dumps({ratio: round(over_raw(name), 3) for ratio, name in ratios.items()}))


if __name__ == "__main__":
    main()
