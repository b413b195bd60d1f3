"""`SkillEnv`: NetHack as a Gymnasium environment in which skills are options."""

from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.perception import features
from nethack_pipe.perception.scene import Scene
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.episode import Episode
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import ALLOWED, SKILLS, Scheduler, SchedulerName, Skill, should_stop

ActionSet = Literal["reference", "compass"]


@dataclass(frozen=True)
class EnvConfig:
    """Settings of a `SkillEnv`; the names are those of ``params.yaml``, section ``appo``.

    Attributes:
        enabled_skills: skills the scheduler may choose from.
        active_skill_bootstrap: the skill every episode starts with.
        skill_scheduler: ``rule_based``, ``random`` or ``round_robin``.
        env_max_episode_steps: steps after which an episode is truncated.
        actions: action set, ``reference`` (13) or ``compass`` (18).
        intrinsic_reward_weight, extrinsic_reward_weight: factors of task reward and of NetHack's score change.
        rewards: weights of the task rewards' terms.
    """

    enabled_skills: tuple[Skill, ...] = SKILLS
    active_skill_bootstrap: Skill = "explore"
    skill_scheduler: SchedulerName = "rule_based"
    env_max_episode_steps: int = 1000
    actions: ActionSet = "reference"
    intrinsic_reward_weight: float = 1.0
    extrinsic_reward_weight: float = 0.0
    rewards: RewardWeights = field(default_factory=RewardWeights)


class SkillEnv(gym.Env[dict[str, np.ndarray], np.int64]):
    """One NetHack game played by a skill-conditioned policy.

    Observation: a dict with ``obs``, float32 vector of `perception.features`, and ``action_mask``, float32, 1 for a
    legal action. Action: index into ``action_names``, a whole command. Reward: intrinsic_reward_weight * reward of the
    active skill's task + extrinsic_reward_weight * change of NetHack's score. Terminated when the game is over,
    truncated after env_max_episode_steps.

    The info of an episode's last step holds ``episode_extra_stats``: a flat dict of floats (`tasks.episode`).
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 42}  # as NLE: NetHack has no frame rate

    def __init__(self, config: EnvConfig = EnvConfig(), render_mode: str | None = None) -> None:
        self.config, self.render_mode = config, render_mode
        self.action_names = ACTION_SETS[config.actions]
        self.playthrough = Playthrough(Game(), self.action_names)
        self.scheduler = Scheduler(config.skill_scheduler, config.enabled_skills)
        count = len(self.action_names)
        self.action_space = gym.spaces.Discrete(count)
        self.observation_space = gym.spaces.Dict(
            obs=gym.spaces.Box(-100.0, 1e7, (features.size(count),), np.float32),
            action_mask=gym.spaces.Box(0.0, 1.0, (count,), np.float32),
        )
        self._skill_masks = {
            skill: np.array([name in ALLOWED[skill] for name in self.action_names]) for skill in config.enabled_skills
        }

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Starts the NetHack game of `seed`; without a seed, of one drawn from the environment's own generator."""
        super().reset(seed=seed)
        game_seed = seed if seed is not None else int(self.np_random.integers(2**62))
        scene = self.playthrough.reset(game_seed)
        self.scheduler.reset(game_seed)
        self.episode = Episode(scene)
        self._switch(self.config.active_skill_bootstrap)
        return self._observation(), {"skill": self.skill}

    def step(self, action: np.int64 | int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Plays one command. The reward is the active skill's; then the skill may change."""
        if not 0 <= action < len(self.action_names):
            raise ValueError(f"no action {action}: it must be an index below {len(self.action_names)}")
        name = self.action_names[action]
        skill = self.skill
        before = self.playthrough.scene
        scene = self.playthrough.step(name)
        components = rewards.components(skill, before, name, scene, self.config.rewards)
        task_reward = float(sum(components.values()))
        self.episode.add(skill, name, before, scene, components)
        reward = self.config.intrinsic_reward_weight * task_reward + self.config.extrinsic_reward_weight * (
            scene.score - before.score
        )
        self._skill_steps += 1
        if should_stop(skill, scene, self._skill_steps):
            self._switch(self.scheduler.next(scene))
        terminated = scene.done
        truncated = not terminated and self.episode.length >= self.config.env_max_episode_steps
        info: dict[str, Any] = {"skill": skill, "task_reward": task_reward}
        if terminated or truncated:
            info["episode_extra_stats"] = self.episode.summary()
        return self._observation(), reward, terminated, truncated, info

    def render(self) -> str:  # type: ignore[override]
        """The map as text, as NLE's ``ansi`` mode gives it."""
        chars = self.playthrough.game.last.observation["chars"]
        return "\n".join(bytes(row).decode("latin-1") for row in chars)

    def close(self) -> None:
        self.playthrough.game.close()

    def _switch(self, skill: Skill) -> None:
        self.skill: Skill = skill
        self._skill_steps = 0

    def _observation(self) -> dict[str, np.ndarray]:
        scene: Scene = self.playthrough.scene
        legal = self.playthrough.mask & self._skill_masks[self.skill]
        mask = legal.astype(np.float32)
        return {"obs": features.vector(scene, SKILLS.index(self.skill), mask), "action_mask": mask}
