"""The actor-critic network, and the policy that acts with it from its exported files: torch only, no Sample Factory.

The network is conditioned on the skill, which it reads off the one-hot in its observation: the skill scales and shifts
what the encoder sees (FiLM, Perez et al. 2018), and has a policy head and a value head of its own. Steps in all
directions may be judged by one layer that goes round the compass as a convolution does: what is learned of one
direction holds for all, and none of them is forgotten.

Training (`nethack_pipe.appo.model`) wraps this very network, so what was trained and what acts are one definition.
An exported policy is a folder with `policy.safetensors` (the network's weights) and `config.json` (`NetworkConfig`
under "network", beside what the policy was trained for).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

WEIGHTS_FILE = "policy.safetensors"
CONFIG_FILE = "config.json"
MASKED_LOGIT = -1e9  # its probability is exactly 0 in float32, its entropy term too, where -inf would give nan
_ACTIVATIONS = {"elu": nn.ELU, "relu": nn.ReLU, "tanh": nn.Tanh}


@dataclass(frozen=True)
class Directions:
    """What a network needs to judge steps in all directions by the same weights. All in clockwise order."""

    units: int  # width of the layer that does
    actions: tuple[int, ...]  # which of the actions these steps are; one of four or eight is opposite to each
    inputs: tuple[tuple[int, ...], ...]  # for each, the numbers of the observation that tell of it, alike in order


@dataclass(frozen=True)
class NetworkConfig:
    """The sizes that fix every weight's shape, by Sample Factory's names."""

    observation_size: int
    skill_offset: int  # where the skills' one-hot begins in the observation
    num_skills: int
    num_actions: int
    shared_encoder: bool  # False: one encoder per skill
    encoder_mlp_layers: tuple[int, ...]
    nonlinearity: str  # elu, relu or tanh
    use_rnn: bool
    rnn_type: str  # gru or lstm
    rnn_size: int
    directions: Directions | None = None  # None: a policy head's outputs for them are as any others

    @property
    def head_size(self) -> int:
        """Outputs of a skill's policy head."""
        return self.num_actions - (len(self.directions.actions) if self.directions else 0)

    @property
    def state_size(self) -> int:
        """Numbers of recurrent state per game; 1 (unused) without a recurrent core, as in Sample Factory."""
        if not self.use_rnn:
            return 1
        return self.rnn_size * (2 if self.rnn_type == "lstm" else 1)


class ActorCriticNetwork(nn.Module):
    """MLP encoder, recurrent core or none, and for each skill one linear head for the policy and one for the value."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.encoders = nn.ModuleList(
            _Encoder(config) for _ in range(1 if config.shared_encoder else config.num_skills)
        )
        size = config.encoder_mlp_layers[-1]
        self.rnn: nn.GRU | nn.LSTM | None = None
        if config.use_rnn:
            self.rnn = {"gru": nn.GRU, "lstm": nn.LSTM}[config.rnn_type](size, config.rnn_size)
            size = config.rnn_size
        self.policy_heads = nn.Linear(size, config.num_skills * config.head_size)
        self.value_heads = nn.Linear(size, config.num_skills)
        self.directions = _DirectionHeads(config, config.directions, size) if config.directions else None

    def skills(self, obs: Tensor) -> Tensor:
        """The skill of each observation (B, D): its index (B,) int64."""
        start = self.config.skill_offset
        return obs[:, start : start + self.config.num_skills].argmax(dim=1)

    def encode(self, obs: Tensor, skills: Tensor) -> Tensor:
        """Features (B, F) of observations (B, D)."""
        if len(self.encoders) == 1:
            return self.encoders[0](obs, skills)
        features = obs.new_empty(len(obs), self.config.encoder_mlp_layers[-1])
        for skill, encoder in enumerate(self.encoders):
            rows = (skills == skill).nonzero().squeeze(1)
            if len(rows):
                features = features.index_copy(0, rows, encoder(obs[rows], skills[rows]))
        return features

    def core(self, features: Tensor | PackedSequence, state: Tensor) -> tuple[Any, Tensor]:
        """One step of a batch (features (B, F)) or whole sequences (packed) from `state` (B, state_size).

        Returns the core's outputs in the same form, and the new state.
        """
        if self.rnn is None:
            return features, state
        inputs = features if isinstance(features, PackedSequence) else features.unsqueeze(0)
        if isinstance(self.rnn, nn.LSTM):
            hidden, cell = state.unsqueeze(0).split(self.config.rnn_size, dim=2)
            outputs, (hidden, cell) = self.rnn(inputs, (hidden.contiguous(), cell.contiguous()))
            new_state = torch.cat((hidden, cell), dim=2)
        else:
            outputs, new_state = self.rnn(inputs, state.unsqueeze(0).contiguous())
        if not isinstance(features, PackedSequence):
            outputs = outputs.squeeze(0)
        return outputs, new_state.squeeze(0)

    def masked_logits(self, core_output: Tensor, obs: Tensor, skills: Tensor, mask: Tensor) -> Tensor:
        """Logits (B, A) of the skills' own heads, from the core's outputs for the observations `obs` (B, D).

        Actions that `mask` (B, A; 1 allowed, 0 forbidden) forbids have no probability in them.
        """
        heads = self.policy_heads(core_output).view(-1, self.config.num_skills, self.config.head_size)
        logits = heads.gather(1, skills[:, None, None].expand(-1, 1, self.config.head_size)).squeeze(1)
        if self.directions is not None:
            logits = self.directions(logits, core_output, obs, skills)
        return logits.masked_fill(mask < 0.5, MASKED_LOGIT)

    def values(self, core_output: Tensor, skills: Tensor) -> Tensor:
        """State values (B,) of the skills' own heads, in the scaled rewards of training."""
        return self.value_heads(core_output).gather(1, skills[:, None]).squeeze(1)


def spread(tensors: Mapping[str, Tensor], config: NetworkConfig, skill: int) -> None:
    """Give all skills what `skill` has of its own, in place: its policy head, its modulation (or encoder) and what its
    one-hot adds in the first layer. Values stay: what a state is worth is another question for every skill.

    `tensors` are the network's parameters by name, or anything else of these shapes (an optimizer's moments, of which
    encoders that were never used have none).
    """
    first = config.skill_offset
    for name, tensor in tensors.items():
        if name.startswith("policy_heads."):
            heads = tensor.view(config.num_skills, config.head_size, -1)
            heads.copy_(heads[skill].clone().expand_as(heads))
        elif name.startswith("encoders.") and not config.shared_encoder:
            _, _, rest = name.split(".", 2)
            tensor.copy_(tensors[f"encoders.{skill}.{rest}"].clone())
    for name, tensor in tensors.items():
        if name.endswith(".skill_factors") or name.startswith("directions.scores."):
            tensor.copy_(tensor[skill].clone().expand_as(tensor))
        elif name.endswith(".first.weight"):
            columns = tensor[:, first : first + config.num_skills]
            columns.copy_(columns[:, skill : skill + 1].clone().expand_as(columns))


class _Encoder(nn.Module):
    """Fully connected layers; the skill scales what the first one sees (its own inputs, the one-hot, shift it)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        widths = config.encoder_mlp_layers
        self.first = nn.Linear(config.observation_size, widths[0])
        self.skill_factors = nn.Parameter(torch.ones(config.num_skills, widths[0]))
        layers: list[nn.Module] = [_ACTIVATIONS[config.nonlinearity]()]
        for size, width in zip(widths, widths[1:], strict=False):
            layers += [nn.Linear(size, width), _ACTIVATIONS[config.nonlinearity]()]
        self.rest = nn.Sequential(*layers)

    def forward(self, obs: Tensor, skills: Tensor) -> Tensor:
        return self.rest(self.first(obs) * self.skill_factors[skills])


class _DirectionHeads(nn.Module):
    """Logits of the steps in all directions: a layer that sees what tells of a direction, of both beside it and of the
    one behind, and the core's outputs; then a linear head for each skill. The weights are the same for all directions.
    """

    _inputs: Tensor
    _places: Tensor
    _is_slanted: Tensor

    def __init__(self, config: NetworkConfig, directions: Directions, core_size: int) -> None:
        super().__init__()
        self._units, self._count = directions.units, len(directions.actions)
        self.around = nn.Linear(len(directions.inputs[0]), 4 * directions.units, bias=False)
        self.core = nn.Linear(core_size, directions.units)
        self.slanted = nn.Parameter(torch.zeros(directions.units))  # of every second of eight
        self.activation = _ACTIVATIONS[config.nonlinearity]()
        self.scores = nn.Linear(directions.units, config.num_skills)
        others = [action for action in range(config.num_actions) if action not in directions.actions]
        places = torch.tensor([*others, *directions.actions]).argsort()
        is_slanted = torch.arange(self._count)[:, None] % 2 * (self._count == 8)
        for name, tensor in (
            ("_inputs", torch.tensor(directions.inputs).flatten()),
            ("_places", places),
            ("_is_slanted", is_slanted.float()),
        ):
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, others: Tensor, core_output: Tensor, obs: Tensor, skills: Tensor) -> Tensor:
        """Logits (B, A), those of the `others` (B, A - directions) among them."""
        seen = obs.index_select(1, self._inputs).view(len(obs) * self._count, -1)
        ahead, left, right, behind = self.around(seen).view(len(obs), self._count, -1).split(self._units, dim=2)
        hidden = ahead + left.roll(1, 1) + right.roll(-1, 1) + behind.roll(self._count // 2, 1)
        hidden = hidden + self.core(core_output)[:, None] + self._is_slanted * self.slanted
        scores = self.scores(self.activation(hidden).view(-1, self._units)).view(len(obs), self._count, -1)
        own = scores.gather(2, skills[:, None, None].expand(-1, self._count, 1)).squeeze(2)
        return torch.cat((others, own), dim=1).index_select(1, self._places)


class ActorCriticPolicy:
    """Acts for many games at once, each with its own recurrent state and its own random stream."""

    def __init__(self, network: ActorCriticNetwork, config: dict[str, Any]) -> None:
        self.network = network.eval()
        self.config = config
        self.actions: tuple[str, ...] = tuple(config["actions"])

    @classmethod
    def load(cls, folder: Path) -> "ActorCriticPolicy":
        """The policy exported to `folder`.

        Raises ValueError when another version wrote it, or when its weights are not those of its config.
        """
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        sizes = config["network"]
        names = {field.name for field in fields(NetworkConfig)}
        if sizes.keys() != names:
            raise ValueError(
                f"{folder / CONFIG_FILE}: network must have the keys {', '.join(sorted(names))}, got "
                f"{', '.join(sorted(sizes))}: an older version wrote it, train anew"
            )
        network = ActorCriticNetwork(_network_config(sizes))
        try:
            network.load_state_dict(load_file(folder / WEIGHTS_FILE))
        except RuntimeError as error:
            raise ValueError(f"{folder / WEIGHTS_FILE} does not hold the network of {CONFIG_FILE}: {error}") from None
        return cls(network, config)

    def initial_state(self, num_games: int) -> Tensor:
        """Recurrent states (num_games, state_size) float32 of games that begin."""
        return torch.zeros(num_games, self.network.config.state_size)

    @torch.no_grad()
    def logits(self, obs: Tensor, mask: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of B games: obs (B, D) float32, mask (B, A), state (B, state_size) -> masked logits (B, A), state.

        Each game goes through the network by itself: the rounding of a matrix product depends on how many rows it has,
        and a game must be the same game in any company.
        """
        rows = [self._logits(*row) for row in zip(obs.split(1), mask.split(1), state.split(1), strict=True)]
        logits, states = zip(*rows, strict=True)
        return torch.cat(logits), torch.cat(states)

    def _logits(self, obs: Tensor, mask: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        skills = self.network.skills(obs)
        core_output, new_state = self.network.core(self.network.encode(obs, skills), state)
        return self.network.masked_logits(core_output, obs, skills, mask), new_state

    @staticmethod
    def generator(seed: int) -> torch.Generator:
        """The random stream of one game, for `sample`."""
        return torch.Generator().manual_seed(seed)

    @staticmethod
    def sample(logits: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """One action a game (B,) int64: row i of `logits` (B, A) is drawn from with generators[i] only."""
        probabilities = torch.softmax(logits, dim=-1)
        draws = [torch.multinomial(row, 1, generator=g) for row, g in zip(probabilities, generators, strict=True)]
        return torch.cat(draws)

    @staticmethod
    def argmax(logits: Tensor) -> Tensor:
        """The likeliest action of each game (B,) int64."""
        return logits.argmax(dim=-1)


def _network_config(sizes: dict[str, Any]) -> NetworkConfig:
    """From its fields as JSON has them."""
    directions = sizes["directions"]
    if directions is not None:
        inputs = tuple(tuple(numbers) for numbers in directions["inputs"])
        directions = Directions(directions["units"], tuple(directions["actions"]), inputs)
    layers = tuple(sizes["encoder_mlp_layers"])
    return NetworkConfig(**{**sizes, "encoder_mlp_layers": layers, "directions": directions})
