"""n_step_greedy: several steps of look-ahead under re-drawn dice, the strongest controller that does not learn."""

from collections.abc import Sequence
from dataclasses import dataclass

from nethack_pipe import seeds
from nethack_pipe.game.game import Game
from nethack_pipe.policies.greedy import CANDIDATES
from nethack_pipe.policies.scripted import WallAvoidance
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import Skill

DISCOUNT = 0.99  # per step, as in training


@dataclass(frozen=True, slots=True)
class NStep:
    """How far it looks ahead.

    Attributes:
        horizon: steps per branch, the tried action included.
        samples: re-drawn random streams per action.
    """

    horizon: int = 8
    samples: int = 2


DEFAULT = NStep()


class NStepGreedy:
    """Plays the action whose branches have the best mean discounted return of the task's reward.

    Each legal action is followed by wall_avoidance. The random streams, the game's and the walker's, are the same for
    all actions of a moment (common random numbers), so that differences between actions vary less. Ties are broken by
    fewest visits to the tile where the action ends (under the first stream), then by the order of `CANDIDATES`.
    """

    def __init__(self, task: Skill, weights: RewardWeights, n_step: NStep = DEFAULT) -> None:
        self.task, self.weights, self.n_step = task, weights, n_step
        self._seed: dict[int, int] = {}

    def reset(self, slot: int, seed: int) -> None:
        self._seed[slot] = seed

    def act(self, slots: Sequence[int], games: Sequence[Playthrough]) -> list[str]:
        return [self._choose(slot, game) for slot, game in zip(slots, games, strict=True)]

    def _choose(self, slot: int, game: Playthrough) -> str:
        step = len(game.game.actions)
        streams = [
            seeds.integer(self._seed[slot], "n_step_greedy", step, sample) for sample in range(self.n_step.samples)
        ]
        legal = game.legal
        best, best_key = "", None
        for order, name in enumerate(name for name in CANDIDATES if name in legal):
            outcomes = [self._continue(game, name, dice) for dice in streams]
            mean = sum(value for value, _ in outcomes) / len(outcomes)
            key = (mean, -outcomes[0][1], -order)
            if best_key is None or key > best_key:
                best, best_key = name, key
        return best

    def _continue(self, game: Playthrough, action: str, dice: int) -> tuple[float, int]:
        """Discounted return of `action` and what follows it, and the visits to the tile where the action ends."""

        def play(branch: Game) -> tuple[float, int]:
            branch.reseed(dice)
            ahead = game.twin(branch, game.memory.copy())
            walker = WallAvoidance()
            walker.reset(0, dice)
            total, visits, name = 0.0, 0, action
            for step in range(self.n_step.horizon):
                before = ahead.scene
                if step:
                    name = walker.act([0], [ahead])[0]
                after = ahead.step(name)
                total += DISCOUNT**step * rewards.reward(self.task, before, name, after, self.weights)
                if not step:
                    visits = ahead.memory.level.visits.item(after.cell)
                if after.done:
                    break
            return total, visits

        return game.game.branch(play)
