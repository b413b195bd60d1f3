"""What a branch costs by savestate, by fork and by replay from the seed: ``python -m bench.branch``.

A branch is one action, from the same moments for all, its observations copied out; each moment is left by nine actions.
"savestate, step" is `Game.step` and `Game.load`; "savestate, probe" is `Game.probe`, whose loop is in C. Then the same
for whole users of branches: turns per second of `task_greedy` on explore, in the same games. Parts take turns in
rounds, and ratios are medians over rounds, so that what else the machine does cancels out. Prints tables and, as the
last line, the ratios as JSON.
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from nethack_pipe.game.game import Game
from nethack_pipe.params import load
from nethack_pipe.policies.greedy import TaskGreedy
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights

ROUNDS = 7
MOMENTS = 6  # per round
DEPTH = (20, 90)  # actions before a moment
COPIES = 40  # how often the fast ways branch each moment, so that they are long enough to time
GREEDY_TURNS = 12  # per round
NINE = ("north", "south", "east", "west", "northeast", "northwest", "southeast", "southwest", "search")


def moments(first: int) -> list[tuple[int, list[str]]]:
    """(seed, actions so far)."""
    found = []
    for seed in range(first, first + MOMENTS):
        dice = random.Random(seed)
        found.append((seed, dice.choices(NINE, k=dice.randrange(*DEPTH))))
    return found


def play_to(game: Game, seed: int, actions: Sequence[str]) -> None:
    game.reset(seed)
    for action in actions:
        if not game.last.done:
            game.step(action)


Branch = Callable[[Game, int, list[str]], None]


def by_step(game: Game, seed: int, actions: list[str]) -> None:
    state = game.save()
    for action in NINE:
        game.step(action).copy()
        game.load(state)


def by_probe(game: Game, seed: int, actions: list[str]) -> None:
    game.probe(NINE)


def by_replay(game: Game, seed: int, actions: list[str]) -> None:
    for action in NINE:
        play_to(game, seed, actions)
        game.step(action).copy()


def seconds_per_branch(game: Game, branch: Branch, first: int, copies: int) -> float:
    seconds = 0.0
    for seed, actions in moments(first):
        play_to(game, seed, actions)
        if game.last.done:
            continue
        start = time.perf_counter()
        for _ in range(copies):
            branch(game, seed, list(actions))
        seconds += time.perf_counter() - start
    return seconds / (MOMENTS * copies * len(NINE))


def save_load_memcpy(game: Game, first: int) -> tuple[float, float, float, int]:
    """Seconds of a save, of a load one step later, and of a plain copy of as many bytes; the number of bytes."""
    times = np.zeros(3)
    for seed, actions in moments(first):
        play_to(game, seed, actions)
        state = game.save()
        size = state.savestate.nbytes
        source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
        for i in range(COPIES):
            start = time.perf_counter()
            state = game.save()
            saved = time.perf_counter()
            if not game.last.done:
                game.step(NINE[i % 9])
            stepped = time.perf_counter()
            game.load(state)
            loaded = time.perf_counter()
            np.copyto(target, source)
            times += saved - start, loaded - stepped, time.perf_counter() - loaded
    save, load_, memcpy = (times / (MOMENTS * COPIES)).tolist()
    return save, load_, memcpy, size


def greedy(game: Game, weights: RewardWeights, seed: int) -> tuple[float, list[str]]:
    """Seconds per turn, and what was played."""
    playthrough = Playthrough(game)
    playthrough.reset(seed)
    policy = TaskGreedy("explore", weights)
    policy.reset(0, seed)
    start = time.perf_counter()
    for _ in range(GREEDY_TURNS):
        playthrough.step(policy.act([0], [playthrough])[0])
    return (time.perf_counter() - start) / GREEDY_TURNS, game.actions


def main() -> None:
    weights = load(Path("params.yaml"), {"rewards": RewardWeights})["rewards"]
    saved, forked = Game(branching="savestate"), Game(branching="fork")
    ways: dict[str, tuple[Game, Branch, int]] = {
        "savestate, step": (saved, by_step, COPIES),
        "savestate, probe": (saved, by_probe, COPIES),
        "fork": (forked, by_probe, 1),
        "replay": (forked, by_replay, 1),
    }
    times: dict[str, list[float]] = {name: [] for name in (*ways, "save", "load", "memcpy", "greedy", "greedy, fork")}
    size = 0
    for i in range(ROUNDS + 1):
        first = 1 + i * MOMENTS
        measured = {name: seconds_per_branch(game, way, first, n) for name, (game, way, n) in ways.items()}
        measured["save"], measured["load"], measured["memcpy"], size = save_load_memcpy(saved, first)
        measured["greedy"], played = greedy(saved, weights, first)
        measured["greedy, fork"], the_same = greedy(forked, weights, first)
        assert played == the_same
        if i > 0:  # the first round warms up
            for name, seconds in measured.items():
                times[name].append(seconds)

    def over(name: str, other: str) -> float:
        return statistics.median(b / a for a, b in zip(times[name], times[other], strict=True))

    print(f"{'':18} {'branches/s':>11} {'over fork':>10}   ({ROUNDS} rounds of {MOMENTS} moments, nine actions each)")
    for name in ways:
        print(f"{name:18} {1 / statistics.median(times[name]):11.0f} {over(name, 'fork'):10.1f}")
    print(f"\n{'':18} {'us':>11}   (a state has {size} bytes)")
    for name in ("save", "load", "memcpy"):
        print(f"{name:18} {1e6 * statistics.median(times[name]):11.1f}")
    print(f"\n{'task_greedy':18} {'turns/s':>11} {'over fork':>10}   (explore)")
    for name in ("greedy", "greedy, fork"):
        print(f"{name:18} {1 / statistics.median(times[name]):11.0f} {over(name, 'greedy, fork'):10.1f}")
    ratios = {
        "step_over_fork": over("savestate, step", "fork"),
        "probe_over_fork": over("savestate, probe", "fork"),
        "greedy_over_fork": over("greedy", "greedy, fork"),
        "load_over_memcpy": 1 / over("load", "memcpy"),
    }
    print(json.dumps({name: round(ratio, 3) for name, ratio in ratios.items()}))


if __name__ == "__main__":
    main()
