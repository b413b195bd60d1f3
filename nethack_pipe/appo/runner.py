"""One training with Sample Factory, cut into segments so that a killed one resumes to the same bytes.

In serial mode training stops about every `segment_env_steps` frames at a checkpoint and starts again from it: games,
recurrent states and random numbers begin anew from seeds of (root seed, frames so far). An undisturbed training does
exactly what a resumed one does, so both end with the same weights. With `serial_mode` off Sample Factory's own
processes deliver in the order in which they happen to be ready: nothing is repeatable, and training is one segment
with checkpoints by the clock.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.algo.runners.runner_parallel import ParallelRunner
from sample_factory.algo.runners.runner_serial import SerialRunner
from sample_factory.algo.utils.context import global_model_factory, reset_global_context
from sample_factory.algo.utils.misc import EPISODIC, LEARNER_ENV_STEPS, TRAIN_STATS, ExperimentStatus
from sample_factory.cfg.arguments import parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.utils.attr_dict import AttrDict
from sample_factory.utils.utils import log
from signal_slot.signal_slot import Timer
from tqdm import tqdm

from nethack_pipe import seeds
from nethack_pipe.appo import checkpoints, learner  # noqa: F401  (importing learner puts it in place)
from nethack_pipe.appo.factory_env import FactoryEnv
from nethack_pipe.appo.model import make_actor_critic, network_config_from_spaces
from nethack_pipe.appo.progress import Progress, Row, join_episodes
from nethack_pipe.appo.vector_env import GameError, VectorEnv
from nethack_pipe.policies.actor_critic import Directions, NetworkConfig

_NEVER = 10**9
_FAILED = re.compile(r"\b(?:GameError|FloatingPointError): (.*)")
_WATCH_SECONDS = 2.0
_STOP_SECONDS = 20.0

# Not parameters: what determinism, portability and our own environment need (the reasons are in the modules named).
_FIXED: dict[str, Any] = {
    "algo": "APPO",
    "restart_behavior": "resume",  # which here means: leave the folder alone
    "batched_sampling": True,
    "num_envs_per_worker": 1,  # one vectorised environment
    "worker_num_splits": 1,
    "env_gpu_observations": False,
    "decorrelate_envs_on_one_worker": False,  # it plays unseeded random actions
    "decorrelate_experience_max_seconds": 0,
    "normalize_input": False,  # model.py, and torch.sqrt inside it is not portable
    "normalize_returns": False,  # torch.sqrt
    "value_bootstrap": True,  # of games that were cut off, by the value before their last step
    "lr_schedule": "constant",  # learner.py has the linear one
    "set_workers_cpu_affinity": False,
    "save_best_every_sec": _NEVER,  # by the clock
    "save_best_after": 10**15,
    "with_wandb": False,
}


class TrainingError(RuntimeError):
    """Sample Factory stopped before the end; the message says why and where its log is."""


@dataclass(frozen=True)
class Trained:
    """A finished training: the network's sizes and weights, and a row for each iteration."""

    network: NetworkConfig
    weights: dict[str, torch.Tensor]
    rows: list[Row]


def frames_per_iteration(options: Mapping[str, Any]) -> int:
    """Frames collected and learned from in one training iteration."""
    return options["batch_size"] * options["num_batches_per_epoch"]


def boundaries(options: Mapping[str, Any], train_for_env_steps: int, segment_env_steps: int) -> list[int]:
    """The numbers of frames at which segments end: all about `segment_env_steps` long, in whole iterations.

    The last is `train_for_env_steps` rounded up to whole iterations.
    """
    iterations = -(-train_for_env_steps // frames_per_iteration(options))
    segments = train_for_env_steps // segment_env_steps if options["serial_mode"] else 1
    segments = min(max(segments, 1), iterations)
    return [index * iterations // segments * frames_per_iteration(options) for index in range(1, segments + 1)]


@dataclass(frozen=True)
class WarmUp:
    """The beginning of a training in which one skill alone is played, `frames` long: the others start from it.

    Attributes:
        make_env: makes an environment that plays this skill alone; its spaces are those of the training.
        skill: its index in the observation's one-hot.
    """

    make_env: Callable[[], gymnasium.Env]
    skill: int
    frames: int


def first_game(frames: int, worker: int = 0) -> int:
    """The number of the first game of a segment that begins after `frames` frames, in one of up to 1024 workers."""
    return (frames * 1024 + worker) << 32


def train(
    make_env: Callable[[], gymnasium.Env],
    options: Mapping[str, Any],
    *,
    seed: int,
    train_for_env_steps: int,
    segment_env_steps: int,
    skills: slice,
    shared_encoder: bool,
    normalize_per_skill: bool,
    linear_decay: bool,
    final_exploration_loss_coeff: float,
    scratch: Path,
    num_processes: int,
    directions: Directions | None = None,
    warm_up: WarmUp | None = None,
    initial_weights: Path | None = None,
    imitation_kl_coeff: float = 0.0,
    imitation_kl_steps: int = 1,
) -> Trained:
    """Train, or go on with what `scratch` holds of this very training.

    `options` are Sample Factory's, by its names; `num_workers` x `num_envs_per_worker` is the number of games alive.
    `skills` is where the observation has its skill's one-hot; `shared_encoder` and `directions` are the network's,
    `normalize_per_skill` and `linear_decay` are the learner's, as are `initial_weights` (a safetensors file) and what
    holds the policy near them, `imitation_kl_coeff` and `imitation_kl_steps`. The frames of `warm_up` are some of
    `train_for_env_steps`.
    Raises GameError (with the game's seed) or TrainingError; ends in order on KeyboardInterrupt and SystemExit. No
    process is left behind, and the checkpoints stay.
    """
    torch.set_num_threads(1)
    scratch.mkdir(parents=True, exist_ok=True)
    # What is played, the skill that alone is, and where the segments end.
    phases: list[tuple[Callable[[], gymnasium.Env], int | None, list[int]]] = []
    begin = 0
    if warm_up is not None:
        phases.append((warm_up.make_env, warm_up.skill, boundaries(options, warm_up.frames, segment_env_steps)))
        begin = phases[0][2][-1]
    rest = boundaries(options, train_for_env_steps - begin, segment_env_steps)
    phases.append((make_env, None, [begin + end for end in rest]))
    ends = [end for _, _, of_phase in phases for end in of_phase]
    serial = options["serial_mode"]
    folder = scratch / "checkpoints"

    def usable(frames: int) -> bool:
        return not serial or frames in ends

    resume = checkpoints.newest(folder, usable)
    done = checkpoints.frames_of(resume) if resume else 0
    progress = Progress(scratch / "progress.jsonl", done)
    seed_of = partial(seeds.game_seed, seed, "train", "appo")
    cfg = _configuration(options, scratch)
    cfg.update(
        skill_offset=skills.start,
        num_skills=skills.stop - skills.start,
        shared_encoder=shared_encoder,
        directions=asdict(directions) if directions else None,
        normalize_per_skill=normalize_per_skill,
        linear_decay=linear_decay,
        final_exploration_loss_coeff=final_exploration_loss_coeff,
        total_env_steps=ends[-1],
        checkpoint_folder=str(folder),
        initial_weights=str(initial_weights or ""),
        imitation_kl_coeff=imitation_kl_coeff,
        imitation_kl_steps=imitation_kl_steps,
    )
    if normalize_per_skill:  # the learner clips what it has scaled
        cfg.update(scaled_reward_clip=cfg.reward_clip, reward_clip=float(_NEVER))
    reset_global_context()
    global_model_factory().register_actor_critic_factory(make_actor_critic)
    with tqdm(total=ends[-1], initial=done, unit="frame", desc="appo") as bar:
        for make, skill, of_phase in phases:
            if done >= of_phase[-1] and skill is not None:
                continue
            cfg.only_skill = skill
            if serial:
                games = VectorEnv(make, options["num_workers"] * options["num_envs_per_worker"], num_processes, seed_of)
            else:
                games = VectorEnv(make, 1, 1, seed_of)  # only for its spaces
            try:
                for end in (end for end in of_phase if end > done):
                    if serial:
                        register_env(cfg.env, partial(_shared_games, games=games, first=first_game(done)))
                    else:
                        per_worker = options["num_envs_per_worker"]
                        own = partial(_own_games, make_env=make, num_games=per_worker, seed_of=seed_of, frames=done)
                        register_env(cfg.env, own)
                    cfg.seed = seeds.integer(seed, "appo", done)
                    cfg.resume_checkpoint = str(resume) if resume else ""
                    # Sample Factory stops one iteration after the first that passes this number.
                    cfg.train_for_env_steps = end - frames_per_iteration(options) - 1
                    _run(AttrDict(cfg), progress, bar)
                    resume = checkpoints.newest(folder, usable)
                    done = checkpoints.frames_of(resume) if resume else 0
                    if resume is None or done < end:
                        raise TrainingError(f"training stopped before frame {end} without saying why{_where(scratch)}")
                network = network_config_from_spaces(cfg, games.observation_space, games.action_space)
            finally:
                games.close()
    assert resume is not None
    model = checkpoints.read(resume)["model"]
    weights = {name.removeprefix("network."): value for name, value in model.items()}
    return Trained(network, weights, progress.rows)


def _configuration(options: Mapping[str, Any], scratch: Path) -> AttrDict:
    parser, _ = parse_sf_args(["--env=nethack"])
    cfg = AttrDict(vars(parser.parse_args(["--env=nethack"])))
    unknown = set(options) - set(cfg)
    if unknown:
        raise ValueError(f"Sample Factory has no option {', '.join(sorted(unknown))}")
    serial = options["serial_mode"]
    cfg.update(options)
    cfg.update(_FIXED)
    cfg.update(
        train_dir=str(scratch),
        experiment="sample_factory",
        num_workers=1 if serial else options["num_workers"],
        save_every_sec=_NEVER if serial else 60,
        # In one process a silent component is a machine that was suspended or is busy, no reason to stop.
        heartbeat_reporting_interval=_NEVER if serial else 180,
    )
    return cfg


def _shared_games(
    name: str, cfg: Any, env_config: Any, render_mode: Any, *, games: VectorEnv, first: int
) -> FactoryEnv:
    return FactoryEnv(games, first, close_games=False)


def _own_games(
    name: str, cfg: Any, env_config: Any, render_mode: Any, *, make_env: Any, num_games: int, seed_of: Any, frames: int
) -> FactoryEnv:
    worker = env_config.worker_index if env_config else 0
    return FactoryEnv(VectorEnv(make_env, num_games, 1, seed_of), first_game(frames, worker), close_games=True)


def _run(cfg: AttrDict, progress: Progress, bar: tqdm) -> None:
    """One segment: a whole run of Sample Factory from `cfg.resume_checkpoint` to `cfg.train_for_env_steps`."""
    errors = _Errors()
    log.addHandler(errors)
    runner = (SerialRunner if cfg.serial_mode else ParallelRunner)(cfg)
    runner.register_observer(_Watch())
    _record(runner, progress, bar)
    try:
        status = runner.init()
        if status == ExperimentStatus.SUCCESS:
            status = runner.run()
        if status == ExperimentStatus.INTERRUPTED:
            raise KeyboardInterrupt
        if status != ExperimentStatus.SUCCESS:
            raise errors.as_exception(Path(cfg.train_dir))
    except (KeyboardInterrupt, SystemExit):
        runner.stop.emit(runner.object_id)  # so that a learner in another process saves what it has
        for process in _processes(runner):
            process.join(_STOP_SECONDS)
        raise
    finally:
        for process in _processes(runner):
            if process.is_alive():
                process.kill()
                process.join()
        for handler in [handler for handler in log.handlers if isinstance(handler, (_Errors, logging.FileHandler))]:
            log.removeHandler(handler)
            handler.close()


def _record(runner: Runner, progress: Progress, bar: tqdm) -> None:
    """Have `runner` report each iteration, with the episodes that ended in it, to `progress` and `bar`."""
    ended: list[dict[str, list[float]]] = []

    def on_episodes(runner: Runner, message: dict[str, Any], policy_id: int) -> None:
        ended.append({name: np.atleast_1d(values).tolist() for name, values in message[EPISODIC].items()})

    def on_iteration(runner: Runner, message: dict[str, Any], policy_id: int) -> None:
        frames = message[LEARNER_ENV_STEPS]
        progress.append({"frames": frames, "train": message[TRAIN_STATS], "episodes": join_episodes(ended)})
        ended.clear()
        bar.update(frames - bar.n)

    runner.policy_msg_handlers[EPISODIC] = [on_episodes]
    runner.policy_msg_handlers[TRAIN_STATS] = [on_iteration]


class _Watch(AlgoObserver):
    """Stops a parallel training when one of its processes is gone; Sample Factory would wait for it for ever."""

    def on_start(self, runner: Runner) -> None:
        processes = _processes(runner)
        if processes:
            self.timer = _WatchTimer(runner.event_loop, _WATCH_SECONDS)
            self.timer.watch(runner, processes)


class _WatchTimer(Timer):
    def watch(self, runner: Runner, processes: list[Any]) -> None:
        self.runner, self.processes = runner, processes
        self.timeout.connect(self.check)

    def check(self) -> None:
        dead = [process.name for process in self.processes if not process.is_alive()]
        if dead and not self.runner.stopped:
            raise TrainingError(f"the process {dead[0]} died")


def _processes(runner: Runner) -> list[Any]:
    return [*getattr(runner, "processes", ()), *getattr(runner.sampler, "processes", ())]


class _Errors(logging.Handler):
    """Keeps the first error of Sample Factory's log, since what it returns says only that there was one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.first: BaseException | str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.first is None:
            self.first = record.exc_info[1] if record.exc_info and record.exc_info[1] else record.getMessage()

    def as_exception(self, scratch: Path) -> Exception:
        if isinstance(self.first, GameError):
            return self.first
        error = TrainingError(f"training stopped: {self.first}{_told_by_others(scratch)}{_where(scratch)}")
        error.__cause__ = self.first if isinstance(self.first, BaseException) else None
        return error


def _log_file(scratch: Path) -> Path:
    return scratch / "sample_factory" / "sf_log.txt"


def _where(scratch: Path) -> str:
    return f" (its log: {_log_file(scratch)})"


def _told_by_others(scratch: Path) -> str:
    """The last line in the log about a game or a loss: in a parallel training these fail in other processes."""
    path = _log_file(scratch)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    found = [match.group(1) for line in lines if (match := _FAILED.search(line))]
    return f": {found[-1]}" if found else ""
