"""Labelled moments of small real games as examples, what is learned from them, and the pull towards it in training."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import yaml

from nethack_pipe import seeds
from nethack_pipe.appo import imitation
from nethack_pipe.appo.examples import (
    _STATE,
    Examples,
    ExamplesError,
    _examples_of,
    _LabelledGame,
    _Labels,
    read_examples,
)
from nethack_pipe.appo.imitation import Imitated, imitate
from nethack_pipe.appo.learner import falling
from nethack_pipe.appo.model import make_actor_critic
from nethack_pipe.appo.runner import Trained
from nethack_pipe.artifacts import hashes, read_manifest
from nethack_pipe.counterfactuals.dataset import load
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.params import read_yaml
from nethack_pipe.perception.observation import ObservationSpec
from nethack_pipe.policies.actor_critic import ActorCriticNetwork, NetworkConfig
from nethack_pipe.rollouts.schema import read, write_shards
from nethack_pipe.stage import BaseParams, Stage
from nethack_pipe.tasks.env import EnvConfig, SkillEnv
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import SKILLS
from stages import appo
from tests.appo.test_training import settings
from tests.helpers.branches import run_stage, write_world
from tests.helpers.pipeline import TINY
from tests.helpers.toy import ROOT
from tests.helpers.toy_env import NUM_ACTIONS, OBSERVATION_SIZE, ToyEnv
from tests.helpers.toy_env import SKILLS as TOY_SKILLS
from tests.helpers.toy_training import digest, digest_of_weights, train

ACTIONS = ACTION_SETS["compass"]
SPEC = ObservationSpec("rich", ("paths", "recency", "monsters"), ACTIONS)


def network_config(observation_size: int, skill_offset: int, num_actions: int) -> NetworkConfig:
    return NetworkConfig(observation_size, skill_offset, 5, num_actions, True, (32,), "elu", False, "gru", 32)


NETHACK = network_config(SPEC.size, SPEC.skill.start, len(ACTIONS))
TOY = network_config(OBSERVATION_SIZE, TOY_SKILLS.start, NUM_ACTIONS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recorded games with labelled moments: three to train on (36, 10, 20), a held-out one (3)."""
    root = tmp_path_factory.mktemp("imitation") / "world"
    write_world(root)
    run_stage(root)
    return root


def examples_of(root: Path, skills: Any = SKILLS) -> Examples:
    return read_examples(
        root / "data/counterfactuals", root / "data/rollouts", SPEC, skills, avoid_traps=False, workers=1
    )


@pytest.fixture(scope="module")
def examples(world: Path) -> Examples:
    return examples_of(world)


# --- examples


def test_examples_are_what_the_environment_shows_at_these_moments(world: Path, examples: Examples) -> None:
    transitions, branches = read(world / "data/rollouts", "train"), load(world / "data/counterfactuals", "train")
    labels: dict[tuple[int, int], dict[str, dict[str, Any]]] = {}
    for row in branches.to_pylist():
        labels.setdefault((row["game_seed"], row["step"]), {})[row["action"]] = row
    found = {}
    for i, key in enumerate(zip(examples.game_seeds.tolist(), examples.steps.tolist(), strict=True)):
        found[*key, SKILLS[examples.skills[i]]] = i
    assert len(found) == len(examples.obs) > 15
    taught = set()
    for skill in SKILLS:
        env = SkillEnv(EnvConfig(enabled_skills=(skill,), skill_scheduler="per_episode"))
        for row in transitions.to_pylist():
            seed, step = row["game_seed"], row["step"]
            if not step:
                seen, _ = env.reset(seed=seed)
            tried = labels.get((seed, step), {})
            returns = {
                name: label[f"return_{skill}"]
                for name, label in tried.items()
                if seen["action_mask"][ACTIONS.index(name)]
            }
            if len(set(returns.values())) > 1:
                taught.add((seed, step, skill))
                i = found[seed, step, skill]
                assert np.array_equal(examples.obs[i], seen["obs"])
                assert np.array_equal(examples.masks[i], seen["action_mask"])
                assert {ACTIONS[a] for a in np.flatnonzero(examples.tried[i])} == returns.keys()
                assert [examples.returns[i][ACTIONS.index(name)] for name in returns] == list(returns.values())
                untried = [name not in tried for name in ACTIONS]
                assert np.array_equal(np.isnan(examples.returns[i]), untried)
            seen, *_ = env.step(ACTIONS.index(row["action"]))
        env.close()
    assert taught == found.keys()
    assert {skill for _, _, skill in taught} == set(SKILLS)


def test_a_step_onto_a_known_trap_is_no_choice_where_the_policy_keeps_off_them() -> None:
    actions, states = ("north", "north", "east", "search"), []  # to a trap in the west
    with Game() as game:
        playthrough = Playthrough(game, ACTIONS)
        scene = playthrough.reset(122)
        for action in actions:
            states.append([getattr(scene, name) for name in _STATE])
            scene = playthrough.step(action)
    returns = np.arange(len(ACTIONS) * 2, dtype=np.float32).reshape(-1, 2)
    labelled = _LabelledGame(122, actions, np.array(states), (_Labels(3, ACTIONS, returns),))
    found = {wary: _examples_of((labelled, SPEC, ("survive", "explore"), wary)) for wary in (False, True)}
    west = ACTIONS.index("west")
    assert found[False].masks[:, west].tolist() == [1, 1] and found[True].masks[:, west].tolist() == [0, 1]
    assert np.array_equal(found[True].obs[:, SPEC.mask], found[True].masks)


def test_held_out_games_are_never_looked_at(world: Path, examples: Examples, tmp_path: Path) -> None:
    held_out = set(load(world / "data/counterfactuals", "held_out")["game_seed"].to_pylist())
    assert held_out == {3} and set(examples.game_seeds.tolist()) <= {36, 10, 20}
    shutil.copytree(world, tmp_path / "world")
    for path in (tmp_path / "world").rglob("held_out-*.parquet"):
        path.unlink()
    again = examples_of(tmp_path / "world", ("combat", "survive"))
    assert set(again.skills.tolist()) == {SKILLS.index("combat"), SKILLS.index("survive")}
    same = np.isin(examples.skills, again.skills)
    assert sorted(again.obs.tolist()) == sorted(examples.obs[same].tolist())


def test_a_game_that_does_not_go_as_recorded_is_refused(world: Path, tmp_path: Path) -> None:
    table = read(world / "data/rollouts", "train")
    hp = table["hp"].to_pylist()
    hp[0] += 1  # of game 36
    changed = table.set_column(table.schema.get_field_index("hp"), table.schema.field("hp"), pa.array(hp, pa.int32()))
    write_shards(changed, tmp_path, "train")
    with pytest.raises(
        ExamplesError, match=r"game 36 does not go as it was recorded: turn, hp, depth, x, y before step 0"
    ):
        read_examples(world / "data/counterfactuals", tmp_path, SPEC, SKILLS, avoid_traps=False, workers=1)
    write_shards(table.slice(0, 1), tmp_path, "train")
    with pytest.raises(ExamplesError, match=r"game 36 is labelled at step \d+, of it 1 steps are recorded"):
        read_examples(world / "data/counterfactuals", tmp_path, SPEC, SKILLS, avoid_traps=False, workers=1)


# --- learning from them


def made_up(returns: list[list[float]], allowed: list[list[float]], skills: list[int]) -> Examples:
    n, obs = len(skills), np.zeros((len(skills), OBSERVATION_SIZE), np.float32)
    obs[np.arange(n), TOY_SKILLS.start + np.array(skills)] = 1
    nothing = np.zeros(n, np.int64)
    return Examples(
        nothing, nothing, np.array(skills), obs, np.array(allowed, np.float32), np.array(returns, np.float32)
    )


def test_targets_are_in_units_of_the_tasks_own_deviation() -> None:
    nan = float("nan")
    found = imitation.targets(
        made_up(
            [[1, 3, nan, 9], [5, 5, nan, 9], [100, 300, nan, nan]],
            [[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]],
            [0, 0, 4],
        )
    )
    # The first skill's variances are 1 and 0, their mean 1/2; the other's is 100 squared. What is not tried or not
    # allowed gets nothing.
    leads = torch.tensor([2 / (imitation.TEMPERATURE * 0.5**0.5), 0.0, 200 / (imitation.TEMPERATURE * 100)])
    expected = torch.zeros(3, 4)
    expected[:, 1] = torch.sigmoid(leads)
    expected[:, 0] = 1 - expected[:, 1]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_imitation_learns_the_better_actions_to_the_same_bytes(examples: Examples, tmp_path: Path) -> None:
    imitated = imitate(examples, NETHACK, epochs=60, seed=3)
    figures = imitated.metrics
    assert figures["examples"] == len(examples.obs)
    assert figures["agreement_before"] < 0.6 and figures["agreement_after"] > 0.85
    assert figures["loss_after"] < figures["loss_before"] - 0.3
    network = ActorCriticNetwork(NETHACK)
    network.load_state_dict(imitated.weights)
    with torch.no_grad():
        obs = torch.from_numpy(examples.obs)
        skills = network.skills(obs)
        logits = network.masked_logits(network.encode(obs, skills), obs, skills, torch.from_numpy(examples.masks))
    everything = np.where(examples.tried, examples.returns, -np.inf)
    chosen = everything[np.arange(len(obs)), np.where(examples.tried, logits.numpy(), -np.inf).argmax(axis=1)]
    assert np.mean(chosen == everything.max(axis=1)) == pytest.approx(figures["agreement_after"])

    again = imitate(examples, NETHACK, epochs=60, seed=3)
    for name, made in (("one", imitated), ("two", again)):
        made.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert digest_of_weights(imitate(examples, NETHACK, epochs=60, seed=4)) != digest_of_weights(imitated)
    back = Imitated.load(tmp_path / "one")
    assert back.metrics == figures and digest_of_weights(back) == digest_of_weights(imitated)


def test_imitation_begins_with_the_weights_that_training_would_begin_with() -> None:
    cfg = settings(use_rnn=False, recurrence=1)
    cfg.seed = seeds.integer(7, "appo", 0)
    env = ToyEnv()
    theirs = make_actor_critic(cfg, env.observation_space, env.action_space).network.state_dict()
    ours = imitate(made_up([[1.0, 2.0] + [0.0] * 11], [[1.0] * 13], [0]), TOY, epochs=0, seed=7).weights
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


# --- training from there


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights for ToyEnv that prefer action 3 in skills 0 to 2, action 5 in the others."""
    wanted = np.zeros((5, NUM_ACTIONS))
    wanted[:3, 3] = wanted[3:, 5] = 1.0
    path = tmp_path_factory.mktemp("start") / "imitated.safetensors"
    made = made_up(wanted.tolist(), np.ones((5, NUM_ACTIONS)).tolist(), list(range(5)))
    imitate(made, TOY, epochs=80, seed=7).save(path)
    return path


PULL: dict[str, Any] = {"use_rnn": False, "recurrence": 1, "linear_decay": False, "learning_rate": 1e-2}


def divergence(start: Path, trained: Trained) -> float:
    """The mean KL divergence from the policy of `start` to the trained one, over observations of ToyEnv."""
    random = np.random.default_rng(0)
    obs = np.zeros((500, OBSERVATION_SIZE), np.float32)
    obs[np.arange(500), random.integers(NUM_ACTIONS, size=500)] = 1
    obs[:, 20:30] = random.random((500, 10))
    obs[np.arange(500), TOY_SKILLS.start + random.integers(5, size=500)] = 1
    mask = torch.from_numpy((random.random((500, NUM_ACTIONS)) < 0.6).astype(np.float32))
    mask[:, 3:6] = 1
    log_probabilities = []
    for weights in (Imitated.load(start).weights, trained.weights):
        network = ActorCriticNetwork(TOY)
        network.load_state_dict(weights)
        with torch.no_grad():
            log_probabilities.append(torch.log_softmax(imitation._logits(network, torch.from_numpy(obs), mask), dim=1))
    wanted, found = log_probabilities
    return float((wanted.exp() * (wanted - found)).sum(dim=1).mean())


def test_the_weight_falls_linearly() -> None:
    assert [falling(2.0, 200, frames) for frames in (0, 50, 150, 199, 200, 1000)] == [
        2.0,
        1.5,
        0.5,
        2.0 * (1 - 199 / 200),
        0.0,
        0.0,
    ]
    assert falling(0.0, 1, 0) == 0.0


def test_the_divergence_pulls_and_its_weight_ends(start: Path, tmp_path: Path) -> None:
    free = train(tmp_path / "free", **PULL, initial_weights=start)
    held = train(tmp_path / "held", **PULL, initial_weights=start, imitation_kl_coeff=100.0, imitation_kl_steps=10**9)
    assert all("imitation_kl" not in row["train"] for row in free.rows)
    # Divergences here: 0.13 free, 0.0008 held, 0.026 where the pull ends early.
    assert divergence(start, free) > 0.1
    assert divergence(start, held) < divergence(start, free) / 50
    assert all(0 < row["train"]["imitation_kl"] < 0.01 for row in held.rows)
    short = train(tmp_path / "short", **PULL, initial_weights=start, imitation_kl_coeff=100.0, imitation_kl_steps=300)
    assert ["imitation_kl" in row["train"] for row in short.rows] == [True] * 3 + [False] * 5
    assert divergence(start, short) > 10 * divergence(start, held)


def test_a_resumed_training_stays_as_near(start: Path, tmp_path: Path) -> None:
    pull = {**PULL, "initial_weights": start, "imitation_kl_coeff": 0.5, "imitation_kl_steps": 900}
    undisturbed = train(tmp_path, **pull)
    (tmp_path / "checkpoints" / "frames_000000001024.pt").unlink()
    assert digest(train(tmp_path, **pull)) == digest(undisturbed)
    assert digest_of_weights(train(tmp_path / "free", **PULL)) != digest_of_weights(undisturbed)


# --- the stage


def test_the_stage_reads_the_labels_and_reports_what_came_of_them(world: Path, tmp_path: Path) -> None:
    root = tmp_path / "world"
    shutil.copytree(world, root)
    sections = {"base": {"seed": 3, "portable_math": False}, "rewards": RewardWeights().model_dump()}
    sections["appo"] = read_yaml(ROOT / "params.yaml")["appo"] | TINY["appo"]
    sections["appo"] |= {"imitation_epochs": 40, "imitation_kl_coeff": 1.0, "imitation_kl_steps": 200}
    sections["appo"] |= {"curriculum_env_steps": 0}
    sections["appo"] |= {"train_for_env_steps": 256}
    (root / "params.yaml").write_text(yaml.safe_dump(sections))
    outs = ["models/appo", "metrics/appo.json", "plots/appo_training.csv"]
    declared = {"deps": ["data/counterfactuals", "data/rollouts"], "params": list(sections), "outs": outs}
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"appo": declared}}))
    with contextlib.chdir(root):
        stage = Stage("appo", {"base": BaseParams, "rewards": RewardWeights, "appo": appo.AppoParams}, root)
        stage.scratch.mkdir(parents=True)
        appo.main(stage)
        stage.finish()
    metrics = json.loads((root / "metrics/appo.json").read_text())["appo"]
    assert metrics["frames"] == 256
    assert metrics["imitation"].keys() == {
        "examples", "loss_before", "loss_after", "agreement_before", "agreement_after"
    }  # fmt: skip
    assert metrics["imitation"]["agreement_after"] > metrics["imitation"]["agreement_before"] + 0.2
    assert {"data/counterfactuals", "data/rollouts"} == read_manifest(root / "models/appo")["inputs"].keys()
    first_line = (root / "plots/appo_training.csv").read_text().splitlines()[0]
    assert "imitation_kl" in first_line
    weights = hashes(root / "models/appo")["policy.safetensors"]

    # A killed run has left the imitated weights: they are used as they are.
    with contextlib.chdir(root):
        shutil.rmtree(stage.scratch / "checkpoints")
        again = Stage("appo", {"base": BaseParams, "rewards": RewardWeights, "appo": appo.AppoParams}, root)
        assert again.scratch == stage.scratch and (again.scratch / "imitated.safetensors").is_file()
        appo.main(again)
        again.finish()
    assert hashes(root / "models/appo")["policy.safetensors"] == weights
