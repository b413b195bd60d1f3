"""Speed of labelling and what common random numbers save: ``python -m bench.counterfactuals``.

Games that `frontier` records are labelled with the committed parameters (``params.yaml``, section counterfactuals).
One and two worker processes label the same games in turns, and the ratio is the median over rounds; their start, which
a stage pays once, is left out. Where the time goes is measured in this process, by a clock around the game's methods.

The variance of differences between two actions' returns is that under common random numbers over that with streams of
each action's own, on the same moments and branches: different samples are independent of each other, so the second is
had from comparing across samples (`estimates.variances_of_differences`). Within a task variances are summed over all
pairs of actions of all moments: the ratio then is that of the samples needed for the same error, while single pairs'
ratios would be ruled by those that hardly vary. The tasks' ratios, each in points of its own, are pooled by their
geometric mean. Prints tables and, as the last line, the ratios as JSON.
"""

import functools
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from nethack_pipe import params
from nethack_pipe.counterfactuals.label import Chunk, Labelling, label_chunk, recorded_games
from nethack_pipe.counterfactuals.preferences import preferences
from nethack_pipe.counterfactuals.summary import summary
from nethack_pipe.game.game import Game
from nethack_pipe.parallel import map_chunks
from nethack_pipe.rollouts.play import GameSpec
from nethack_pipe.rollouts.record import Assignment, record
from nethack_pipe.stage import BaseParams
from nethack_pipe.tasks.rewards import RewardWeights
from stages.counterfactuals import CounterfactualsParams

GAMES = 16
STEPS = 120  # per game
ROUNDS = 3
# Methods of Game whose time is the game's, and those whose time is that of saving and loading.
CLOCKED = {"game": ("reset", "step", "reseed", "probe"), "save and load": ("save", "load")}


def chunks(sections: dict[str, Any]) -> list[Chunk]:
    assignments = [Assignment("train", i, GameSpec(1000 + i, i), "frontier", "explore") for i in range(GAMES)]
    games = recorded_games(record(assignments, STEPS, sections["rewards"]))
    left_out = {"num_games", "num_held_out_games", "confidence"}
    settings = sections["counterfactuals"].model_dump(exclude=left_out)
    how = Labelling(root_seed=sections["base"].seed, weights=sections["rewards"], **settings)
    return [(game, how) for game in games]


def seconds(work: list[Chunk], workers: int) -> float:
    game, how = work[0]
    nothing = [(replace(game, actions=()), how)] * workers  # done as soon as the processes have started
    results = map_chunks(label_chunk, [*nothing, *work], workers=workers, desc=f"{workers} workers")
    for _ in nothing:
        next(results)
    start = time.perf_counter()
    for _ in results:
        pass
    return time.perf_counter() - start


@contextmanager
def clocks() -> Iterator[Counter[str]]:
    """Seconds spent in the methods of `CLOCKED`, while this lasts. A game branched by fork has no save and load."""
    spent: Counter[str] = Counter()

    def clocked(method: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*args: Any) -> Any:
            start = time.perf_counter()
            try:
                return method(*args)
            finally:
                spent[name] += time.perf_counter() - start  # type: ignore[assignment]

        return timed

    originals = {method: (getattr(Game, method), name) for name, methods in CLOCKED.items() for method in methods}
    for method, (function, name) in originals.items():
        setattr(Game, method, clocked(function, name))
    try:
        yield spent
    finally:
        for method, (function, _) in originals.items():
            setattr(Game, method, function)


def main() -> None:
    models = {"base": BaseParams, "rewards": RewardWeights, "counterfactuals": CounterfactualsParams}
    sections = params.load(Path("params.yaml"), models)
    work = chunks(sections)
    label_chunk(work[0])  # warms up

    start = time.perf_counter()
    table = pa.concat_tables([label_chunk(chunk) for chunk in work])
    plain = time.perf_counter() - start
    with clocks() as spent:
        start = time.perf_counter()
        for chunk in work:
            label_chunk(chunk)
        whole = time.perf_counter() - start
    spent["labelling, memory, policy"] = whole - sum(spent.values())  # type: ignore[assignment]

    times = {workers: [] for workers in (1, 2)}  # type: dict[int, list[float]]
    for _ in range(ROUNDS):
        for workers, found in times.items():
            found.append(seconds(work, workers))
    speed_up = statistics.median(one / two for one, two in zip(times[1], times[2], strict=True))

    confidence = sections["counterfactuals"].confidence
    figures = summary(table, preferences(table, confidence), confidence)
    ratios = {name: ratio for name, ratio in figures["variance_with_common_over_without"].items() if ratio is not None}
    pooled = statistics.geometric_mean(ratios.values())

    how = work[0][1]
    steps = figures["rows"] * (1 + how.samples * how.horizon)
    print(f"{GAMES} games: {figures['moments']} moments, {figures['rows']} actions, {figures['branches']} branches, of")
    print(f"{how.horizon} steps under {how.samples} samples each, which {how.policy} goes on with")
    print(f"per second and core: {figures['moments'] / plain:.2f} moments, {figures['branches'] / plain:.0f} branches")
    print(f"per step of a branch: {plain / steps * 1e6:.0f} microseconds")
    for name, value in spent.items():
        print(f"  {name:26} {value / whole:6.1%}")
    print(
        f"two workers over one: {speed_up:.2f} (median of {ROUNDS} rounds, {statistics.median(times[1]):.1f} s by one)"
    )
    print("variance of differences, with common random numbers over without:")
    for name, ratio in ratios.items():
        print(f"  {name:26} {ratio:6.2f}")
    print(
        json.dumps(
            {
                "two_workers_over_one": round(speed_up, 3),
                "variance_with_common_over_without": round(pooled, 3),
                "share_of_game": round(spent["game"] / whole, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
