"""Small trainings with Sample Factory, in this process and as programs that are killed, interrupted and resumed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from sample_factory.algo.utils.rl_utils import prepare_and_normalize_obs

from nethack_pipe.appo import checkpoints, learner, runner
from nethack_pipe.appo.export import export
from nethack_pipe.appo.model import MaskedActorCritic, make_actor_critic
from nethack_pipe.appo.vector_env import GameError
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.perception.observation import ObservationSpec
from nethack_pipe.policies.actor_critic import ActorCriticNetwork, ActorCriticPolicy, spread
from nethack_pipe.tasks.env import EnvConfig, SkillEnv
from tests.helpers import emulate
from tests.helpers.toy_env import NUM_ACTIONS, OBSERVATION_SIZE, SEED_MODULUS, SKILLS, ToyEnv
from tests.helpers.toy_training import OPTIONS, digest, digest_of_weights, train

# Four of the toy's actions, which are not in order; of each the number that names it and one without meaning.
DIRECTIONS = {"units": 8, "actions": [4, 1, 12, 3], "inputs": [[4, 20], [1, 21], [12, 22], [3, 23]]}
CORES: list[dict[str, Any]] = [
    {"use_rnn": True, "rnn_type": "gru"},
    {"use_rnn": True, "rnn_type": "lstm"},
    {"use_rnn": False, "recurrence": 1},
    {"use_rnn": False, "recurrence": 1, "shared_encoder": False, "encoder_mlp_layers": [32, 16]},
    {"use_rnn": False, "recurrence": 1, "directions": DIRECTIONS},
    {"use_rnn": True, "rnn_type": "gru", "directions": DIRECTIONS},
]
ACTIONS = [f"action-{index}" for index in range(NUM_ACTIONS)]


def settings(**changes: Any) -> Any:
    shared_encoder, directions = changes.pop("shared_encoder", True), changes.pop("directions", None)
    cfg = runner._configuration(OPTIONS | changes, Path("unused"))
    cfg.update(seed=3, skill_offset=SKILLS.start, num_skills=5, shared_encoder=shared_encoder)
    cfg.directions = directions
    return cfg


def model(**changes: Any) -> MaskedActorCritic:
    env = ToyEnv()
    made = make_actor_critic(settings(**changes), env.observation_space, env.action_space)
    assert isinstance(made, MaskedActorCritic)
    return made


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> runner.Trained:
    """1024 frames in two segments, one game process."""
    return train(tmp_path_factory.mktemp("undisturbed"))


# --- what is learned, and that it is the same every time


def test_a_training_has_the_frames_and_games_it_should(undisturbed: runner.Trained) -> None:
    assert [row["frames"] for row in undisturbed.rows] == list(range(128, 1025, 128))
    seeds = [seed for row in undisturbed.rows for seed in row["episodes"]["seed"]]
    assert len(seeds) > 50 and len(set(seeds)) == len(seeds)
    # Each segment plays its own games: game 3 begins the one after 512 frames with the seed of this number.
    expected = runner.seeds.game_seed(7, "train", "appo", runner.first_game(512) + 3) % SEED_MODULUS
    late = [seed for row in undisturbed.rows if row["frames"] > 512 for seed in row["episodes"]["seed"]]
    assert expected in late


def test_two_runs_and_two_processes_give_the_same_bytes(undisturbed: runner.Trained, tmp_path: Path) -> None:
    assert digest(train(tmp_path / "again")) == digest(undisturbed)
    assert digest(train(tmp_path / "two", processes=2)) == digest(undisturbed)
    assert digest(train(tmp_path / "other", seed=8)) != digest(undisturbed)


def test_the_return_rises(tmp_path: Path) -> None:
    rows = train(
        tmp_path, frames=25600, segment=12800, num_envs_per_worker=16, learning_rate=3e-3, batch_size=256, num_epochs=4,
        use_rnn=False, recurrence=1, linear_decay=False,
    ).rows  # fmt: skip

    def per_step(part: list[Any]) -> float:
        return sum(sum(r["episodes"]["reward"]) for r in part) / sum(sum(r["episodes"]["len"]) for r in part)

    assert per_step(rows[:5]) < 0.2
    assert per_step(rows[-5:]) > 0.45
    assert rows[-1]["train"]["entropy"] < rows[0]["train"]["entropy"]


def test_the_weight_of_the_entropy_falls_to_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = []
    loss = learner.Learner._entropy_exploration_loss

    def note(self: Any, *args: Any) -> torch.Tensor:
        weights.append((self.env_steps, self.cfg.exploration_loss_coeff))
        return loss(self, *args)

    monkeypatch.setattr(learner.Learner, "_entropy_exploration_loss", note)
    train(tmp_path, frames=512, segment=256, exploration_loss_coeff=0.5, final_exploration=0.1)
    assert sorted(set(weights)) == [(frames, pytest.approx(0.5 - 0.4 * frames / 512)) for frames in range(0, 512, 128)]


def test_real_games_are_the_same_in_one_process_and_in_two(tmp_path: Path) -> None:
    config = EnvConfig(skill_scheduler="per_episode", env_min_episode_steps=12, env_max_episode_steps=24)
    spec = ObservationSpec(config.observation, config.observation_parts, ACTION_SETS[config.actions])

    def run(processes: int) -> runner.Trained:
        return runner.train(
            partial(SkillEnv, config),
            OPTIONS,
            seed=1,
            train_for_env_steps=512,
            segment_env_steps=256,
            skills=spec.skill,
            shared_encoder=True,
            normalize_per_skill=True,
            linear_decay=False,
            final_exploration_loss_coeff=0.001,
            scratch=tmp_path / str(processes),
            num_processes=processes,
        )

    trained = run(1)
    assert digest(trained) == digest(run(2))
    rows = [row["episodes"] for row in trained.rows]
    assert sum(len(row.get("reward", ())) for row in rows) >= 16
    # What Sample Factory adds up as an episode's reward is what the game says its task paid.
    for row in rows:
        assert row.get("reward") == pytest.approx(row.get("task_reward"), abs=1e-3)
        assert all(1 < tiles < 500 for tiles in row.get("unique_tiles", ()))
        assert all(12 <= length <= 24 for length in row.get("length", ()))
    played = {name for row in rows for name, shares in row.items() if name.startswith("skill_") and 1.0 in shares}
    assert len(played) >= 4


@pytest.mark.parametrize("core", CORES[1:])
def test_after_the_warm_up_every_skill_acts_as_the_first_one_learned_to(core: dict[str, Any], tmp_path: Path) -> None:
    # So small a step changes nothing, and the last weights are those that training went on from.
    still: dict[str, Any] = {"frames": 640, "segment": 512, "linear_decay": False, "learning_rate": 1e-12}
    trained = train(tmp_path / "warm", warm_up=512, **still, **core)
    obs, mask = torch.rand(7, OBSERVATION_SIZE), torch.ones(7, NUM_ACTIONS)

    def logits(trained: runner.Trained) -> list[torch.Tensor]:
        network = ActorCriticNetwork(trained.network)
        network.load_state_dict(trained.weights)
        result = []
        for skill in range(5):
            obs[:, SKILLS] = torch.eye(5)[skill]
            skills = network.skills(obs)
            features, _ = network.core(network.encode(obs, skills), torch.zeros(7, trained.network.state_size))
            result.append(network.masked_logits(features, obs, skills, mask))
        return result

    cold = logits(train(tmp_path / "cold", **still, **core))
    for skill, of_skill in enumerate(logits(trained)):
        assert torch.allclose(of_skill, cold[1], atol=1e-7)
        assert skill == 1 or not torch.allclose(of_skill, cold[skill], atol=1e-4)


@pytest.mark.parametrize("core", CORES[2:5])
def test_what_is_spread_acts_alike_whatever_the_weights(core: dict[str, Any]) -> None:
    config = replace(model(**core).network.config, encoder_mlp_layers=(16, 8))
    network, taught = ActorCriticNetwork(config), ActorCriticNetwork(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape))
        taught.load_state_dict(network.state_dict())
        spread(dict(taught.named_parameters()), config, 3)

    def logits(of: ActorCriticNetwork, skill: int) -> torch.Tensor:
        obs = torch.linspace(-1, 1, 4 * OBSERVATION_SIZE).view(4, -1).clone()
        obs[:, SKILLS] = torch.eye(5)[skill]
        skills = of.skills(obs)
        return of.masked_logits(of.encode(obs, skills), obs, skills, torch.ones(4, NUM_ACTIONS))

    for skill in range(5):
        assert torch.allclose(logits(taught, skill), logits(network, 3), atol=1e-3)
        assert skill == 3 or not torch.allclose(logits(network, skill), logits(network, 3), rtol=0.1)
    assert torch.equal(taught.value_heads.weight, network.value_heads.weight)


def test_a_training_resumed_after_its_warm_up_ends_the_same(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", warm_up=256)
    assert digest_of_weights(whole) != digest_of_weights(train(tmp_path / "cold"))
    resumed = tmp_path / "resumed"
    (resumed / "checkpoints").mkdir(parents=True)
    (resumed / "progress.jsonl").write_bytes((tmp_path / "whole" / "progress.jsonl").read_bytes())
    at = "checkpoints/frames_000000000256.pt"
    (resumed / at).write_bytes((tmp_path / "whole" / at).read_bytes())
    assert digest(train(resumed, warm_up=256)) == digest(whole)


@pytest.mark.parametrize("core", CORES)
def test_sampling_and_loss_agree_before_anything_is_learned(core: dict[str, Any], tmp_path: Path) -> None:
    rows = train(tmp_path, **core, frames=256).rows
    assert max(row["train"]["first_ratio_error"] for row in rows) < 1e-5
    assert max(row["train"]["kl_divergence"] for row in rows) > 0


def test_masks_that_only_sampling_knows_are_seen_in_the_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    masked = ActorCriticNetwork.masked_logits

    def only_while_sampling(
        self: Any, core_output: torch.Tensor, obs: torch.Tensor, skills: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        if torch.is_grad_enabled():
            mask = torch.ones_like(mask)
        return masked(self, core_output, obs, skills, mask)

    monkeypatch.setattr(ActorCriticNetwork, "masked_logits", only_while_sampling)
    assert train(tmp_path, frames=128).rows[0]["train"]["first_ratio_error"] > 0.1


def test_without_masks_a_forbidden_action_is_drawn_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What every other training here shows by not raising: no forbidden action is ever drawn."""
    masked = ActorCriticNetwork.masked_logits
    monkeypatch.setattr(
        ActorCriticNetwork,
        "masked_logits",
        lambda self, core, obs, skills, mask: masked(self, core, obs, skills, mask * 0 + 1),
    )
    with pytest.raises(GameError, match=r"(?s)the game with seed \d+ raised:.*action \d+ is forbidden"):
        train(tmp_path, frames=128)


def test_the_mask_is_not_normalised() -> None:
    mask = np.zeros((16, NUM_ACTIONS), np.float32)
    mask[:, :5] = 1  # actions that are always allowed
    mask[::2, 5] = 1
    actor_critic = model()
    actor_critic.train()
    for _ in range(20):
        observation = {"obs": torch.randn(16, OBSERVATION_SIZE), "action_mask": torch.tensor(mask)}
        seen = prepare_and_normalize_obs(actor_critic, observation)["action_mask"]
    assert np.array_equal(seen.numpy(), mask)
    cfg = settings()
    cfg.normalize_input = True
    env = ToyEnv()
    with pytest.raises(ValueError, match="normalize_input must be off"):
        make_actor_critic(cfg, env.observation_space, env.action_space)


def test_segments() -> None:
    options = {"batch_size": 100, "num_batches_per_epoch": 2, "serial_mode": True}
    assert runner.boundaries(options, 1000, 500) == [400, 1000]
    assert runner.boundaries(options, 1001, 1001) == [1200]
    assert runner.boundaries(options, 1001, 501) == [1200]
    assert runner.boundaries(options, 1201, 400) == [400, 800, 1400]
    assert runner.boundaries(options, 900, 100) == [200, 400, 600, 800, 1000]
    assert runner.boundaries(options, 1, 5000) == [200]
    assert runner.boundaries(options | {"serial_mode": False}, 1000, 400) == [1000]


# --- skills


@pytest.mark.parametrize("shared_encoder", [True, False])
def test_each_skill_has_heads_of_its_own_and_reaches_the_encoder(shared_encoder: bool) -> None:
    network = model(shared_encoder=shared_encoder, use_rnn=False).network
    obs, mask = torch.randn(1, OBSERVATION_SIZE, generator=torch.Generator().manual_seed(0)), torch.ones(5, NUM_ACTIONS)
    obs = obs.expand(5, -1).clone()
    obs[:, SKILLS] = torch.eye(5)
    skills = network.skills(obs)
    assert skills.tolist() == [0, 1, 2, 3, 4]

    def outputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        features = network.encode(obs, skills)
        return features, network.masked_logits(features, obs, skills, mask), network.values(features, skills)

    _, logits, values = outputs()
    (logits[2].sum() + values[2]).backward()
    policy = network.policy_heads.weight.grad.view(5, NUM_ACTIONS, -1).abs().sum((1, 2))
    assert policy[2] > 0 and policy[[0, 1, 3, 4]].sum() == 0
    value = network.value_heads.weight.grad.abs().sum(1)
    assert value[2] > 0 and value[[0, 1, 3, 4]].sum() == 0
    with torch.no_grad():
        # From the same features the skills' heads still differ.
        same = network.encode(obs, skills)[:1].expand(5, -1)
        assert len({tuple(row) for row in network.masked_logits(same, obs, skills, mask).tolist()}) == 5
        before = network.encode(obs, skills)
        changed = network.encoders[0 if shared_encoder else 3]
        changed.skill_factors[3] = 0.0
        after = network.encode(obs, skills)
    assert torch.equal(before[[0, 1, 2, 4]], after[[0, 1, 2, 4]]) and not torch.equal(before[3], after[3])


def test_encoders_that_are_not_shared_see_only_their_own_skill() -> None:
    network = model(shared_encoder=False, use_rnn=False).network
    obs = torch.randn(7, OBSERVATION_SIZE, generator=torch.Generator().manual_seed(0))
    obs[:, SKILLS] = torch.eye(5)[[0, 3, 3, 1, 3, 0, 4]]
    skills = network.skills(obs)
    together = network.encode(obs, skills)
    alone = torch.cat([network.encode(obs[i : i + 1], skills[i : i + 1]) for i in range(7)])
    torch.testing.assert_close(together, alone)
    together[skills == 3].sum().backward()
    learned = [any(p.grad is not None and p.grad.any() for p in encoder.parameters()) for encoder in network.encoders]
    assert learned == [False, False, False, True, False]


def test_rewards_of_any_size_are_learned_alike(tmp_path: Path) -> None:
    plain = train(tmp_path / "plain", frames=512)
    small = train(tmp_path / "small", frames=512, reward_scale=0.125)  # a power of two: nothing is rounded
    assert digest_of_weights(plain) == digest_of_weights(small)
    unscaled = train(tmp_path / "unscaled", frames=512, reward_scale=0.125, normalize_per_skill=False)
    assert digest_of_weights(unscaled) != digest_of_weights(plain)


def test_the_scale_of_rewards_goes_on_from_segment_to_segment(tmp_path: Path) -> None:
    train(tmp_path, frames=512, segment=256)
    states = [checkpoints.read(path) for path in sorted((tmp_path / "checkpoints").iterdir())]
    seen = [state["reward_statistics"][:, 0] for state in states]
    assert [counts.sum().item() for counts in seen] == [256, 512] and (seen[0] > 0).all()
    assert [state["env_steps"] for state in states] == [256, 512]


# --- what was trained acts without Sample Factory


@pytest.mark.parametrize("core", CORES)
def test_the_exported_policy_is_sample_factorys_model(core: dict[str, Any], tmp_path: Path) -> None:
    actor_critic = model(**core).eval()
    weights = {name.removeprefix("network."): value for name, value in actor_critic.state_dict().items()}
    export(
        tmp_path,
        runner.Trained(actor_critic.network.config, weights, []),
        ACTIONS,
        {"kind": "toy", "parts": []},
        {"action_set": "toy"},
    )
    policy = ActorCriticPolicy.load(tmp_path)
    assert policy.actions == tuple(ACTIONS) and policy.config["action_set"] == "toy"
    assert policy.config["observation"] == {"kind": "toy", "parts": []}
    random = np.random.default_rng(0)
    state, expected_state = policy.initial_state(6), torch.zeros(6, policy.network.config.state_size)
    for _ in range(5):
        obs = torch.tensor(random.normal(size=(6, OBSERVATION_SIZE)).astype(np.float32))
        obs[:, SKILLS] = torch.eye(5)[[0, 1, 2, 3, 4, 1]]
        mask = torch.tensor((random.random((6, NUM_ACTIONS)) < 0.5).astype(np.float32))
        mask[:, 2] = 1
        with torch.no_grad():
            result = actor_critic({"obs": obs, "action_mask": mask}, expected_state)
        logits, state = policy.logits(obs, mask, state)
        expected_state = result["new_rnn_states"]
        torch.testing.assert_close(logits, result["action_logits"], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(state, expected_state, rtol=1e-5, atol=1e-5)
        assert (torch.softmax(logits, -1)[mask == 0] == 0).all()
        assert mask.gather(1, policy.argmax(logits)[:, None]).all()


def test_a_game_is_the_same_in_any_company(undisturbed: runner.Trained, tmp_path: Path) -> None:
    export(tmp_path, undisturbed, ACTIONS, {}, {})
    policy = ActorCriticPolicy.load(tmp_path)
    random = torch.Generator().manual_seed(1)
    obs, mask = torch.randn(40, OBSERVATION_SIZE, generator=random), torch.ones(40, NUM_ACTIONS)
    mask[:, 3] = 0
    together, states = policy.logits(obs, mask, policy.initial_state(40))
    drawn = policy.sample(together, [policy.generator(seed) for seed in range(40)])
    for first, last in ((0, 1), (3, 10), (10, 40)):
        alone, state = policy.logits(obs[first:last], mask[first:last], policy.initial_state(last - first))
        assert torch.equal(alone, together[first:last]) and torch.equal(state, states[first:last])
        assert torch.equal(policy.sample(alone, [policy.generator(s) for s in range(first, last)]), drawn[first:last])
    assert 3 not in drawn.tolist() and len(set(drawn.tolist())) > 5


def test_weights_of_another_network_are_refused(undisturbed: runner.Trained, tmp_path: Path) -> None:
    export(tmp_path, undisturbed, ACTIONS, {}, {})
    config = json.loads((tmp_path / "config.json").read_text())
    config["network"]["rnn_size"] = 16
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="does not hold the network of config.json"):
        ActorCriticPolicy.load(tmp_path)
    with pytest.raises(ValueError, match="2 action names for a policy of 13 actions"):
        export(tmp_path, undisturbed, ACTIONS[:2], {}, {})


# --- trouble


def start(folder: Path, **values: Any) -> subprocess.Popen[str]:
    arguments = [f"{name}={json.dumps(value)}" for name, value in values.items()]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.toy_training", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def wait_for_frames(folder: Path, frames: int, process: subprocess.Popen[str]) -> None:
    path = folder / "progress.jsonl"
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()[1][-3000:]
        if path.exists() and re.search(rf'"frames": {frames},', path.read_text()):
            return
        time.sleep(0.01)
    raise AssertionError(f"frame {frames} was not reached within a minute")


def spawned() -> list[int]:
    """The processes that this one has spawned and that still run."""
    alive = [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    return [child.pid for child in alive if "spawn_main" in " ".join(child.cmdline())]


def assert_none_left(children: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


LONG = {"frames": 4096, "segment": 1024}


@pytest.fixture(scope="module")
def long_digest(tmp_path_factory: pytest.TempPathFactory) -> str:
    return digest(train(tmp_path_factory.mktemp("long"), **LONG))


def test_killed_half_way_it_resumes_to_the_same_bytes(tmp_path: Path, long_digest: str) -> None:
    process = start(tmp_path, **LONG)
    wait_for_frames(tmp_path, 2048 + 256, process)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    assert children
    assert_none_left(children)
    assert sorted(path.name for path in (tmp_path / "checkpoints").glob("*.pt"))[-1] == "frames_000000002048.pt"
    rows = [json.loads(line)["frames"] for line in (tmp_path / "progress.jsonl").read_text().splitlines()]
    assert max(rows) < 4096
    assert digest(train(tmp_path, **LONG)) == long_digest


def test_a_damaged_checkpoint_costs_one_segment_but_no_byte(
    tmp_path: Path, long_digest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tmp_path, **LONG)
    last = tmp_path / "checkpoints" / "frames_000000004096.pt"
    last.write_bytes(last.read_bytes()[:1000])
    assert digest(train(tmp_path, **LONG)) == long_digest
    assert f"WARNING: {last}: not a whole checkpoint; training goes back" in capsys.readouterr().err


def test_interrupted_it_fails_and_keeps_its_checkpoint(tmp_path: Path) -> None:
    process = start(tmp_path, **LONG | {"frames": 10**6})  # it does not end before the signal comes
    wait_for_frames(tmp_path, 1024 + 128, process)
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert_none_left(children)
    assert (tmp_path / "checkpoints" / "frames_000000001024.pt").exists()


@pytest.mark.parametrize(("trouble", "words"), [("raise", "a troublesome game"), ("die", "died with its process")])
def test_a_game_in_trouble_ends_training_with_its_seed(trouble: str, words: str, tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(GameError, match=rf"(?s)the game with seed \d+ .*{words}"):
        train(tmp_path, trouble=trouble, processes=2)
    assert time.monotonic() - begin < 15
    assert not spawned()


NO_NUMBER = r"after \d+ frames the loss is no number \(policy nan, value nan\)"


def test_a_loss_that_is_no_number_ends_training(tmp_path: Path) -> None:
    with pytest.raises(runner.TrainingError, match=NO_NUMBER):
        train(tmp_path, trouble="nan")
    assert not spawned()


PARALLEL = {"serial_mode": False, "async_rl": True, "num_envs_per_worker": 4}


@pytest.mark.slow
def test_sample_factorys_own_processes_train(tmp_path: Path) -> None:
    trained = train(tmp_path, **PARALLEL)
    assert trained.rows[-1]["frames"] >= 1024
    assert all(torch.isfinite(weight).all() for weight in trained.weights.values())
    assert max(row["train"]["kl_divergence"] for row in trained.rows) > 0


@pytest.mark.slow
def test_a_game_in_trouble_ends_sample_factorys_own_processes(tmp_path: Path) -> None:
    with pytest.raises(runner.TrainingError, match=r"the process rollout_proc\d died: the game with seed \d+ raised"):
        train(tmp_path, **PARALLEL, num_workers=2, trouble="raise", frames=100_000)
    assert not spawned()


@pytest.mark.slow
def test_a_loss_that_is_no_number_ends_sample_factorys_own_processes(tmp_path: Path) -> None:
    with pytest.raises(runner.TrainingError, match=NO_NUMBER):
        train(tmp_path, **PARALLEL, trouble="nan", frames=100_000)
    assert not spawned()


@pytest.mark.slow
def test_sample_factorys_own_processes_go_on_where_they_were(tmp_path: Path) -> None:
    before = train(tmp_path, **PARALLEL, warm_up=512)
    after = train(tmp_path, **PARALLEL, warm_up=512, frames=3072)
    assert [row["frames"] for row in after.rows[: len(before.rows)]] == [row["frames"] for row in before.rows]
    assert len(after.rows) > len(before.rows) and after.rows[-1]["frames"] >= 3072
    assert digest_of_weights(after) != digest_of_weights(before)


@emulate.needs_qemu
def test_any_processor_trains_the_same_bytes(tmp_path: Path) -> None:
    def run(name: str, **how: Any) -> str:
        changes = ["frames=256", f"directions={json.dumps(DIRECTIONS)}"]
        return emulate.run_python(["-m", "tests.helpers.toy_training", str(tmp_path / name), *changes], **how)

    native = run("native")
    assert re.fullmatch(r"[0-9a-f]{64}\n", native)
    assert run("native again", environment={"PYTHONHASHSEED": "5"}) == native
    assert run("haswell", cpu="Haswell") == native
    assert run("native, cure out", portable_math=False) != run("haswell, cure out", cpu="Haswell", portable_math=False)
