"""task_greedy: one step of look-ahead with the task's own reward, the baseline that learned policies must beat."""

from collections.abc import Sequence

from nethack_pipe import seeds
from nethack_pipe.game.branching import branch
from nethack_pipe.game.game import Step
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import Skill

# In the order in which ties are broken at last.
CANDIDATES = (
    "north", "south", "east", "west", "northeast", "northwest", "southeast", "southwest",
    "wait", "search", "pickup", "up", "down",
)  # fmt: skip


class TaskGreedy:
    """Branches the game once per candidate action and plays the one whose outcome the task rewards most.

    Ties are broken by fewest visits to the tile where the action ends, then by the order of `CANDIDATES`.

    Args:
        fair: False looks at what the game's own dice will do; True re-draws the dice in every branch.
    """

    def __init__(self, task: Skill, weights: RewardWeights, fair: bool = False) -> None:
        self.task, self.weights, self.fair = task, weights, fair
        self._seed: dict[int, int] = {}

    def reset(self, slot: int, seed: int) -> None:
        self._seed[slot] = seed

    def act(self, slots: Sequence[int], games: Sequence[Playthrough]) -> list[str]:
        return [self._choose(slot, game) for slot, game in zip(slots, games, strict=True)]

    def _choose(self, slot: int, game: Playthrough) -> str:
        legal = set(game.legal)
        # A bump costs no more than it shows: all four (or eight) steps are tried, legal or not.
        candidates = [
            name
            for name in CANDIDATES
            if name in game.actions and (name in legal or name not in ("pickup", "up", "down"))
        ]
        outcomes = self._look_ahead(slot, game, candidates)
        best, best_key = candidates[0], None
        for order, (name, step) in enumerate(zip(candidates, outcomes, strict=True)):
            memory = game.memory.copy()
            scene = memory.update(step, name)
            gain = rewards.reward(self.task, game.scene, name, scene, self.weights)
            key = (gain, -int(memory.level.visits.flat[scene.cell]), -order)
            if best_key is None or key > best_key:
                best, best_key = name, key
        return best

    def _look_ahead(self, slot: int, game: Playthrough, candidates: list[str]) -> list[Step]:
        if not self.fair:
            return game.game.probe(candidates)
        dice = seeds.integer(self._seed[slot], "task_greedy_fair", len(game.game.actions))
        return [samples[0][0] for samples in branch(game.game, candidates, samples=1, seed=dice)]
