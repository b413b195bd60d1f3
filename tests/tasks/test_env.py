"""SkillEnv: Gymnasium's own checks, seeding, masks, ends of episodes, rewards."""

import random
import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.tables import MONSTER_NAMES
from nethack_pipe.perception import glyphs
from nethack_pipe.perception.observation import PARTS, ObservationSpec, Observer
from nethack_pipe.policies.scripted import Frontier
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.env import EnvConfig, SkillEnv
from nethack_pipe.tasks.skills import ALLOWED, DECISIVE, SKILLS, SkillMask


@pytest.fixture
def make():
    made = []

    def make(**config) -> SkillEnv:
        made.append(SkillEnv(EnvConfig(**config)))
        return made[-1]

    yield make
    for env in made:
        env.close()


def screen(env: SkillEnv) -> np.ndarray:
    return env.playthrough.game.last.observation["glyphs"].copy()


def play(env: SkillEnv, steps: int, seed: int = 0):
    """Random legal steps; (observation, reward, terminated, truncated, info) of each."""
    rng = random.Random(seed)
    observation = env._observation()
    for _ in range(steps):
        action = rng.choice(np.flatnonzero(observation["action_mask"]).tolist())
        result = env.step(action)
        observation = result[0]
        yield result
        if result[2] or result[3]:
            return


@pytest.mark.parametrize(
    ("actions", "observation", "parts"),
    [("reference", "reference", ()), ("compass", "rich", PARTS), ("compass_pray", "rich", PARTS)],
)
def test_gymnasium_finds_nothing_to_complain_of(make, actions, observation, parts):
    env = make(actions=actions, observation=observation, observation_parts=parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
    assert env.action_space.n == len(ACTION_SETS[actions])
    size = ObservationSpec(observation, parts, ACTION_SETS[actions]).size
    assert env.observation_space["obs"].shape == (size,)
    assert size == 106 if observation == "reference" else size > 2000


def test_it_renders_the_map(make):
    env = SkillEnv(render_mode="ansi")
    env.reset(seed=3)
    rows = env.render().split("\n")
    env.close()
    assert len(rows) == 21 and {len(row) for row in rows} == {79} and any("@" in row for row in rows)


# -- Seeds -------------------------------------------------------------------------------------------------------------


def test_the_seed_is_netHacks(make):
    first, second = make(), make()
    a, b = first.reset(seed=11)[0], second.reset(seed=11)[0]
    assert np.array_equal(screen(first), screen(second)) and np.array_equal(a["obs"], b["obs"])
    steps = zip(play(first, 60, seed=1), play(second, 60, seed=1), strict=True)
    for (x, *rest), (y, *same) in steps:
        assert np.array_equal(x["obs"], y["obs"]) and np.array_equal(x["action_mask"], y["action_mask"])
        assert rest == same
    assert np.array_equal(screen(first), screen(second))
    screens = set()
    for seed in range(6):
        first.reset(seed=seed)
        screens.add(screen(first).tobytes())
    assert len(screens) == 6
    first.reset(seed=11)
    second.reset(seed=11)
    assert np.array_equal(screen(first), screen(second)) and first.playthrough.game.seed == 11


def test_without_a_seed_the_games_follow_the_environments_own_generator(make):
    first, second = make(), make()
    games = []
    for env in (first, second):
        env.reset(seed=5)
        seeds = []
        for _ in range(3):
            env.reset()
            seeds.append(env.playthrough.game.seed)
        games.append(seeds)
    assert games[0] == games[1] and len({5, *games[0]}) == 4
    rng = np.random.default_rng(5)
    assert games[0] == [int(rng.integers(2**62)) for _ in range(3)]
    first.reset(seed=6)
    first.reset()
    assert first.playthrough.game.seed not in games[0]


# -- Observations and masks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["rule_based", "random", "round_robin"])
def test_masks_are_never_empty_and_observations_lie_in_their_space(make, scheduler):
    env = make(skill_scheduler=scheduler, env_min_episode_steps=150, env_max_episode_steps=150)
    names = env.action_names
    observer = Observer(env.observation_spec)
    skills = set()
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        observer.reset()
        assert env.observation_space.contains(observation) and info == {"skill": "explore"}
        for observation, reward, _, _, _ in play(env, 150, seed):
            mask = observation["action_mask"]
            assert env.observation_space.contains(observation) and isinstance(reward, float)
            allowed = {name for name, legal in zip(names, mask, strict=True) if legal}
            assert {"wait", "search"} <= allowed <= ALLOWED[env.skill] & set(env.playthrough.legal)
            assert np.array_equal(mask, SkillMask(env.skill, names).of(env.playthrough))
            scene, memory, skill = env.playthrough.scene, env.playthrough.memory, SKILLS.index(env.skill)
            assert np.array_equal(observation["obs"], observer.observe(scene, memory, skill, mask))
            assert observation["obs"][env.observation_spec.skill].tolist() == [i == skill for i in range(5)]
            skills.add(env.skill)
    assert len(skills) >= 3


def test_an_observation_is_the_callers_own(make):
    env = make()
    first, _ = env.reset(seed=8)
    kept = {key: value.copy() for key, value in first.items()}
    second = [step[0] for step in play(env, 20)]
    assert all(np.array_equal(first[key], kept[key]) for key in kept)
    assert not np.array_equal(first["obs"], second[-1]["obs"])


# -- Skills ------------------------------------------------------------------------------------------------------------


def test_a_skill_lasts_eight_steps_and_is_the_one_that_is_paid(make):
    env = make(skill_scheduler="round_robin", enabled_skills=("explore", "resource"), active_skill_bootstrap="resource")
    env.reset(seed=4)
    skills = []
    before = env.playthrough.scene
    for _, _, _, _, info in play(env, 40):
        scene = env.playthrough.scene
        expected = rewards.reward(info["skill"], before, scene.action, scene, env.config.rewards)
        assert info["task_reward"] == pytest.approx(expected)
        skills.append(info["skill"])
        before = scene
    assert skills[:8] == ["resource"] * 8
    assert [skills[i] for i in range(0, 40, 8)] == [skills[i + 7] for i in range(0, 40, 8)]
    assert "explore" in skills


def test_per_episode_a_game_plays_one_skill_and_all_get_their_turn(make):
    env, again = (make(skill_scheduler="per_episode", env_min_episode_steps=9, env_max_episode_steps=9) for _ in "ab")
    skills = []
    for seed in range(0, 80, 2):
        info = env.reset(seed=seed)[1]
        assert again.reset(seed=seed)[1] == info
        skills.append(info["skill"])
        if seed < 20:  # beyond the eight steps after which the other schedulers choose anew
            steps = list(play(env, 9))
            assert {step[4]["skill"] for step in steps} == {skills[-1]}
            assert steps[-1][4]["episode_extra_stats"][f"skill_{skills[-1]}"] == 1.0
    assert set(skills) == set(SKILLS)


def test_the_shares_of_skills_are_told_at_the_end(make):
    env = make(skill_scheduler="round_robin", enabled_skills=("explore", "resource"), active_skill_bootstrap="resource",
               env_min_episode_steps=12, env_max_episode_steps=12)  # fmt: skip
    env.reset(seed=4)
    steps = list(play(env, 12))
    stats = steps[-1][4]["episode_extra_stats"]
    assert stats["skill_resource"] == sum(step[4]["skill"] == "resource" for step in steps) / 12 < 1
    assert stats["skill_explore"] == pytest.approx(1 - stats["skill_resource"])


def test_one_skill_alone_stays(make):
    env = make(enabled_skills=("descend",), active_skill_bootstrap="descend")
    env.reset(seed=4)
    assert {info["skill"] for *_, info in play(env, 30)} == {"descend"}


# -- Ends --------------------------------------------------------------------------------------------------------------


def test_an_episode_is_truncated_and_only_its_last_step_sums_up(make):
    env = make(env_min_episode_steps=25, env_max_episode_steps=25)
    for seed in (4, 5):
        env.reset(seed=seed)
        steps = list(play(env, 100))
        assert len(steps) == 25
        assert [(terminated, truncated) for _, _, terminated, truncated, _ in steps[:-1]] == [(False, False)] * 24
        assert steps[-1][2:4] == (False, True)
        assert ["episode_extra_stats" in step[4] for step in steps] == [False] * 24 + [True]
        stats = steps[-1][4]["episode_extra_stats"]
        assert stats["length"] == 25.0 and stats["alive"] == 1.0
        assert stats["task_reward"] == pytest.approx(sum(step[4]["task_reward"] for step in steps))
        assert stats["unique_tiles"] == env.playthrough.memory.unique_tiles >= 10
        assert not any("death" in term for term in stats)  # to run out of steps is not to die


def test_lengths_are_the_seeds_and_even_in_their_logarithm(make):
    env = make(env_min_episode_steps=100, env_max_episode_steps=1000)
    lengths = [env._length_of(seed) for seed in range(4000)]
    assert min(lengths) == 100 and 980 <= max(lengths) <= 1000
    for low, high in ((100, 178), (178, 316), (316, 562), (562, 1001)):  # quarters of the logarithm
        assert sum(low <= length < high for length in lengths) / 4000 == pytest.approx(0.25, abs=0.03)
    env = make(env_min_episode_steps=3, env_max_episode_steps=6)
    played = set()
    for seed in range(12):
        env.reset(seed=seed)
        played.add(len(list(play(env, 10))))
    assert played == {3, 4, 5, 6} == {env._length_of(seed) for seed in range(12)}


def fall(env: SkillEnv) -> list:
    """Walks down until the hero dies, whatever the mask says."""
    policy = Frontier("descend")
    policy.reset(0, 0)
    steps = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step(env.action_names.index(policy.act([0], [env.playthrough])[0])))
    return steps


def test_a_game_goes_on_from_its_decisive_moment_as_an_episode_of_the_skill(make, monkeypatch):
    monkeypatch.setitem(DECISIVE, "survive", lambda scene: scene.hp < scene.max_hp)  # half is seldom reached so soon
    env = make(skill_scheduler="per_episode", env_min_episode_steps=150, env_max_episode_steps=150, moment_share=1.0)
    met: dict[str, int] = {}
    for seed in range(60):
        env.reset(seed=seed)
        skill = env.skill
        *_, (observation, _, terminated, truncated, info) = play(env, 150, seed)
        assert ("moment" in info) == (truncated and env.episode.length < 150)
        if "moment" not in info:
            continue
        assert skill not in DECISIVE
        assert all(DECISIVE[info["moment"]](scene) for scene in (env.playthrough.before, env.playthrough.scene))
        met[info["moment"]] = met.get(info["moment"], 0) + 1
        steps, hp = env.playthrough.memory.steps, env.playthrough.scene.hp
        first, after = env.reset(options={"go_on": True})
        assert env.skill == after["skill"] == info["moment"] and env.episode.length == 0
        assert (env.playthrough.memory.steps, env.playthrough.scene.hp) == (steps, hp)
        assert not np.array_equal(first["obs"], observation["obs"])  # another skill looks at the same moment
        *_, (_, _, terminated, truncated, info) = play(env, 150, seed)
        assert "moment" not in info and info["skill"] == after["skill"]
        assert terminated or env.episode.length == 150
    assert met["combat"] > 5 and met["survive"] > 2
    with pytest.raises(ValueError, match="not cut off at a decisive moment"):
        env.reset(options={"go_on": True})


def test_how_many_games_await_a_moment(make):
    env = make(skill_scheduler="per_episode", moment_share=0.5)
    awaited = [(env.scheduler.reset(seed), env._draw_awaited(seed))[1] for seed in range(2000)]
    others = [
        skill
        for seed, skill in enumerate(awaited)
        if (env.scheduler.reset(seed), env.scheduler.first("explore"))[1] not in DECISIVE
    ]
    assert len(others) < 1400 and others.count("survive") / len(others) == pytest.approx(0.25, abs=0.04)
    assert others.count("combat") / len(others) == pytest.approx(0.25, abs=0.04)


def test_the_share_of_random_heroes(make):
    """The seed says who plays; where it is the monk, the game is the one without random heroes."""

    def role(env):
        hero = env.playthrough.game.last.observation["glyphs"].flat[env.playthrough.scene.cell]
        return MONSTER_NAMES[glyphs.MONSTER_OF[hero]]

    plain, half, always = make(), make(random_hero_share=0.5), make(random_hero_share=1.0)
    roles, others = [], []
    for seed in range(24):
        monk = plain.reset(seed=seed)[0]["obs"]
        first = half.reset(seed=seed)[0]["obs"]
        roles.append(role(half))
        always.reset(seed=seed)
        others.append(role(always))
        if roles[-1] == "monk" and others[-1] != "monk":
            assert np.array_equal(first, monk)
        assert roles[-1] in ("monk", others[-1])
        half.step(0)
        assert np.array_equal(half.reset(seed=seed)[0]["obs"], first)
    always.close()
    with pytest.raises(RuntimeError, match="closed"):
        always.step(0)
    assert len(set(others)) > 5
    assert 6 <= sum(name != "monk" for name in roles) <= 18


def test_without_masks_every_action_passes_and_is_played(make):
    env = make(action_masks=False)
    observation, _ = env.reset(seed=4)
    assert observation["action_mask"].all() and observation["obs"][env.observation_spec.mask].all()
    for action in range(len(env.action_names)):
        observation, *_ = env.step(action)
        assert observation["action_mask"].all()


def test_death_terminates_and_the_last_living_moment_is_reported(make):
    env = make(actions="compass", enabled_skills=("explore",))
    env.reset(seed=3)
    steps = fall(env)
    assert steps[-1][2:4] == (True, False) and len(steps) < 200
    assert steps[-1][4]["task_reward"] < -80 and min(step[4]["task_reward"] for step in steps[:-1]) > -10
    stats = steps[-1][4]["episode_extra_stats"]
    assert stats["alive"] == 0.0 and stats["final_hp"] > 0 and stats["depth"] >= 1
    assert stats["reward_explore_death"] == -100.0
    assert env.observation_space.contains(steps[-1][0])

    # A death in the very last step allowed is a death.
    length = len(steps)
    env = make(enabled_skills=("explore",), env_min_episode_steps=length, env_max_episode_steps=length)
    env.reset(seed=3)
    assert fall(env)[-1][2:4] == (True, False)
    # The next episode starts anew.
    env.reset(seed=3)
    assert next(iter(play(env, 1)))[2:4] == (False, False) and env.episode.length == 1


# -- Rewards -----------------------------------------------------------------------------------------------------------


def test_the_reward_mixes_task_reward_and_score_by_weight(make):
    env = make(intrinsic_reward_weight=0.5, extrinsic_reward_weight=2.0, actions="compass")
    plain = make(actions="compass")
    env.reset(seed=36)
    plain.reset(seed=36)
    policy = Frontier("descend")
    policy.reset(0, 0)
    gained = 0
    for _ in range(60):
        action = env.action_names.index(policy.act([0], [env.playthrough])[0])
        score = env.playthrough.scene.score
        _, reward, terminated, _, info = env.step(action)
        change = env.playthrough.scene.score - score
        assert reward == pytest.approx(0.5 * info["task_reward"] + 2.0 * change)
        assert plain.step(action)[1] == pytest.approx(info["task_reward"])
        gained += change
        if terminated:
            break
    assert gained >= 50  # NetHack pays fifty points a level


def test_reward_weights_are_taken_from_the_settings(make):
    weights = rewards.RewardWeights(explore=rewards.ExploreWeights(new_tile=0, new_room=0, new_item=0, senseless=-7))
    env = make(rewards=weights)
    env.reset(seed=4)
    _, reward, _, _, info = env.step(env.action_names.index("up"))
    assert info["task_reward"] == reward == pytest.approx(-7.25)  # a repeated state
