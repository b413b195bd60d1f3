"""`SkillEnv`: NetHack as a Gymnasium environment in which skills are options."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import RANDOM_HERO, Game
from nethack_pipe.perception.observation import ObservationKind, ObservationSpec, Observer, Part
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.episode import Episode
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import DECISIVE, SKILLS, Scheduler, SchedulerName, Skill, should_stop, skill_masks

ActionSet = Literal["reference", "compass", "compass_pray"]


@dataclass(frozen=True)
class EnvConfig:
    """Settings of a `SkillEnv`; the names are those of ``params.yaml``, section ``appo``.

    Attributes:
        enabled_skills: skills the scheduler may choose from.
        active_skill_bootstrap: the skill every episode starts with, other than with ``per_episode``.
        skill_scheduler: ``per_episode``, ``rule_based``, ``random`` or ``round_robin`` (`tasks.skills.Scheduler`).
        skill_shares: with ``per_episode`` a skill's part of the games is in proportion to its number here.
        env_min_episode_steps, env_max_episode_steps: the number of steps after which an episode is truncated lies
            between these, drawn for each game from its seed with even chances for its logarithm.
        moment_share: with ``per_episode`` the part of the games of other skills that are given up once two states in a
            row are decisive moments (`tasks.skills.DECISIVE`) of survive or of combat: it plays an episode from there.
        random_hero_share: the part of the games whose hero is random (role, race, alignment, gender); the others have
            NLE's monk.
        actions: action set, ``reference`` (13), ``compass`` (18) or ``compass_pray`` (19).
        action_masks: False lets every action pass at any time.
        avoid_traps: whether survive and combat keep off known traps that hurt (`tasks.skills.SkillMask`).
        observation, observation_parts: kind and parts of the observation (`perception.observation.ObservationSpec`).
        intrinsic_reward_weight, extrinsic_reward_weight: factors of task reward and of NetHack's score change.
        rewards: weights of the task rewards' terms.
    """

    enabled_skills: tuple[Skill, ...] = SKILLS
    active_skill_bootstrap: Skill = "explore"
    skill_scheduler: SchedulerName = "rule_based"
    skill_shares: Mapping[Skill, float] = field(default_factory=lambda: dict.fromkeys(SKILLS, 1.0))
    env_min_episode_steps: int = 1000
    env_max_episode_steps: int = 1000
    moment_share: float = 0.0
    random_hero_share: float = 0.0
    actions: ActionSet = "compass"
    action_masks: bool = True
    avoid_traps: bool = False
    observation: ObservationKind = "rich"
    observation_parts: tuple[Part, ...] = ("paths", "recency", "monsters")
    intrinsic_reward_weight: float = 1.0
    extrinsic_reward_weight: float = 0.0
    rewards: RewardWeights = field(default_factory=RewardWeights)


class SkillEnv(gym.Env[dict[str, np.ndarray], np.int64]):
    """One NetHack game played by a skill-conditioned policy.

    Observation: a dict with ``obs``, float32 vector of `perception.observation`, and ``action_mask``, float32, 1 for an
    action that the skill may take now (`tasks.skills.SkillMask`). Action: index into ``action_names``, a whole command.
    Reward: intrinsic_reward_weight * reward of the active skill's task + extrinsic_reward_weight * change of NetHack's
    score. Terminated when the game is over, truncated after the game's number of steps.

    The info of an episode's last step holds ``episode_extra_stats``: a flat dict of floats (`tasks.episode`), and the
    share of its steps that each skill had, ``skill_<name>``. Where the episode was cut off at a decisive moment (see
    `EnvConfig.moment_share`), ``moment`` is the skill of which ``reset(options={"go_on": True})`` begins an episode
    there, in the same game; any other reset begins another game.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 42}  # as NLE: NetHack has no frame rate

    def __init__(self, config: EnvConfig = EnvConfig(), render_mode: str | None = None) -> None:
        self.config, self.render_mode = config, render_mode
        self.action_names = ACTION_SETS[config.actions]
        self._playthroughs = [Playthrough(Game(), self.action_names)]  # the monk's, and the random heroes'
        if config.random_hero_share:
            self._playthroughs.append(Playthrough(Game(character=RANDOM_HERO), self.action_names))
        self.playthrough = self._playthroughs[0]
        self.scheduler = Scheduler(config.skill_scheduler, config.enabled_skills, config.skill_shares)
        count = len(self.action_names)
        self.observation_spec = ObservationSpec(config.observation, config.observation_parts, self.action_names)
        self._observer = Observer(self.observation_spec)
        self.action_space = gym.spaces.Discrete(count)
        self.observation_space = gym.spaces.Dict(
            obs=gym.spaces.Box(-100.0, 1e7, (self.observation_spec.size,), np.float32),
            action_mask=gym.spaces.Box(0.0, 1.0, (count,), np.float32),
        )
        self._masks = skill_masks(self.action_names, action_masks=config.action_masks, avoid_traps=config.avoid_traps)
        self._moment: Skill | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Starts the NetHack game of `seed`; without a seed, of one drawn from the environment's own generator.

        With the option ``go_on`` the same game goes on, whatever the seed. ValueError when no moment was met to go on
        from.
        """
        super().reset(seed=seed)
        if options is not None and options.get("go_on"):
            if self._moment is None:
                raise ValueError("go_on: the episode before was not cut off at a decisive moment")
            self.scheduler.settle(self._moment)
            self._awaited = self._moment = None
        else:
            self._game_seed = seed if seed is not None else int(self.np_random.integers(2**62))
            of_random_hero = random.Random(f"hero {self._game_seed}").random() < self.config.random_hero_share
            self.playthrough = self._playthroughs[of_random_hero]
            self.playthrough.reset(self._game_seed)
            self.scheduler.reset(self._game_seed)
            self._observer.reset()
            self._awaited, self._moment = self._draw_awaited(self._game_seed), None
        self.episode = Episode(self.playthrough.scene)
        self._played: Counter[Skill] = Counter()
        self._steps = self._length_of(self._game_seed)
        self._switch(self.scheduler.first(self.config.active_skill_bootstrap))
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
        self._played[skill] += 1
        self._skill_steps += 1
        if should_stop(skill, scene, self._skill_steps):
            self._switch(self.scheduler.next(scene))
        terminated = scene.done
        if not terminated and self._awaited is not None:
            # Two in a row, since a training takes the state before the last step for what the rest would be worth: how
            # dangerous the moment is must not be hidden from the skill that led there.
            decisive = DECISIVE[self._awaited]
            if decisive(before) and decisive(scene):
                self._moment = self._awaited
        truncated = not terminated and (self.episode.length >= self._steps or self._moment is not None)
        info: dict[str, Any] = {"skill": skill, "task_reward": task_reward}
        if terminated or truncated:
            if self._moment is not None:
                info["moment"] = self._moment
            shares = {f"skill_{name}": steps / self.episode.length for name, steps in sorted(self._played.items())}
            info["episode_extra_stats"] = self.episode.summary() | shares
        return self._observation(), reward, terminated, truncated, info

    def render(self) -> str:  # type: ignore[override]
        """The map as text, as NLE's ``ansi`` mode gives it."""
        chars = self.playthrough.game.last.observation["chars"]
        return "\n".join(bytes(row).decode("latin-1") for row in chars)

    def close(self) -> None:
        for playthrough in self._playthroughs:
            playthrough.game.close()

    def _switch(self, skill: Skill) -> None:
        self.skill: Skill = skill
        self._skill_steps = 0

    def _length_of(self, seed: int) -> int:
        shortest, longest = self.config.env_min_episode_steps, self.config.env_max_episode_steps
        drawn = random.Random(f"length {seed}").random()
        return min(int(shortest * ((longest + 1) / shortest) ** drawn), longest)

    def _draw_awaited(self, seed: int) -> Skill | None:
        """Whose decisive moment the game is to be given up at, if anyone's."""
        awaiting = [skill for skill in self.config.enabled_skills if skill in DECISIVE]
        dice = random.Random(f"moment {seed}")
        if self.scheduler.name != "per_episode" or not awaiting or dice.random() >= self.config.moment_share:
            return None
        drawn = dice.choice(awaiting)
        of_game = self.scheduler.first(self.config.active_skill_bootstrap)
        return None if of_game in DECISIVE else drawn

    def _observation(self) -> dict[str, np.ndarray]:
        game, skill = self.playthrough, SKILLS.index(self.skill)
        mask = self._masks[self.skill].of(game).astype(np.float32)
        return {"obs": self._observer.observe(game.scene, game.memory, skill, mask), "action_mask": mask}
