"""Games played key by key on NLE as it is, and branches of them: what a savestate leads to must be what a replay does.

Everything is drawn from a plan's seed, so two processes play the same games without telling each other.
"""

import hashlib
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from nle import nethack

from nethack_pipe.game.game import nethack_seeds
from nethack_pipe.game.internals import Internals
from nethack_pipe.game.savestate.saver import Saver, SaveState

ESC, ENTER, SPACE, QUIT = "\x1b", "\r", " ", "\xf1"
MOVES = "hjklyubn"
# Commands, their answers, and what begins prompts, menus, texts and choices of a place.
KEYS = MOVES + "ssss..,,::iiddeeqqrrwWTPRtfzxaoc<>QECSO#N;/?_\\^()[]$+*`\x04\x0f\x10\x17\x18" + "abcdfgjm-@123456789"
KEYS += "yynn" + SPACE * 4 + ESC * 3 + ENTER * 2
_LEAVE = ESC * 3
_ACTIONS = tuple(int(action) for action in nethack.ACTIONS)


@dataclass(frozen=True)
class Plan:
    """A game and how it is branched.

    Attributes:
        role: as NLE's `character`.
        lgen: levels have a seed of their own.
        env: id of a Gymnasium environment; empty for a bare Nethack.
        limits: steps after which TimeLimit and NLE itself end an environment's episode.
        keys: how long the main line is.
        points: moments of it that are branched.
    """

    seed: int
    role: str = "mon-hum-neu-mal"
    wizard: bool = False
    lgen: bool = True
    env: str = ""
    limits: tuple[int, int] = (90, 5000)
    keys: int = 110
    points: int = 30

    def __str__(self) -> str:
        return "-".join((self.env or self.role, *("wizard",) * self.wizard, *("lgen",) * self.lgen, str(self.seed)))


DIGGER = "arc-dwa-law-mal"


@dataclass(frozen=True)
class Branch:
    depth: int  # after so many keys of the main line
    keys: Sequence[int]
    reseed: int | None = None


def main_line(plan: Plan) -> list[int]:
    return _many_keys(plan, random.Random(plan.seed), plan.keys)


def branches(plan: Plan) -> Iterator[Branch]:
    """In the order of their depths."""
    draw = random.Random(-1 - plan.seed)
    for depth in sorted(draw.sample(range(plan.keys), plan.points)):
        yield Branch(depth, _codes(plan, draw.choice(MOVES)))
        yield Branch(depth, _many_keys(plan, draw, draw.choice((2, 5, 10, 20, 40, 80))))
        reseed = draw.randrange(1 << 30) if plan.lgen and not plan.env else None
        yield Branch(depth, _some_keys(plan, draw, 12), reseed)
        if draw.random() < 0.3:
            yield Branch(depth, _codes(plan, _LEAVE + _ending(draw)))


def _many_keys(plan: Plan, draw: random.Random, count: int) -> list[int]:
    keys: list[int] = []
    while len(keys) < count:
        keys += _some_keys(plan, draw, 8)
    return keys[:count]


def _some_keys(plan: Plan, draw: random.Random, count: int) -> list[int]:
    if plan.env:
        return [draw.choice((*_codes(plan, MOVES), draw.randrange(len(_ACTIONS)))) for _ in range(count)]
    kind = draw.random()
    if kind < 0.4:
        text = _LEAVE + "".join(draw.choices(MOVES, k=count))
    elif kind < 0.6 and plan.wizard:
        level = draw.choice((1, 2, 3, 4, 6, 11, 16))
        text = f"{_LEAVE}\x16{level}{ENTER}" + "".join(draw.choices(MOVES, k=3))
    elif kind < 0.7 and plan.wizard:
        text = _LEAVE + draw.choice(("\x06", "\x07gnome\r", "\x17blessed bag of holding\r", "\x09", "\x14"))
    elif kind < 0.7 and plan.role == DIGGER:
        text = f"{_LEAVE}ae>{SPACE * 3}ae>"
    elif kind < 0.75:
        text = f"{_LEAVE}?{draw.choice('bcdghil')}{SPACE * 3}"  # texts that are read page by page
    else:
        text = "".join(draw.choices(KEYS, k=count))
    return _codes(plan, text)


def _ending(draw: random.Random) -> str:
    """Quit, or sleep until something kills."""
    asleep = f"20000sy{ESC}{SPACE}"
    return draw.choice((f"{QUIT}y{SPACE * 12}", asleep * 10 + SPACE * 12))


def _codes(plan: Plan, text: str) -> list[int]:
    codes = [ord(key) for key in text]
    return [_ACTIONS.index(code) for code in codes if code in _ACTIONS] if plan.env else codes


class KeyGame:
    """A Nethack with all of NLE's observation keys, at the hero's first command."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pressed = 0
        self.game: Any = self._make()  # what a Saver takes
        core, disp, self._lgen = nethack_seeds(plan.seed)
        # Past the lock that NetHackChallenge puts on it.
        self._nethack._pynethack.set_initial_seeds(core, disp, False, self._lgen if plan.lgen else None)
        self._begin()
        Internals(self._nethack.dlpath)  # pins the birth time

    def press(self, key: int) -> None:
        self._nethack.step(key)

    def reseed(self, seed: int) -> None:
        core, disp = nethack_seeds(seed, 2)
        self._nethack.set_current_seeds(core, disp, False, self._lgen)

    @property
    def over(self) -> bool:
        return self._nethack._pynethack.done()

    @property
    def asks(self) -> bool:
        """In a question, a line of text, a menu or a --More--."""
        return bool(self._nethack._obs_buffers["internal"][1:4].any())

    @property
    def depth(self) -> int:
        return int(self._nethack._obs_buffers["blstats"][12])

    def follow(self, keys: Sequence[int]) -> str:
        """Press keys, to the last or to the end of the game; a hash of all that is seen after each."""
        sha = hashlib.sha256()
        for key in keys:
            if self.over:
                break
            self.press(key)
            self.pressed += 1
            for array in self._nethack._obs_buffers.values():
                sha.update(array.data)
            sha.update(repr(self._said()).encode())
        return sha.hexdigest()

    def take(self, branch: Branch) -> str:
        if branch.reseed is not None:
            self.reseed(branch.reseed)
        return self.follow(branch.keys)

    def close(self) -> None:
        self.game.close()

    def _make(self) -> nethack.Nethack:
        plan = self.plan
        self._nethack = nethack.Nethack(
            playername="Agent-" + plan.role, ttyrec=None, wizard=plan.wizard, fix_moon_phase=True
        )
        return self._nethack

    def _begin(self) -> None:
        self._nethack.reset()
        while not self._nethack._obs_buffers["program_state"][3]:  # in_moveloop
            self._nethack.step(ord(SPACE))

    def _said(self) -> tuple:
        return self.over, int(self._nethack.how_done()), self._nethack.in_normal_game()


class EnvironmentGame(KeyGame):
    """The same by a Gymnasium environment whose actions are the keys; with rewards, ends and information."""

    def press(self, key: int) -> None:
        _, reward, terminated, truncated, information = self.game.step(key)
        ended = int(information["end_status"]), information["is_ascended"]
        self._result = (reward, terminated, truncated, *ended)

    def _make(self) -> gymnasium.Env:
        plan = self.plan
        own = {} if plan.env == "NetHackChallenge-v0" else {"actions": nethack.ACTIONS, "wizard": plan.wizard}
        env: Any = gymnasium.make(
            plan.env,
            max_episode_steps=plan.limits[0],
            character=plan.role,
            observation_keys=tuple(nethack.OBSERVATION_DESC),
            fix_moon_phase=True,
            **own,
        )
        env.unwrapped._max_episode_steps = plan.limits[1]
        self._nethack = env.unwrapped.nethack
        return env

    def _begin(self) -> None:
        self.game.reset()

    def _said(self) -> tuple:
        return (*super()._said(), *self._result)


def start(plan: Plan) -> KeyGame:
    return EnvironmentGame(plan) if plan.env else KeyGame(plan)


@dataclass
class Branched:
    """What the branches of one game showed, by savestates.

    Attributes:
        main: hash of the main line, which went on after each branch.
        branches: a hash each; empty for those that would begin after the game's end.
        again: the first branch of each moment, by its index, once more after the main line, in a random order.
        asking, ended, changed_level: branches from within a prompt, to the game's end, to another level.
        steps: keys pressed in branches.
    """

    main: str
    branches: list[str]
    again: dict[int, str]
    asking: int = 0
    ended: int = 0
    changed_level: int = 0
    steps: int = 0


def branched(game: KeyGame) -> Branched:
    """Play the game of a plan with all its branches by savestates."""
    saver = Saver(game.game)
    keys, done = main_line(game.plan), 0
    result = Branched("", [], {})
    states: list[tuple[int, Branch, SaveState]] = []
    main = hashlib.sha256()
    for depth, group in itertools.groupby(branches(game.plan), key=lambda branch: branch.depth):
        for key in keys[done:depth]:
            main.update(game.follow([key]).encode())
        done = depth
        if game.over:
            result.branches += ["" for _ in group]
            continue
        state = saver.save()
        for number, branch in enumerate(group):
            if number == 0:
                states.append((len(result.branches), branch, state))
            result.asking += game.asks
            level, before = game.depth, game.pressed
            result.branches.append(game.take(branch))
            result.steps += game.pressed - before
            result.ended += game.over
            result.changed_level += not game.over and game.depth != level
            saver.load(state)
    for key in keys[done:]:
        main.update(game.follow([key]).encode())
    result.main = main.hexdigest()
    random.Random(game.plan.seed).shuffle(states)
    for index, branch, state in states:
        saver.load(state)
        result.again[index] = game.take(branch)
    return result


def replayed(plan: Plan) -> tuple[str, list[str]]:
    """The same hashes of the main line and of the branches, each by a new game from its beginning."""
    main, digests = hashlib.sha256(), []
    game = start(plan)
    for key in main_line(plan):
        main.update(game.follow([key]).encode())
    game.close()
    for branch in branches(plan):
        game = start(plan)
        for key in main_line(plan)[: branch.depth]:
            if not game.over:
                game.press(key)
        digests.append("" if game.over else game.take(branch))
        game.close()
    return main.hexdigest(), digests
