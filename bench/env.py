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
IN_TURN = 16  # games, one step of each after another
PROBES = 6  # states per round, each with one branch per action

T = TypeVar("T")


def raw_nle(names: Iterable[str]) -> NLE:
    """Gym NLE with the actions of these names, each one key."""
    keys = [next(key for key in nethack.ACTIONS if int(key) == KEYS[name]) for name in names]
    return NLE(observation_keys=OBSERVATION_KEYS, actions=keys, save_ttyrec_every=0)


def raw() -> Callable[[int], tuple[int, float]]:
    env = raw_nle(ACTIONS)

    def play(first: int) -> tuple[int, float]:
        steps, start = 0, time.perf_counter()
        for seed in range(first, first + GAMES):
            dice = random.Random(seed)
            core, disp, lgen = nethack_seeds(seed)
            env.seed(core, disp, False, lgen)
            env.reset()
            for _ in range(STEPS):
                _, _, terminated, truncated, _ = env.step(dice.randrange(PLAYED))
                steps += 1
                if terminated or truncated:
                    break
        return steps, time.perf_counter() - start

    return play


def game() -> Callable[[int], tuple[int, float]]:
    game = Game(OBSERVATION_KEYS)

    def play(first: int) -> tuple[int, float]:
        steps, start = 0, time.perf_counter()
        for seed in range(first, first + GAMES):
            dice = random.Random(seed)
            game.reset(seed)
            for _ in range(STEPS):
                steps += 1
                if game.step(dice.randrange(PLAYED)).done:
                    break
        return steps, time.perf_counter() - start

    return play


def skill_env() -> Callable[[int], tuple[int, float]]:
    from nethack_pipe.tasks.env import EnvConfig, SkillEnv

    env = SkillEnv(EnvConfig())

    def play(first: int) -> tuple[int, float]:
        steps, start = 0, time.perf_counter()
        for seed in range(first, first + GAMES):
            dice = random.Random(seed)
            env.reset(seed=seed)
            for _ in range(STEPS):
                _, _, terminated, truncated, _ = env.step(dice.randrange(PLAYED))
                steps += 1
                if terminated or truncated:
                    break
        return steps, time.perf_counter() - start

    return play


def raw_in_turn() -> Callable[[int], tuple[int, float]]:
    envs = [raw_nle(ACTIONS) for _ in range(IN_TURN)]

    def begin(env: NLE, seed: int) -> None:
        core, disp, lgen = nethack_seeds(seed)
        env.seed(core, disp, False, lgen)
        env.reset()

    def step(env: NLE, action: int) -> bool:
        _, _, terminated, truncated, _ = env.step(action)
        return terminated or truncated

    return _in_turn(envs, begin, step)


def games_in_turn() -> Callable[[int], tuple[int, float]]:
    games = [Game(OBSERVATION_KEYS) for _ in range(IN_TURN)]
    return _in_turn(games, lambda game, seed: game.reset(seed), lambda game, action: game.step(action).done)


def _in_turn(
    games: Sequence[T], begin: Callable[[T, int], object], step: Callable[[T, int], bool]
) -> Callable[[int], tuple[int, float]]:
    def play(first: int) -> tuple[int, float]:
        dice = [random.Random(first + i) for i in range(IN_TURN)]
        alive = list(range(IN_TURN))
        for i in alive:
            begin(games[i], first + i)
        steps, start = 0, time.perf_counter()
        for _ in range(STEPS):
            steps += len(alive)
            alive = [i for i in alive if not step(games[i], dice[i].randrange(PLAYED))]
        return steps, time.perf_counter() - start

    return play


def branches() -> Callable[[int], tuple[int, float]]:
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
        **{"raw gym NLE": raw(), "Game": game(), "SkillEnv": skill_env()},
        **{"raw, 16 in turn": raw_in_turn(), "Game, 16 in turn": games_in_turn(), "branch": branches()},
    }
    rates: dict[str, list[float]] = {name: [] for name in parts}
    for i in range(ROUNDS + 1):
        for name, play in parts.items():
            count, seconds = play(1 + i * GAMES)
            if i > 0:  # the first round warms up
                rates[name].append(count / seconds)

    def over(name: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(rates[name], rates[other], strict=True))

    compared = {"raw gym NLE": "raw gym NLE", "Game": "raw gym NLE", "SkillEnv": "raw gym NLE"}
    compared |= {"raw, 16 in turn": "raw, 16 in turn", "Game, 16 in turn": "raw, 16 in turn"}
    print(f"{'':16} {'per second':>12} {'over raw':>9}   ({ROUNDS} rounds of {GAMES} games of {STEPS} steps)")
    for name, other in compared.items():
        print(f"{name:16} {statistics.median(rates[name]):12.0f} {over(name, other):9.2f}")
    print(f"{'branch':16} {statistics.median(rates['branch']):12.0f} {'':9}   (one step each)")
    ratios = {"game_over_raw": "Game", "skill_env_over_raw": "SkillEnv", "games_in_turn_over_raw": "Game, 16 in turn"}
    print(json.dumps({ratio: round(over(name, compared[name]), 3) for ratio, name in ratios.items()}))


if __name__ == "__main__":
    main()
