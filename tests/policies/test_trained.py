"""The trained policy acts on exactly what it was trained on."""

import json
import random
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.game.game import Game
from nethack_pipe.perception.observation import ObservationSpec
from nethack_pipe.policies.actor_critic import ActorCriticNetwork, NetworkConfig
from nethack_pipe.policies.directions import directions
from nethack_pipe.policies.trained import TrainedPolicy
from nethack_pipe.tasks.env import EnvConfig, SkillEnv
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.skills import SKILLS
from tests.helpers.scenes import playing

COMPASS = ACTION_SETS["compass"]
SPEC = ObservationSpec("rich", ("paths", "recency", "crop", "map"), COMPASS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A policy of random weights."""
    config = NetworkConfig(
        SPEC.size, SPEC.skill.start, 5, len(COMPASS), True, (16,), "relu", True, "gru", 8, directions(SPEC, 4)
    )
    torch.manual_seed(0)
    save_file(ActorCriticNetwork(config).state_dict(), tmp_path / "policy.safetensors")
    observation = {"kind": "rich", "parts": list(SPEC.parts)}
    described = {"network": asdict(config), "actions": list(COMPASS), "observation": observation}
    write(tmp_path, described | {"env": {"action_masks": True, "avoid_traps": False}})
    return tmp_path


def write(folder: Path, config: dict[str, object]) -> None:
    (folder / "config.json").write_text(json.dumps(config))


def change(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    write(folder, {name: value for name, value in (config | changes).items() if value is not None})


def seen(policy: TrainedPolicy) -> list[tuple[np.ndarray, np.ndarray]]:
    """Has `policy` note every observation and mask that it gives its network."""
    noted: list[tuple[np.ndarray, np.ndarray]] = []
    logits = policy.network.logits

    def note(obs: torch.Tensor, mask: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        noted.extend(zip(obs.numpy().copy(), mask.numpy().copy(), strict=True))
        return logits(obs, mask, state)

    policy.network.logits = note  # type: ignore[method-assign]
    return noted


def test_it_sees_what_the_training_game_shows(folder: Path) -> None:
    env = SkillEnv(EnvConfig(skill_scheduler="random", observation_parts=SPEC.parts))
    policy = TrainedPolicy(folder, "explore")
    noted, skills = seen(policy), set()
    with Game() as game:
        playthrough = Playthrough(game, COMPASS)
        for seed in (3, 36):
            expected, _ = env.reset(seed=seed)
            playthrough.reset(seed)
            policy.reset(0, 7)
            for step in range(60):
                policy.set_skill(0, env.skill)
                skills.add(env.skill)
                action = policy.act([0], [playthrough])[0]
                assert np.array_equal(noted[-1][0], expected["obs"]), f"step {step}"
                assert np.array_equal(noted[-1][1], expected["action_mask"])
                assert expected["action_mask"][COMPASS.index(action)] == 1
                expected = env.step(COMPASS.index(action))[0]
                playthrough.step(action)
    env.close()
    assert len(skills) >= 2


def test_without_masks_it_may_do_anything_as_in_training(folder: Path) -> None:
    change(folder, env={"action_masks": False, "avoid_traps": False})
    policy = TrainedPolicy(folder, "explore")
    noted = seen(policy)
    with Game() as game:
        playthrough = Playthrough(game, COMPASS)
        playthrough.reset(3)
        policy.reset(0, 7)
        policy.act([0], [playthrough])
    assert noted[0][1].all() and noted[0][0][SPEC.mask].all()
    change(folder, env={})
    with pytest.raises(ValueError, match=r"has no key 'action_masks' .*: train anew"):
        TrainedPolicy(folder, "explore")


@pytest.mark.parametrize("avoid_traps", [False, True])
def test_it_keeps_off_traps_as_in_training(folder: Path, avoid_traps: bool) -> None:
    change(folder, env={"action_masks": True, "avoid_traps": avoid_traps})
    policy = TrainedPolicy(folder, "survive")
    noted = seen(policy)
    _, game = playing("...\n.@^\n...", COMPASS)
    policy.reset(0, 7)
    policy.act([0], [game])
    assert noted[0][1][COMPASS.index("east")] == (not avoid_traps)
    change(folder, env={"action_masks": True})
    with pytest.raises(ValueError, match=r"has no key 'avoid_traps' .*: train anew"):
        TrainedPolicy(folder, "survive")


def test_each_game_has_its_own_skill_and_a_new_game_the_first_one(folder: Path) -> None:
    policy = TrainedPolicy(folder, "combat")
    noted = seen(policy)
    with Game() as one, Game() as other:
        games = [Playthrough(one, COMPASS), Playthrough(other, COMPASS)]
        for slot, game in enumerate(games):
            game.reset(slot)
            policy.reset(slot, slot)
        policy.set_skill(1, "descend")
        policy.act([0, 1], games)
        policy.reset(1, 5)
        policy.act([1], games[1:])
    told = [SKILLS[int(obs[SPEC.skill].argmax())] for obs, _ in noted]
    assert told == ["combat", "descend", "combat"]


def test_a_game_is_played_alike_in_any_company_and_by_its_seed(folder: Path) -> None:
    def play(slots: list[int], seeds: dict[int, int]) -> dict[int, list[str]]:
        policy, dice = TrainedPolicy(folder, "explore"), random.Random(1)
        games = {slot: Playthrough(Game(), COMPASS) for slot in slots}
        for slot in slots:
            games[slot].reset(slot)
            policy.reset(slot, seeds[slot])
        played: dict[int, list[str]] = {slot: [] for slot in slots}
        for _ in range(25):
            dice.shuffle(slots)
            for slot, action in zip(slots, policy.act(slots, [games[slot] for slot in slots]), strict=True):
                games[slot].step(action)
                played[slot].append(action)
        for game in games.values():
            game.game.close()
        return played

    together = play([0, 1, 2], {0: 5, 1: 6, 2: 7})
    assert play([1], {1: 6})[1] == together[1] != play([1], {1: 8})[1]


def test_other_versions_of_the_config_are_refused(folder: Path) -> None:
    def refused(words: str) -> None:
        with pytest.raises(ValueError, match=words):
            TrainedPolicy(folder, "explore")

    good = json.loads((folder / "config.json").read_text())
    change(folder, observation=None)
    refused(r"config\.json does not say what the policy observes \(key observation\): train anew")
    change(folder, observation={"kind": "rich", "parts": ["paths"]})
    refused(rf"its observation has \d+ numbers .* where the network takes {SPEC.size} .*: train anew")
    write(folder, good)
    change(folder, network={name: value for name, value in good["network"].items() if name != "skill_offset"})
    refused(r"network must have the keys .*skill_offset.*: an older version wrote it, train anew")
