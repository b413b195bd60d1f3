"""Stage `appo`: train a policy with Sample Factory's APPO on `SkillEnv` and export it."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from nethack_pipe.params import ParamError, Section
from nethack_pipe.stage import BaseParams, Stage, StageError, run
from nethack_pipe.tasks.rewards import RewardWeights

if TYPE_CHECKING:
    from nethack_pipe.appo.runner import Trained
    from nethack_pipe.perception.observation import ObservationSpec
    from nethack_pipe.policies.actor_critic import Directions

Skill = Literal["explore", "survive", "combat", "descend", "resource"]
ObservationPart = Literal["paths", "recency", "monsters", "crop", "map"]

# The parameters that are Sample Factory's own options, by the same names.
SAMPLE_FACTORY_OPTIONS = (
    "num_workers", "num_envs_per_worker", "rollout", "recurrence", "batch_size", "num_batches_per_epoch", "num_epochs",
    "shuffle_minibatches", "gamma", "gae_lambda", "reward_scale", "reward_clip", "learning_rate", "max_grad_norm",
    "exploration_loss_coeff", "value_loss_coeff", "ppo_clip_ratio", "ppo_clip_value", "encoder_mlp_layers",
    "nonlinearity", "use_rnn", "rnn_type", "rnn_size", "serial_mode", "async_rl", "device",
)  # fmt: skip
# The parameters that are those of tasks.env.EnvConfig, by the same names.
ENV_SETTINGS = (
    "enabled_skills", "active_skill_bootstrap", "skill_scheduler", "skill_shares", "env_min_episode_steps",
    "env_max_episode_steps", "moment_share", "random_hero_share", "actions", "action_masks", "avoid_traps",
    "observation", "observation_parts", "intrinsic_reward_weight", "extrinsic_reward_weight",
)  # fmt: skip


class AppoParams(Section):
    """Section `appo`; params.yaml says what each key means."""

    enabled_skills: list[Skill] = Field(min_length=1)
    active_skill_bootstrap: Skill
    skill_scheduler: Literal["per_episode", "rule_based", "random", "round_robin"]
    skill_shares: dict[Skill, Annotated[float, Field(gt=0)]]
    env_min_episode_steps: int = Field(gt=0)
    env_max_episode_steps: int = Field(gt=0)
    moment_share: float = Field(ge=0, le=1)
    random_hero_share: float = Field(ge=0, le=1)
    actions: Literal["reference", "compass", "compass_pray"]
    action_masks: bool
    avoid_traps: bool
    observation: Literal["reference", "rich"]
    observation_parts: list[ObservationPart]
    reward_source: Literal["shaped"]
    intrinsic_reward_weight: float = Field(ge=0)
    extrinsic_reward_weight: float = Field(ge=0)

    train_for_env_steps: int = Field(gt=0)
    curriculum_env_steps: int = Field(ge=0)
    segment_env_steps: int = Field(gt=0)
    num_workers: int = Field(gt=0, le=1024)
    num_envs_per_worker: int = Field(gt=0)
    rollout: int = Field(gt=0)
    recurrence: int = Field(gt=0)
    batch_size: int = Field(gt=0)
    num_batches_per_epoch: int = Field(gt=0)
    num_epochs: int = Field(gt=0)
    shuffle_minibatches: bool
    gamma: float = Field(gt=0, le=1)
    gae_lambda: float = Field(ge=0, le=1)
    reward_scale: float = Field(gt=0)
    reward_clip: float = Field(gt=0)
    normalize_per_skill: bool
    learning_rate: float = Field(gt=0, lt=1)
    lr_schedule: Literal["constant", "linear_decay"]
    max_grad_norm: float = Field(ge=0)
    exploration_loss_coeff: float = Field(ge=0)
    final_exploration_loss_coeff: float = Field(ge=0)
    value_loss_coeff: float = Field(ge=0)
    ppo_clip_ratio: float = Field(gt=0)
    ppo_clip_value: float = Field(gt=0)
    encoder_mlp_layers: list[int] = Field(min_length=1)
    shared_encoder: bool
    direction_units: int = Field(ge=0)
    nonlinearity: Literal["elu", "relu", "tanh"]
    use_rnn: bool
    rnn_type: Literal["gru", "lstm"]
    rnn_size: int = Field(gt=0, le=4096)
    serial_mode: bool
    async_rl: bool
    device: Literal["cpu", "gpu"]

    imitation_epochs: int = Field(ge=0)
    imitation_kl_coeff: float = Field(ge=0)
    imitation_kl_steps: int = Field(gt=0)

    @model_validator(mode="after")
    def _fits_together(self) -> "AppoParams":
        for problem in self._problems():
            raise ValueError(problem)  # the first alone: what follows from it would only confuse
        return self

    def _problems(self) -> list[str]:
        """What is wrong between keys, each message beginning with the key to change."""
        problems = []
        if self.active_skill_bootstrap not in self.enabled_skills:
            problems.append(
                f"active_skill_bootstrap: expected one of enabled_skills ({', '.join(self.enabled_skills)}), "
                f"got '{self.active_skill_bootstrap}'"
            )
        if len(set(self.enabled_skills)) < len(self.enabled_skills):
            problems.append(f"enabled_skills: expected each skill once, got {', '.join(self.enabled_skills)}")
        for skill in self.enabled_skills:
            if skill not in self.skill_shares:
                problems.append(f"skill_shares: expected a number for each of enabled_skills, got none for {skill}")
        if len(set(self.observation_parts)) < len(self.observation_parts):
            problems.append(f"observation_parts: expected each part once, got {', '.join(self.observation_parts)}")
        if self.observation == "reference" and self.observation_parts:
            problems.append(
                "observation_parts: expected none where observation is reference, got "
                + ", ".join(self.observation_parts)
            )
        if self.observation == "reference" and self.direction_units:
            problems.append(f"direction_units: expected 0 where observation is reference, got {self.direction_units}")
        if self.env_min_episode_steps > self.env_max_episode_steps:
            problems.append(
                f"env_min_episode_steps: expected at most env_max_episode_steps ({self.env_max_episode_steps}), "
                f"got {self.env_min_episode_steps}"
            )
        if self.moment_share and self.skill_scheduler != "per_episode":
            problems.append(f"moment_share: expected 0 unless skill_scheduler is per_episode, got {self.moment_share}")
        if self.final_exploration_loss_coeff > self.exploration_loss_coeff:
            problems.append(
                "final_exploration_loss_coeff: expected at most exploration_loss_coeff "
                f"({self.exploration_loss_coeff}), got {self.final_exploration_loss_coeff}"
            )
        if min(self.encoder_mlp_layers) < 1:
            problems.append(f"encoder_mlp_layers: expected widths of at least 1, got {self.encoder_mlp_layers}")
        if self.rollout % self.recurrence:
            problems.append(f"recurrence: expected a divisor of rollout ({self.rollout}), got {self.recurrence}")
        elif self.use_rnn and self.recurrence == 1:
            problems.append("recurrence: expected at least 2 to train a recurrent core (use_rnn), got 1")
        if self.batch_size % self.recurrence:
            problems.append(f"batch_size: expected a multiple of recurrence ({self.recurrence}), got {self.batch_size}")
        whole_games = self.num_workers * self.num_envs_per_worker * self.env_max_episode_steps
        for key in ("train_for_env_steps", "segment_env_steps"):
            if getattr(self, key) < whole_games:
                problems.append(
                    f"{key}: expected at least {whole_games} (num_workers x num_envs_per_worker x "
                    f"env_max_episode_steps), or no game is played to its end, got {getattr(self, key)}"
                )
        iteration = self.batch_size * self.num_batches_per_epoch
        left = self.train_for_env_steps - -(-self.curriculum_env_steps // iteration) * iteration
        if self.curriculum_env_steps and left < whole_games:
            problems.append(
                f"curriculum_env_steps: expected at least {whole_games} frames less than train_for_env_steps "
                f"({self.train_for_env_steps}), or no game of the other skills is played to its end, "
                f"got {self.curriculum_env_steps}"
            )
        if self.serial_mode and self.async_rl:
            problems.append("async_rl: expected false where serial_mode is true, got true")
        if not self.async_rl:
            # What all games collect in one rollout must be used up exactly by one iteration, or none is on-policy.
            collected = self.num_workers * self.num_envs_per_worker * self.rollout
            used = self.batch_size * self.num_batches_per_epoch
            if used % collected:
                problems.append(
                    f"batch_size: expected {collected} (num_workers x num_envs_per_worker x rollout) or a multiple of "
                    f"it when multiplied by num_batches_per_epoch ({self.num_batches_per_epoch}); "
                    f"{self._batch_sizes()}, got {self.batch_size}"
                )
        if self.imitation_kl_coeff and not self.imitation_epochs:
            problems.append(
                f"imitation_kl_coeff: expected 0 where imitation_epochs is 0, got {self.imitation_kl_coeff}"
            )
        if self.imitation_epochs and self.curriculum_env_steps:
            problems.append(
                f"curriculum_env_steps: expected 0 where imitation_epochs is not 0 (it would replace what was "
                f"imitated), got {self.curriculum_env_steps}"
            )
        if self.avoid_traps and not self.action_masks:
            problems.append("avoid_traps: expected false where action_masks is false, got true")
        if self.imitation_epochs and not self.action_masks:
            problems.append(f"imitation_epochs: expected 0 where action_masks is false, got {self.imitation_epochs}")
        if self.imitation_epochs and self.use_rnn:
            problems.append(
                f"imitation_epochs: expected 0 where use_rnn is true (a labelled moment does not tell the state of a "
                f"recurrent core), got {self.imitation_epochs}"
            )
        return problems

    def _batch_sizes(self) -> str:
        collected = self.num_workers * self.num_envs_per_worker * self.rollout
        if collected % self.num_batches_per_epoch:
            return f"with {self.num_batches_per_epoch} batches it must be a multiple of {collected}"
        least = collected // self.num_batches_per_epoch
        return f"that is {least}, {2 * least}, {3 * least}, ..."


def train(
    params: AppoParams,
    weights: RewardWeights,
    *,
    seed: int,
    scratch: Path,
    num_processes: int,
    imitated: Path | None = None,
) -> "Trained":
    """Train as `params` and the reward's `weights` say, from the root `seed`, with `scratch` for checkpoints.

    `imitated` is what `imitation` has written, to start from and to stay near.
    """
    from nethack_pipe.appo import runner
    from nethack_pipe.tasks.env import EnvConfig, SkillEnv
    from nethack_pipe.tasks.skills import SKILLS

    env = EnvConfig(**env_settings(params), rewards=weights)
    warm_up = None
    if params.curriculum_env_steps:
        first = replace(env, enabled_skills=(params.active_skill_bootstrap,))
        skill = SKILLS.index(params.active_skill_bootstrap)
        warm_up = runner.WarmUp(partial(SkillEnv, first), skill, params.curriculum_env_steps)
    return runner.train(
        partial(SkillEnv, env),
        {name: getattr(params, name) for name in SAMPLE_FACTORY_OPTIONS},
        seed=seed,
        train_for_env_steps=params.train_for_env_steps,
        segment_env_steps=params.segment_env_steps,
        skills=observation_spec(params).skill,
        shared_encoder=params.shared_encoder,
        directions=shared_directions(params),
        normalize_per_skill=params.normalize_per_skill,
        linear_decay=params.lr_schedule == "linear_decay",
        final_exploration_loss_coeff=params.final_exploration_loss_coeff,
        scratch=scratch,
        num_processes=num_processes,
        warm_up=warm_up,
        initial_weights=imitated,
        imitation_kl_coeff=params.imitation_kl_coeff if imitated else 0.0,
        imitation_kl_steps=params.imitation_kl_steps,
    )


def imitation(params: AppoParams, *, seed: int, counterfactuals: Path, rollouts: Path, path: Path) -> dict[str, float]:
    """Learn from the labelled moments, unless `path` has what came of it; write the weights there. The metrics."""
    from nethack_pipe.appo.examples import read_examples
    from nethack_pipe.appo.imitation import Imitated, imitate
    from nethack_pipe.appo.model import network_config

    if not path.exists():
        spec = observation_spec(params)
        network = network_config(
            params,
            observation_size=spec.size,
            num_actions=len(spec.actions),
            skills=spec.skill,
            directions=shared_directions(params),
        )
        examples = read_examples(counterfactuals, rollouts, spec, params.enabled_skills, avoid_traps=params.avoid_traps)
        imitate(examples, network, epochs=params.imitation_epochs, seed=seed).save(path)
    return Imitated.load(path).metrics


def observation_spec(params: AppoParams) -> "ObservationSpec":
    """What the policy observes."""
    from nethack_pipe.game.actions import ACTION_SETS
    from nethack_pipe.perception.observation import ObservationSpec

    return ObservationSpec(params.observation, tuple(params.observation_parts), ACTION_SETS[params.actions])


def shared_directions(params: AppoParams) -> "Directions | None":
    """The directions that the network judges by the same weights, if it is to."""
    from nethack_pipe.policies.directions import directions

    return directions(observation_spec(params), params.direction_units) if params.direction_units else None


def env_settings(params: AppoParams) -> dict[str, Any]:
    """The fields of `EnvConfig` but the rewards: those of its names that are parameters, lists as tuples."""
    values = {name: getattr(params, name) for name in ENV_SETTINGS}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def main(stage: Stage) -> None:
    """Train as `base`, `rewards` and `appo` say; write models/appo, metrics/appo.json, plots/appo_training.csv."""
    import torch

    from nethack_pipe.appo import progress, runner
    from nethack_pipe.appo.examples import ExamplesError
    from nethack_pipe.appo.export import export
    from nethack_pipe.appo.vector_env import GameError
    from nethack_pipe.game.actions import ACTION_SETS
    from nethack_pipe.parallel import worker_count

    params: AppoParams = stage.params["appo"]
    if params.device == "gpu" and not torch.cuda.is_available():
        raise ParamError(["params.yaml: appo.device: expected 'cpu', since PyTorch finds no GPU here, got 'gpu'"])
    imitated, metrics = None, {}
    try:
        if params.imitation_epochs:
            imitated = stage.scratch / "imitated.safetensors"
            metrics["imitation"] = imitation(
                params,
                seed=stage.seed,
                counterfactuals=stage.input("data/counterfactuals"),
                rollouts=stage.input("data/rollouts"),
                path=imitated,
            )
        trained = train(
            params,
            stage.params["rewards"],
            seed=stage.seed,
            scratch=stage.scratch,
            num_processes=worker_count(),
            imitated=imitated,
        )
    except (ExamplesError, GameError, runner.TrainingError) as error:
        raise StageError(f"appo: {error}") from error
    export(
        stage.output("models/appo"),
        trained,
        ACTION_SETS[params.actions],
        {"kind": params.observation, "parts": params.observation_parts},
        {"action_set": params.actions, "env": env_settings(params)},
    )
    stage.write_metrics(progress.metrics(trained.rows, params.enabled_skills) | metrics)
    stage.write_curve("training", progress.curve(trained.rows, params.enabled_skills))


if __name__ == "__main__":
    run("appo", {"base": BaseParams, "rewards": RewardWeights, "appo": AppoParams}, main)
