r"""The words between the game and a language model: a prompt for (state, action), and the change that the action made.

A prompt ends at ``=>``; the answer reads
``pos:(-1,0) | hp:same | gold:+3 | depth:same | alive:yes | explored:+4 | msg:You kill the newt!``
"""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nethack_pipe.game.actions import DIRECTIONS
from nethack_pipe.game.game import Step
from nethack_pipe.perception.glyphs import TILE_SYMBOLS, Tile
from nethack_pipe.perception.scene import Scene

SHORT = {
    "north": "n", "south": "s", "east": "e", "west": "w",
    "northeast": "ne", "northwest": "nw", "southeast": "se", "southwest": "sw",
}  # fmt: skip
SOLID = "|0T?"  # what a step cannot enter, as far as the symbol alone tells: wall, boulder, obstacle, unknown
VIEW_HEIGHT, VIEW_WIDTH = 5, 7
MESSAGE_CHARACTERS = 80

_PRINTABLE = re.compile(r"[^ -~]+")


@dataclass(frozen=True, slots=True)
class Delta:
    """What changed in one step: dx, dy (east, south) and explored in tiles; hp, gold and depth as differences."""

    dx: int = 0
    dy: int = 0
    hp: int = 0
    gold: int = 0
    depth: int = 0
    alive: bool = True
    explored: int = 0
    message: str = ""


def clean(text: str) -> str:
    """Game text as one line of printable ASCII, at most 80 characters."""
    return " ".join(_PRINTABLE.sub(" ", text).split())[:MESSAGE_CHARACTERS].rstrip()


def state_text(scene: Scene, step: Step) -> str:
    """Everything of a prompt that does not depend on the action: memory, status, message, map, neighbours."""
    rows = _view(step.observation["chars"], scene.y, scene.x)
    around = " ".join(
        f"{SHORT[name]}={TILE_SYMBOLS[tile]}" for name, tile in zip(DIRECTIONS, scene.adjacent.tolist(), strict=True)
    )
    on = TILE_SYMBOLS[Tile.ITEM] if scene.item_here else TILE_SYMBOLS[scene.ground]
    return (
        f"seen:{scene.explored} rooms:{scene.rooms} depth:{scene.depth} turn:{scene.turn}\n"
        f"hp:{scene.hp}/{scene.max_hp} ac:{scene.ac} gold:{scene.gold} hunger:{scene.hunger}\n"
        f"msg:{clean(scene.text)}\n" + "\n".join(rows) + f"\nadj: {around} on={on}\n"
    )


def _view(chars: np.ndarray, y: int, x: int) -> list[str]:
    """The (5, 7) map around the hero as strings, blank beyond the map's edge."""
    half_y, half_x = VIEW_HEIGHT // 2, VIEW_WIDTH // 2
    window = np.full((VIEW_HEIGHT, VIEW_WIDTH), ord(" "), dtype=np.uint8)
    top, left = max(y - half_y, 0), max(x - half_x, 0)
    part = chars[top : y + half_y + 1, left : x + half_x + 1]
    window[top - y + half_y :, left - x + half_x :][: part.shape[0], : part.shape[1]] = part
    return [bytes(row).decode("latin-1") for row in window]


def prompt(state: str, action: str) -> str:
    """The whole prompt for `action` (``"north"``, ``"kick:east"`` ...) in the state that `state_text` described."""
    name, _, target = action.partition(":")
    on = state.rstrip("\n")[-1]
    direction = name if name in SHORT else target if target in SHORT else None
    tile = neighbour(state, direction) if direction else on
    verb = SHORT[name] if name in SHORT else f"{name} {SHORT.get(target, target)}".rstrip()
    return f"{state}act: {verb} tile={tile} from={on}\n=>"


def neighbour(state: str, direction: str) -> str:
    """The symbol of the tile next to the hero, read from a state text."""
    found = re.search(rf"^adj: .*?\b{SHORT[direction]}=(.)", state, re.MULTILINE)
    if found is None:
        raise ValueError(f"no 'adj:' line with {SHORT[direction]}= in state text {state!r}")
    return found.group(1)


def delta(before: Scene, after: Scene) -> Delta:
    """The change from one scene to the next. When the hero died the last living moment counts."""
    same_level = before.level == after.level
    return Delta(
        dx=after.x - before.x,
        dy=after.y - before.y,
        hp=after.hp - before.hp,
        gold=after.gold - before.gold,
        depth=after.depth - before.depth,
        alive=after.alive,
        explored=after.explored - before.explored if same_level else after.new_tiles,
        message=clean(after.text),
    )


def target(change: Delta) -> str:
    """The answer text of a change; `parse` reads it back."""

    def signed(value: int) -> str:
        return f"{value:+d}" if value else "same"

    return (
        f"pos:({change.dx},{change.dy}) | hp:{signed(change.hp)} | gold:{signed(change.gold)}"
        f" | depth:{signed(change.depth)} | alive:{'yes' if change.alive else 'no'}"
        f" | explored:{signed(change.explored)} | msg:{change.message}"
    )


_NUMBER = r"(same|[+-][0-9]{1,9})"
_TARGET = re.compile(
    rf"pos:\((-?[0-9]{{1,2}}),(-?[0-9]{{1,2}})\) \| hp:{_NUMBER} \| gold:{_NUMBER} \| depth:{_NUMBER}"
    rf" \| alive:(yes|no) \| explored:{_NUMBER} \| msg:(.*)"
)


def parse(answer: str) -> Delta | None:
    """Reads an answer; None when it is not one."""
    found = _TARGET.fullmatch(answer.strip())
    if found is None:
        return None
    dx, dy, hp, gold, depth, alive, explored, message = found.groups()

    def number(word: str) -> int:
        return 0 if word == "same" else int(word)

    return Delta(
        int(dx), int(dy), number(hp), number(gold), number(depth), alive == "yes", number(explored), message.strip()
    )


Baseline = Literal["nothing_changes", "move_succeeds"]


def baseline(kind: Baseline, state: str, action: str) -> Delta:
    """What a rule without learning predicts: nothing changes, or a step succeeds unless something solid is there."""
    if kind == "move_succeeds" and action in DIRECTIONS and neighbour(state, action) not in SOLID:
        dy, dx = DIRECTIONS[action]
        return Delta(dx=dx, dy=dy)
    return Delta()
