"""task_greedy: one step of look-ahead with the task's own reward, the baseline that learned policies must beat."""

from collections.abc import Sequence

from nethack_pipe import seeds
from nethack_pipe.game.game import Game, Step
from nethack_pipe.tasks import rewards
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.rewards import RewardWeights
from nethack_pipe.tasks.skills import Skill

# In the order in which ties are broken at last.
CANDIDATES = (
    "north", "south", "east", "west", "northeast", "northwest", "southeast", "southwest",
    "wait", "search", "pickup", "up", "down", "pray",
)  # fmt: skip
_ONLY_IF_LEGAL = frozenset(("pickup", "up", "down", "pray"))


def candidates(game: Playthrough) -> list[str]:
    """What is tried now, of `CANDIDATES`. A bump costs no more than it shows: steps are tried whether legal or not."""
    legal = game.legal
    return [name for name in CANDIDATES if name in game.actions and (name in legal or name not in _ONLY_IF_LEGAL)]


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
        names = candidates(game)
        if not self.fair:
            return self._best(game, names, game.game.probe(names))
        dice = seeds.integer(self._seed[slot], "task_greedy_fair", len(game.game.actions))

        def look_ahead(redrawn: Game) -> str:
            redrawn.reseed(dice)
            return self._best(game, names, redrawn.probe(names))

        # The choice is made inside the branch: what comes out of one is copied, and outcomes are large.
        return game.game.branch(look_ahead)

    def _best(self, game: Playthrough, names: list[str], outcomes: list[Step]) -> str:
        best, best_key = names[0], None
        for order, (name, step) in enumerate(zip(names, outcomes, strict=True)):
            memory = game.memory.copy()
            scene = memory.update(step, name)
            gain = rewards.reward(self.task, game.scene, name, scene, self.weights)
            key = (gain, -memory.level.visits.item(scene.cell), -order)
            if best_key is None or key > best_key:
                best, best_key = name, key
        return best
