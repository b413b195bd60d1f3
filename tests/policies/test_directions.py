"""A network that judges all directions alike does so whichever way the world is turned."""

import numpy as np
import pytest
import torch

from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS
from nethack_pipe.perception.observation import PARTS, ObservationSpec
from nethack_pipe.policies.actor_critic import ActorCriticNetwork, NetworkConfig
from nethack_pipe.policies.directions import CLOCKWISE, directions

COMPASS = ACTION_SETS["compass_pray"]


def quarter_turn(name: str) -> str:
    """Where `name` points to after a quarter turn to the right."""
    return CLOCKWISE[(CLOCKWISE.index(name) + 2) % 8]


def turned(spec: ObservationSpec, obs: np.ndarray) -> np.ndarray:
    """`obs` (D,) in a world turned to the right by a quarter, but for what no direction has as its own."""
    around = [list(DIRECTIONS).index(quarter_turn(name)) for name in DIRECTIONS]
    steps = [spec.actions.index(quarter_turn(name) if name in DIRECTIONS else name) for name in spec.actions]
    result = obs.copy()
    for field in spec.fields:
        numbers = obs[field.start : field.start + field.size].reshape(field.shape)
        new = numbers.copy()
        if field.name in ("neighbours", "monsters_adjacent"):
            new[around] = numbers
        elif field.name in ("mask", "last_actions"):
            new[..., steps] = numbers
        elif field.name.startswith("path_"):
            new[[3 + place for place in around]] = numbers[3:]
        elif field.name in ("recency", "visits", "crop"):
            new = np.rot90(numbers, -1, axes=(-2, -1))
        result[field.start : field.start + field.size] = new.ravel()
    return result


def network(spec: ObservationSpec) -> ActorCriticNetwork:
    """Of random weights, and blind but for what it sees of the directions."""
    torch.manual_seed(0)
    config = NetworkConfig(
        spec.size, spec.skill.start, 5, len(spec.actions), True, (16,), "elu", False, "gru", 8, directions(spec, 12)
    )
    made = ActorCriticNetwork(config)
    with torch.no_grad():
        made.directions.slanted.normal_()
        made.directions.core.weight.zero_()
    return made


@pytest.mark.parametrize("actions", ["compass", "compass_pray", "reference"])
def test_a_turned_world_turns_the_policy(actions: str) -> None:
    spec = ObservationSpec("rich", PARTS, ACTION_SETS[actions])
    judged = [name for name in spec.actions if name in DIRECTIONS]
    obs = np.random.default_rng(1).random(spec.size, dtype=np.float32)
    of = network(spec)
    skills, mask = torch.tensor([3]), torch.ones(1, len(spec.actions))

    def logits(obs: np.ndarray) -> dict[str, float]:
        seen = torch.from_numpy(obs)[None]
        return dict(
            zip(spec.actions, of.masked_logits(of.encode(seen, skills), seen, skills, mask)[0].tolist(), strict=True)
        )

    for _ in range(4):
        before, obs = logits(obs), turned(spec, obs)
        after = logits(obs)
        assert {quarter_turn(name): pytest.approx(before[name], abs=1e-5) for name in judged}.items() <= after.items()
        assert len({round(before[name], 4) for name in judged}) == len(judged)


def test_every_number_of_a_direction_is_a_number_of_no_other() -> None:
    of = directions(ObservationSpec("rich", PARTS, COMPASS), 12)
    assert [COMPASS[action] for action in of.actions] == list(CLOCKWISE)
    assert len({len(numbers) for numbers in of.inputs}) == 1
    assert len({number for numbers in of.inputs for number in numbers}) == 8 * len(of.inputs[0])


def test_what_counts_is_ahead_beside_and_behind() -> None:
    spec = ObservationSpec("rich", ("paths",), COMPASS)
    of = network(spec)
    obs = torch.zeros(1, spec.size, requires_grad=True)
    skills = torch.tensor([0])
    logits = of.masked_logits(of.encode(obs, skills), obs, skills, torch.ones(1, len(COMPASS)))
    for place, name in enumerate(CLOCKWISE):
        (slope,) = torch.autograd.grad(logits[0, COMPASS.index(name)], obs, retain_graph=True)
        told = [other for other, numbers in enumerate(of.config.directions.inputs) if slope[0, list(numbers)].any()]
        assert told == sorted((place + turn) % 8 for turn in (-1, 0, 1, 4))


def test_a_direction_is_judged_by_the_rest_that_is_seen_too() -> None:
    spec = ObservationSpec("rich", ("paths",), COMPASS)
    of = network(spec)
    with torch.no_grad():
        of.directions.core.weight.normal_()
    obs, skills = torch.zeros(2, spec.size), torch.tensor([0, 0])
    obs[1, spec.where("hp")] = 1
    logits = of.masked_logits(of.encode(obs, skills), obs, skills, torch.ones(2, len(COMPASS)))
    changes = (logits[1] - logits[0])[list(of.config.directions.actions)]
    assert (changes.abs() > 1e-3).all()
    assert torch.allclose(changes[::2], changes[:1], atol=1e-5) and torch.allclose(
        changes[1::2], changes[1:2], atol=1e-5
    )


def test_tiles_straight_ahead_are_those_up_to_the_edge_of_the_planes() -> None:
    spec = ObservationSpec("rich", ("recency",), COMPASS)
    of = directions(spec, 12)
    for place, name in enumerate(CLOCKWISE):
        dy, dx = DIRECTIONS[name]
        for field in ("recency", "visits"):
            start = spec.where(field).start
            ahead = [number - start for number in of.inputs[place] if 0 <= number - start < 81]
            assert [divmod(tile, 9) for tile in ahead] == [(4 + i * dy, 4 + i * dx) for i in (1, 2, 3, 4)]


def test_slanted_steps_are_told_from_straight_ones_where_there_are_any() -> None:
    for actions, slanted in (("compass", CLOCKWISE[1::2]), ("reference", ())):
        spec = ObservationSpec("rich", ("paths",), ACTION_SETS[actions])
        of = network(spec)
        obs, skills = torch.zeros(1, spec.size), torch.tensor([0])
        logits = of.masked_logits(of.encode(obs, skills), obs, skills, torch.ones(1, len(spec.actions)))[0].tolist()
        steps = {name: logits[spec.actions.index(name)] for name in CLOCKWISE if name in spec.actions}
        assert {name for name, logit in steps.items() if logit != pytest.approx(steps["north"])} == set(slanted)


def test_only_a_rich_observation_tells_of_all_directions() -> None:
    with pytest.raises(ValueError, match="expected a rich observation, got a reference one"):
        directions(ObservationSpec("reference", (), COMPASS), 12)
