"""Which numbers of an observation belong to which direction, for a network that judges all directions alike."""

from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.perception.memory import LATEST_ACTIONS
from nethack_pipe.perception.observation import CROP, CROP_PLANES, ObservationSpec
from nethack_pipe.policies.actor_critic import Directions

CLOCKWISE = ("north", "northeast", "east", "southeast", "south", "southwest", "west", "northwest")


def directions(spec: ObservationSpec, units: int) -> Directions:
    """The directions among the actions of `spec`, each with its own numbers of the observation, alike in their order.

    These are: the neighbour there and the monster on it, whether the step is legal and was one of the last actions,
    whether it comes nearer to each target of the paths, and the tiles of the planes that lie straight ahead.

    Args:
        spec: of a rich observation. ValueError for another, whose numbers are of four directions only.
        units: width of the layer that judges a direction.
    """
    if spec.kind != "rich":
        raise ValueError(f"directions: expected a rich observation, got a {spec.kind} one")
    names = [name for name in CLOCKWISE if name in spec.actions]
    return Directions(
        units, tuple(spec.actions.index(name) for name in names), tuple(_numbers(spec, name) for name in names)
    )


def _numbers(spec: ObservationSpec, name: str) -> tuple[int, ...]:
    place, action = list(DIRECTIONS).index(name), spec.actions.index(name)
    dy, dx = DIRECTIONS[name]
    ahead = [(CROP // 2 + steps * dy) * CROP + CROP // 2 + steps * dx for steps in range(1, CROP // 2 + 1)]
    within = {
        "neighbours": range(place * len(Tile), (place + 1) * len(Tile)),
        "mask": [action],
        "last_actions": [latest * len(spec.actions) + action for latest in range(LATEST_ACTIONS)],
        "monsters_adjacent": range(4 * place, 4 * place + 4),
        "recency": ahead,
        "visits": ahead,
        "crop": [plane * CROP * CROP + tile for plane in range(len(CROP_PLANES)) for tile in ahead],
    }
    numbers: list[int] = []
    for field in spec.fields:
        if field.name.startswith("path_"):
            numbers.append(field.start + field.size - len(DIRECTIONS) + place)
        else:
            numbers += [field.start + number for number in within.get(field.name, ())]
    return tuple(numbers)
