"""Many games stepped in lock-step by several processes: same results for every number of processes.

Each process plays a fixed block of the games. Observations, rewards and actions lie in one anonymous shared memory, so
a step costs a few bytes through a pipe per process. A process that dies, an environment that raises and one that hangs
all end as one `GameError` that names the seed of the game, with every process gone.

The worker processes are spawned and import neither torch nor Sample Factory.
"""

import mmap
import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection, get_context, reduction
from multiprocessing.context import SpawnProcess
from typing import Any

import gymnasium
import numpy as np

HANG_SECONDS = 300.0  # no single step or reset takes longer, even on a machine that is busy with other work


class GameError(RuntimeError):
    """An environment raised, hung, or took its process with it; the message names the game's seed."""


@dataclass(frozen=True)
class _Layout:
    """Where each array lies in the shared memory: name -> (offset, shape, dtype)."""

    arrays: dict[str, tuple[int, tuple[int, ...], str]]
    size: int

    @classmethod
    def of(cls, space: gymnasium.spaces.Dict, num_games: int, num_processes: int) -> "_Layout":
        wanted: dict[str, tuple[tuple[int, ...], Any]] = {
            f"obs/{key}": ((num_games, *(box.shape or ())), box.dtype) for key, box in space.spaces.items()
        }
        wanted["actions"] = ((num_games,), np.int64)
        wanted["rewards"] = ((num_games,), np.float32)
        wanted["terminated"] = wanted["truncated"] = ((num_games,), np.bool_)
        wanted["seeds"] = ((num_games,), np.int64)  # of the game that is played now
        wanted["busy"] = ((num_processes,), np.int64)  # the game that a process is stepping, -1 for none
        arrays, offset = {}, 0
        for name, (shape, dtype) in wanted.items():
            arrays[name] = (offset, shape, np.dtype(dtype).str)
            offset += -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // 64) * 64
        return cls(arrays, offset)

    def views(self, memory: mmap.mmap) -> dict[str, np.ndarray]:
        return {name: np.ndarray(shape, dtype, memory, at) for name, (at, shape, dtype) in self.arrays.items()}


class VectorEnv:
    """`num_games` environments made by `make_env`, in `num_processes` processes.

    `make_env` (picklable) gives a Gymnasium environment with a Dict observation space of arrays and a Discrete action
    space. Game g (0 <= g < num_games) plays as its e-th episode since `reset(first)` the game
    `seed_of(first + g + e * num_games)`, so what is played does not depend on when other games end. An episode whose
    last info has a ``moment`` is followed by one of the same game, ``reset(options={"go_on": True})``, that is not
    counted.
    """

    def __init__(
        self,
        make_env: Callable[[], gymnasium.Env],
        num_games: int,
        num_processes: int,
        seed_of: Callable[[int], int],
    ) -> None:
        self.num_games = num_games
        num_processes = min(num_processes, num_games)
        blocks = np.array_split(np.arange(num_games), num_processes)
        context = get_context("spawn")
        self._processes: list[SpawnProcess] = []
        self._pipes: list[connection.Connection] = []
        self._views: dict[str, np.ndarray] = {}
        try:
            for index, games in enumerate(blocks):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_serve,
                    args=(theirs, make_env, index, range(games[0], games[-1] + 1), num_games, seed_of),
                    name=f"games-{index}",
                    daemon=True,
                )
                process.start()
                theirs.close()
                self._processes.append(process)
                self._pipes.append(ours)
            self.observation_space, self.action_space = self._replies()[0]
            layout = _Layout.of(self.observation_space, num_games, num_processes)
            descriptor = os.memfd_create("games")
            try:
                os.ftruncate(descriptor, layout.size)
                for pipe, process in zip(self._pipes, self._processes, strict=True):
                    pipe.send(layout)
                    reduction.send_handle(pipe, descriptor, process.pid)
                self._views = layout.views(mmap.mmap(descriptor, layout.size))
            finally:
                os.close(descriptor)
            self._replies()
        except BaseException:
            self._kill()
            raise

    def reset(self, first: int) -> dict[str, np.ndarray]:
        """Start all games anew, game g with `seed_of(first + g)`. Returns the observations, each (num_games, ...)."""
        self._call(("reset", first))
        return self._observations()

    def step(
        self, actions: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray, dict[int, dict[str, float]]]:
        """One action (num_games,) in every game.

        Returns observations (of the next game where one ended), rewards (num_games,) float32, terminated and truncated
        (num_games,) bool, and the `episode_extra_stats` of the games that ended: game -> name -> number.
        """
        self._views["actions"][:] = actions
        ended: dict[int, dict[str, float]] = {}
        for reply in self._call(("step", None)):
            ended |= reply
        return (
            self._observations(),
            self._views["rewards"].copy(),
            self._views["terminated"].copy(),
            self._views["truncated"].copy(),
            ended,
        )

    def close(self) -> None:
        """Close all environments and end the processes. May be called more than once."""
        for pipe in self._pipes:
            try:
                pipe.send(("close", None))
            except OSError:
                continue  # it is gone already
        for process in self._processes:
            process.join(timeout=5)
        self._kill()

    def _observations(self) -> dict[str, np.ndarray]:
        return {key: self._views[f"obs/{key}"].copy() for key in self.observation_space.spaces}

    def _call(self, command: tuple[str, int | None]) -> list[Any]:
        if not self._pipes:
            raise GameError("the games are closed")
        try:
            for pipe in self._pipes:
                pipe.send(command)
        except OSError:
            pass  # a process is gone; reading its reply says which game it played
        return self._replies()

    def _replies(self) -> list[Any]:
        """One reply of each process, in their order. On trouble everything is ended and GameError raised."""
        replies: dict[int, Any] = {}
        waiting = dict(enumerate(self._pipes))
        while waiting:
            ready = connection.wait(list(waiting.values()), timeout=HANG_SECONDS)
            if not ready:
                index = next(iter(waiting))
                self._fail(index, f"did not answer within {HANG_SECONDS:.0f} s")
            for index, pipe in list(waiting.items()):
                if pipe not in ready:
                    continue
                try:
                    reply = pipe.recv()
                except (EOFError, OSError):
                    self._processes[index].join(timeout=5)
                    self._fail(index, f"died with its process (exit code {self._processes[index].exitcode})")
                if isinstance(reply, str):
                    self._fail(index, f"raised:\n{reply}")
                replies[index] = reply
                del waiting[index]
        return [replies[index] for index in range(len(self._pipes))]

    def _fail(self, index: int, what: str) -> None:
        game = int(self._views["busy"][index]) if self._views else -1
        name = f"the game with seed {int(self._views['seeds'][game])}" if game >= 0 else f"game process {index}"
        self._kill()
        raise GameError(f"{name} {what}") from None

    def _kill(self) -> None:
        for process in self._processes:
            if process.is_alive():
                process.kill()
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._processes, self._pipes = [], []


def _serve(
    pipe: connection.Connection,
    make_env: Callable[[], gymnasium.Env],
    index: int,
    games: range,
    num_games: int,
    seed_of: Callable[[int], int],
) -> None:
    """The life of one process. Ends when the pipe does, so it never outlives its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    try:
        envs = [make_env() for _ in games]
        pipe.send((envs[0].observation_space, envs[0].action_space))
        layout: _Layout = pipe.recv()
        descriptor = reduction.recv_handle(pipe)
        block = _Block(envs, index, games, num_games, seed_of, layout.views(mmap.mmap(descriptor, layout.size)))
        os.close(descriptor)
        pipe.send(None)
        while True:
            command, argument = pipe.recv()
            if command == "close":
                break
            pipe.send(block.step() if command == "step" else block.reset(argument))
        for env in envs:
            env.close()
    except (EOFError, ConnectionError):
        return
    except Exception:
        pipe.send(traceback.format_exc())


class _Block:
    """The games of one process, read from and written to the shared arrays."""

    def __init__(
        self,
        envs: list[gymnasium.Env],
        index: int,
        games: range,
        num_games: int,
        seed_of: Callable[[int], int],
        views: dict[str, np.ndarray],
    ) -> None:
        self.envs, self.index, self.games, self.num_games, self.seed_of = envs, index, games, num_games, seed_of
        self.views = views
        self.next_game: list[int] = []

    def reset(self, first: int) -> dict[int, dict[str, float]]:
        self.next_game = [first + game for game in self.games]
        for at in range(len(self.envs)):
            self._start(at)
        self.views["busy"][self.index] = -1
        return {}

    def step(self) -> dict[int, dict[str, float]]:
        ended = {}
        views = self.views
        for at, (game, env) in enumerate(zip(self.games, self.envs, strict=True)):
            views["busy"][self.index] = game
            observation, reward, terminated, truncated, info = env.step(int(views["actions"][game]))
            views["rewards"][game] = reward
            views["terminated"][game] = terminated
            views["truncated"][game] = truncated
            if terminated or truncated:
                ended[game] = {name: float(value) for name, value in info.get("episode_extra_stats", {}).items()}
                self._start(at, go_on="moment" in info)
            else:
                self._show(game, observation)
        views["busy"][self.index] = -1
        return ended

    def _start(self, at: int, go_on: bool = False) -> None:
        game = self.games[at]
        self.views["busy"][self.index] = game
        if go_on:
            observation, _ = self.envs[at].reset(options={"go_on": True})
            self._show(game, observation)
            return
        seed = self.seed_of(self.next_game[at])
        self.next_game[at] += self.num_games
        self.views["seeds"][game] = seed
        observation, _ = self.envs[at].reset(seed=seed)
        self._show(game, observation)

    def _show(self, game: int, observation: dict[str, np.ndarray]) -> None:
        for key, value in observation.items():
            self.views[f"obs/{key}"][game] = value
