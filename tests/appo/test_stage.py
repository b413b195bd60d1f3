"""The section `appo`: what is refused, in which words. The values are those of the repository's params.yaml."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from nethack_pipe import params
from nethack_pipe.params import ParamError
from stages.appo import SAMPLE_FACTORY_OPTIONS, AppoParams

DEFAULTS = yaml.safe_load((Path(__file__).parents[2] / "params.yaml").read_text())["appo"]


def load(folder: Path, changes: dict[str, Any]) -> AppoParams:
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump({"appo": DEFAULTS | changes}))
    return params.load(path, {"appo": AppoParams})["appo"]


def test_the_defaults_are_accepted_and_every_option_is_one_of_sample_factorys(tmp_path: Path) -> None:
    from sample_factory.cfg.arguments import parse_sf_args

    values = load(tmp_path, {})
    _, known = parse_sf_args(["--env=x"])
    for name in SAMPLE_FACTORY_OPTIONS:
        assert hasattr(known, name) and hasattr(values, name)
    assert values.serial_mode and not values.async_rl


BATCH = {"num_workers": 2, "num_envs_per_worker": 4, "rollout": 16, "recurrence": 8}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gamma": 1.5}, "appo.gamma: expected a number greater than 0 and at most 1, got 1.5"),
        ({"gamma": 0}, "appo.gamma: expected a number greater than 0 and at most 1, got 0"),
        ({"batch_size": "abc"}, "appo.batch_size: expected an integer greater than 0, got 'abc'"),
        ({"train_for_env_steps": -1}, "appo.train_for_env_steps: expected an integer greater than 0, got -1"),
        ({"learning_rate": None}, "appo.learning_rate: expected a number greater than 0 and less than 1, got null"),
        ({"device": "tpu"}, "appo.device: expected one of 'cpu', 'gpu', got 'tpu'"),
        (
            {"rollout": 64, "recurrence": 5},
            "appo.recurrence: expected a divisor of rollout (64), got 5",
        ),
        (
            {"use_rnn": True, "recurrence": 1},
            "appo.recurrence: expected at least 2 to train a recurrent core (use_rnn), got 1",
        ),
        (
            {"observation_parts": ["paths", "smell"]},
            "appo.observation_parts[1]: expected one of 'paths', 'recency', 'monsters', 'crop', 'map', got 'smell'",
        ),
        (
            {"observation_parts": ["paths", "paths"]},
            "appo.observation_parts: expected each part once, got paths, paths",
        ),
        (
            {"observation": "reference", "observation_parts": ["paths"]},
            "appo.observation_parts: expected none where observation is reference, got paths",
        ),
        (
            {"observation": "reference", "observation_parts": [], "direction_units": 32},
            "appo.direction_units: expected 0 where observation is reference, got 32",
        ),
        (
            {"skill_shares": {"explore": 1.0, "survive": 1.0, "combat": 1.0, "resource": 1.0}},
            "appo.skill_shares: expected a number for each of enabled_skills, got none for descend",
        ),
        (
            {"skill_shares": dict.fromkeys(DEFAULTS["skill_shares"], 1.0) | {"combat": 0}},
            "appo.skill_shares.combat: expected a number greater than 0, got 0",
        ),
        (
            {"env_min_episode_steps": 301, "env_max_episode_steps": 300},
            "appo.env_min_episode_steps: expected at most env_max_episode_steps (300), got 301",
        ),
        ({"async_rl": True}, "appo.async_rl: expected false where serial_mode is true, got true"),
        (
            BATCH | {"batch_size": 104, "num_batches_per_epoch": 2},
            "appo.batch_size: expected 128 (num_workers x num_envs_per_worker x rollout) or a multiple of it when "
            "multiplied by num_batches_per_epoch (2); that is 64, 128, 192, ..., got 104",
        ),
        (BATCH | {"batch_size": 100}, "appo.batch_size: expected a multiple of recurrence (8), got 100"),
        (
            {
                "num_workers": 2,
                "num_envs_per_worker": 24,
                "env_min_episode_steps": 100,
                "env_max_episode_steps": 200,
                "segment_env_steps": 9599,
            },
            "appo.segment_env_steps: expected at least 9600 (num_workers x num_envs_per_worker x "
            "env_max_episode_steps), or no game is played to its end, got 9599",
        ),
        (
            {"enabled_skills": ["combat"], "active_skill_bootstrap": "explore"},
            "appo.active_skill_bootstrap: expected one of enabled_skills (combat), got 'explore'",
        ),
        (
            {"enabled_skills": ["explore", "explore"]},
            "appo.enabled_skills: expected each skill once, got explore, explore",
        ),
        (
            {"skill_scheduler": "rule_based", "moment_share": 0.25},
            "appo.moment_share: expected 0 unless skill_scheduler is per_episode, got 0.25",
        ),
        ({"moment_share": 1.5}, "appo.moment_share: expected a number at least 0 and at most 1, got 1.5"),
        (
            {"imitation_epochs": 5, "curriculum_env_steps": 1000},
            "appo.curriculum_env_steps: expected 0 where imitation_epochs is not 0 (it would replace what was "
            "imitated), got 1000",
        ),
        (
            {"imitation_epochs": 5, "curriculum_env_steps": 0, "action_masks": False, "avoid_traps": False},
            "appo.imitation_epochs: expected 0 where action_masks is false, got 5",
        ),
        (
            {"avoid_traps": True, "action_masks": False},
            "appo.avoid_traps: expected false where action_masks is false, got true",
        ),
        (
            {"train_for_env_steps": 768000, "curriculum_env_steps": 760000},  # 761,856 in whole iterations
            "appo.curriculum_env_steps: expected at least 9600 frames less than train_for_env_steps (768000), or no "
            "game of the other skills is played to its end, got 760000",
        ),
        (
            {"exploration_loss_coeff": 0.0, "final_exploration_loss_coeff": 0.001},
            "appo.final_exploration_loss_coeff: expected at most exploration_loss_coeff (0.0), got 0.001",
        ),
        ({"encoder_mlp_layers": [64, 0]}, "appo.encoder_mlp_layers: expected widths of at least 1, got [64, 0]"),
        (
            {"imitation_epochs": 0, "imitation_kl_coeff": 0.5},
            "appo.imitation_kl_coeff: expected 0 where imitation_epochs is 0, got 0.5",
        ),
        (
            {"imitation_epochs": 3, "curriculum_env_steps": 0, "use_rnn": True, "rollout": 64, "recurrence": 8},
            "appo.imitation_epochs: expected 0 where use_rnn is true (a labelled moment does not tell the state of a "
            "recurrent core), got 3",
        ),
        ({"imitation_kl_steps": 0}, "appo.imitation_kl_steps: expected an integer greater than 0, got 0"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_key(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ParamError) as error:
        load(tmp_path, changes)
    assert str(error.value) == f"params.yaml: {words}"


def test_batch_sizes_that_fit(tmp_path: Path) -> None:
    for batch_size, batches in ((64, 2), (128, 1), (128, 4), (192, 2)):
        assert load(tmp_path, BATCH | {"batch_size": batch_size, "num_batches_per_epoch": batches})
    assert load(tmp_path, BATCH | {"batch_size": 104, "serial_mode": False, "async_rl": True})
    assert load(tmp_path, BATCH | {"recurrence": 1, "use_rnn": False, "batch_size": 64, "num_batches_per_epoch": 2})
