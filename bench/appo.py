"""Frames per second of the default training against raw gym NLE on one core, and where its time goes:
``python -m bench.appo``.

Trains as params.yaml says, only shorter, on as many processes as stage `appo` would; what comes before the first frame
(imports, the games' start) is left out. Raw NLE plays before and after: the random keys of `bench.env`, most of which
run into a wall, and, as a fairer measure, the legal random walks of a `SkillEnv`, key by key. Then, in one process, the
microseconds of one observation by the C kernel and without it, in the same moments. Prints tables and, as the last
line, the ratios and the microseconds as JSON.
"""

import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from bench import env as bench_env
from nethack_pipe import params, portable
from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.game.game import nethack_seeds
from nethack_pipe.perception import observation
from nethack_pipe.perception.observation import Observer
from nethack_pipe.tasks.env import EnvConfig, SkillEnv
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import SKILLS
from stages.appo import AppoParams, env_settings, train

ITERATIONS = 24
RAW_ROUNDS = 3
GAMES = 6  # in which observations are timed
STEPS = 150


class Clock:
    """Seconds spent in methods, by name; a timed one within another counts for the inner one alone."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.first = self.last = 0.0
        self._inner = [0.0]

    def timed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            start = time.perf_counter()
            result = method(*args, **kwargs)
            self.last = time.perf_counter()
            self.first = self.first or start
            took = self.last - start
            self.seconds[name] += took - self._inner.pop()
            self._inner[-1] += took
            return result

        return wrapper


def training(settings: AppoParams) -> tuple[float, dict[str, float]]:
    """Frames per second, and the share of time in each part of the process that learns."""
    from nethack_pipe.appo.learner import Learner
    from nethack_pipe.appo.model import MaskedActorCritic
    from nethack_pipe.appo.vector_env import VectorEnv
    from nethack_pipe.parallel import worker_count

    clock = Clock()
    parts = (("games", VectorEnv, "step"), ("learning", Learner, "train"), ("inference", MaskedActorCritic, "forward"))
    with tempfile.TemporaryDirectory() as scratch:
        for name, owner, method in parts:
            mock.patch.object(owner, method, clock.timed(name, getattr(owner, method))).start()
        try:
            trained = train(settings, RewardWeights(), seed=1, scratch=Path(scratch), num_processes=worker_count())
        finally:
            mock.patch.stopall()
    seconds = clock.last - clock.first
    shares = {name: clock.seconds[name] / seconds for name, _, _ in parts}
    return trained.rows[-1]["frames"] / seconds, shares | {"Sample Factory": 1 - sum(shares.values())}


def walks(settings: AppoParams) -> list[tuple[int, list[str]]]:
    """Games, as seed and actions, of a hero who takes random legal steps as params.yaml's environment allows them."""
    env = SkillEnv(EnvConfig(**env_settings(settings)))
    steps = [i for i, name in enumerate(env.action_names) if name in DIRECTIONS]
    dice = random.Random(2)
    games = []
    for seed in range(1, 2 * bench_env.GAMES, 2):
        seen, _ = env.reset(seed=seed)
        actions: list[str] = []
        for _ in range(bench_env.STEPS):
            legal = [i for i in steps if seen["action_mask"][i]]
            actions.append(env.action_names[dice.choice(legal)] if legal else "search")
            seen, _, terminated, truncated, _ = env.step(env.action_names.index(actions[-1]))
            if terminated or truncated:
                break
        games.append((seed, actions))
    env.close()
    return games


def raw_walks(games: list[tuple[int, list[str]]]) -> Callable[[], float]:
    """Frames per second of raw NLE that plays `games`."""
    names = [*DIRECTIONS, "search"]
    env = bench_env.raw_nle(names)
    indices = {name: i for i, name in enumerate(names)}
    plan = [(nethack_seeds(seed), [indices[name] for name in actions]) for seed, actions in games]

    def play() -> float:
        steps, start = 0, time.perf_counter()
        for (core, disp, lgen), actions in plan:
            env.seed(core, disp, False, lgen)
            env.reset()
            for action in actions:
                _, _, terminated, truncated, _ = env.step(action)
                steps += 1
                if terminated or truncated:
                    break
        return steps / (time.perf_counter() - start)

    return play


def observing(settings: AppoParams) -> dict[str, float]:
    """Microseconds of a whole step of the environment, and of its observation with the kernel and without."""
    env = SkillEnv(EnvConfig(**env_settings(settings)))
    observers = {"kernel": Observer(env.observation_spec)}
    with mock.patch.object(observation, "_library", lambda: None):  # as where there is no compiler
        observers["python"] = Observer(env.observation_spec)
    seconds: Counter[str] = Counter()
    dice = random.Random(1)
    steps = 0
    for seed in range(GAMES):
        seen, _ = env.reset(seed=2 * seed)
        for _ in range(STEPS):
            action = dice.choice([i for i, legal in enumerate(seen["action_mask"].tolist()) if legal])
            start = time.perf_counter()
            seen, _, terminated, truncated, _ = env.step(action)
            seconds["step"] += time.perf_counter() - start
            steps += 1
            game, mask = env.playthrough, seen["action_mask"]
            for name, observer in observers.items():
                start = time.perf_counter()
                observer.observe(game.scene, game.memory, SKILLS.index(env.skill), mask)
                seconds[name] += time.perf_counter() - start
            if terminated or truncated:
                break
    env.close()
    return {name: 1e6 * value / steps for name, value in seconds.items()}


def main() -> None:
    portable.restart_in(portable.environment(True))
    default: AppoParams = params.load(Path("params.yaml"), {"appo": AppoParams})["appo"]
    frames = ITERATIONS * default.batch_size * default.num_batches_per_epoch
    short = default.model_copy(
        update={"train_for_env_steps": frames, "segment_env_steps": frames, "curriculum_env_steps": 0}
    )
    play = bench_env.raw()
    play(1)  # warms up

    def raw(first: int) -> list[float]:
        return [
            count / seconds for count, seconds in (play(bench_env.GAMES * i) for i in range(first, first + RAW_ROUNDS))
        ]

    walk = raw_walks(walks(default))
    walk()
    before, walking = raw(RAW_ROUNDS), [walk() for _ in range(RAW_ROUNDS)]
    rate, shares = training(short)
    plain = statistics.median(before + raw(2 * RAW_ROUNDS))
    walked = statistics.median(walking + [walk() for _ in range(RAW_ROUNDS)])
    us = observing(default)
    print(f"raw gym NLE, one core   {plain:8.0f} frames per second")
    print(f"  the same, legal steps {walked:8.0f} frames per second")
    print(f"training                {rate:8.0f} frames per second, {rate / plain:.2f} and {rate / walked:.2f} of raw")
    for name, share in shares.items():
        print(f"  {name:20}  {share:8.0%}")
    print(f"a step of SkillEnv alone {us['step']:7.0f} us")
    print(f"  its observation       {us['kernel']:8.0f} us, without the kernel {us['python']:.0f} us")
    figures = {"over_raw": rate / plain, "over_raw_steps": rate / walked, "features_us": us["kernel"]}
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
