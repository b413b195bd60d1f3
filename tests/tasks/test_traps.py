"""Which traps are known, and who keeps off them."""

import re
from collections import Counter

import pytest

from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS, KEYS
from nethack_pipe.game.game import Game, _text
from nethack_pipe.perception.glyphs import HURTING_TRAPS, Tile
from nethack_pipe.perception.scene import WIDTH
from nethack_pipe.policies.scripted import Frontier
from nethack_pipe.tasks.env import EnvConfig, SkillEnv
from nethack_pipe.tasks.playthrough import Playthrough
from nethack_pipe.tasks.skills import SKILLS, SkillMask
from tests.helpers.scenes import GLYPHS, Story, at, cmap, playing

COMPASS = ACTION_SETS["compass"]
IN_VIEW = (29, 47, 122, 205, 240, 254)  # games in which the script comes past traps early on
MONSTERS = (Tile.PET, Tile.PEACEFUL, Tile.HOSTILE)
# NetHack's answer to "^" and a direction.
THAT_IS = re.compile(r"That is an? (.+?)\.")


def tiles_around(playthrough: Playthrough) -> dict[str, int]:
    return {name: playthrough.scene.cell + dy * WIDTH + dx for name, (dy, dx) in DIRECTIONS.items()}


def asked(game: Game, direction: str) -> str:
    """The trap that NetHack's own command says is in `direction`, or ""."""

    def ask(branch: Game) -> str:
        for key in (ord("^"), KEYS[direction]):
            branch._press(key)
        said = THAT_IS.search(_text(branch._message))
        return said.group(1) if said else ""

    return game.branch(ask)


@pytest.fixture(scope="module")
def explored() -> dict[int, list[str]]:
    """The script's actions in each game, to the first moment with a trap that hurts beside the hero."""
    met = {}
    with Game() as game:
        playthrough, script = Playthrough(game, COMPASS), Frontier("explore")
        for seed in IN_VIEW:
            playthrough.reset(seed)
            script.reset(0, seed)
            while not playthrough.memory.level.traps.intersection(tiles_around(playthrough).values()):
                assert len(game.actions) < 100
                playthrough.step(script.act([0], [playthrough])[0])
            met[seed] = game.actions
    return met


def test_what_is_known_of_traps_is_what_netHack_says_of_them(explored):
    said: Counter[str] = Counter()
    hidden = 0
    with Game() as game:
        playthrough, script = Playthrough(game, COMPASS), Frontier("explore")
        for seed in explored:
            playthrough.reset(seed)
            script.reset(0, seed)
            for step in range(80):
                if playthrough.scene.done:
                    break
                for direction, cell in tiles_around(playthrough).items():
                    kind = asked(game, direction)
                    known = cell in playthrough.memory.level.traps
                    if playthrough.scene.tile(direction) in MONSTERS and not known:
                        continue  # it hides the trap into which it fell
                    assert known == (kind in HURTING_TRAPS), f"game {seed}, step {step}: {kind!r} in the {direction}"
                    said[kind] += 1
                    hidden += known and game.last.observation["glyphs"].flat[cell] not in range(cmap(0), cmap(80))
                playthrough.step(script.act([0], [playthrough])[0])
    assert len(HURTING_TRAPS & said.keys()) >= 3 and hidden > 5, (said, hidden)


ARROW_TRAP, TRAP_DOOR = cmap(42), cmap(54)


def known(story: Story) -> set[tuple[int, int]]:
    return {(cell // WIDTH - at(0, 0)[0], cell % WIDTH - at(0, 0)[1]) for cell in story.memory.level.traps}


def past_a_thing(text: str) -> Story:
    """The hero has stepped over a thing, and NetHack said `text` when he stood on it."""
    story = Story()
    story.show("|@)...|")
    story.show("|.@...|", "east", text)
    story.show("|..@..|", "east", glyphs={(0, 2): GLYPHS[")"]})
    return story


def test_a_trap_is_known_from_the_screen_until_bare_ground_shows_there():
    story = Story()
    story.show("|@....|", glyphs={(0, 3): ARROW_TRAP, (0, 4): TRAP_DOOR})
    assert known(story) == {(0, 3)}, "a way down hurts nobody"
    story.show("|.@)..|", "east", glyphs={(0, 4): TRAP_DOOR})
    assert known(story) == {(0, 3)}, "something lies on it"
    story.show("|@.)..|", "west")
    twin = story.memory.copy()
    story.show("|.@...|", "east")
    assert known(story) == set()
    story.memory = twin
    assert known(story) == {(0, 3)}


@pytest.mark.parametrize(
    "text",
    [
        "There is a falling rock trap here.  You see here a rock.",
        "There is an anti-magic field here.",
        "You see here 2 arrows.  An arrow shoots out at you!  You are hit by an arrow.",
        "A little dart shoots out at you!",
        "A trap door in the ceiling opens and a rock falls on your head!",
        "You see here a dagger.  A bear trap closes on your foot!",
        "You are enveloped in a cloud of gas!",
        "A cloud of gas puts you to sleep!",
        "A gush of water hits your left arm!",
        "A tower of flame erupts from the floor!",
        "You fall into a pit!  You land on a set of sharp iron spikes!",
        "You stumble into a spider web!",
        "You escape an arrow trap.",
        "Click!  You trigger a rolling boulder trap!",
        "KAABLAMM!!!  You triggered a land mine!",
    ],
)
def test_a_trap_that_a_thing_hides_is_known_from_netHacks_words(text):
    assert known(past_a_thing(text)) == {(0, 2)}


@pytest.mark.parametrize(
    "text",
    [
        "There is a staircase up here.  You see here a dagger.",
        "There is a trap door here.",
        "The little dog falls into a pit!",
        "A gush of water hits the kitten!",
        "A trap door in the ceiling opens, but nothing falls out!",
        "You hear a loud click!",
        "The gnome is caught in a bear trap!",
    ],
)
def test_other_peoples_traps_and_harmless_ones_are_none(text):
    assert known(past_a_thing(text)) == set()


def steps(skill: str, playthrough: Playthrough, *, avoid_traps: bool) -> set[str]:
    mask = SkillMask(skill, COMPASS, avoid_traps=avoid_traps).of(playthrough)
    return {name for name, allowed in zip(COMPASS, mask, strict=True) if allowed and name in DIRECTIONS}


def test_survive_and_combat_keep_off_known_traps_unless_a_hostile_stands_there():
    painted, playthrough = playing("...\n.@^\n..^", COMPASS)
    free = set(DIRECTIONS)
    for skill in SKILLS:
        assert steps(skill, playthrough, avoid_traps=False) == free
        wary = skill in ("survive", "combat")
        assert steps(skill, playthrough, avoid_traps=True) == (free - {"east", "southeast"} if wary else free)
    playthrough.scene.swallowed = True  # any step is an attack on what swallowed him
    assert steps("combat", playthrough, avoid_traps=True) == free
    painted.paint("...\n.@n\n..f", "search")  # a pet would change places with the hero
    playthrough.step("search")
    assert steps("combat", playthrough, avoid_traps=True) == free - {"southeast"}


def test_where_traps_are_all_around_there_is_still_something_to_do():
    _, playthrough = playing("^^^\n^@^\n^^^", COMPASS)
    mask = SkillMask("survive", COMPASS, avoid_traps=True).of(playthrough)
    assert [name for name, allowed in zip(COMPASS, mask, strict=True) if allowed] == ["wait", "search"]


@pytest.mark.parametrize("avoid_traps", [False, True])
def test_the_environment_keeps_off_traps_where_it_is_told_to(avoid_traps, explored):
    config = EnvConfig(
        enabled_skills=("survive",), skill_scheduler="per_episode", active_skill_bootstrap="survive",
        avoid_traps=avoid_traps,
    )  # fmt: skip
    env = SkillEnv(config)
    stepped = 0
    for seed, actions in explored.items():
        observation, _ = env.reset(seed=seed)
        for action in actions:
            observation = env.step(COMPASS.index(action))[0]
        playthrough = env.playthrough
        for direction, cell in tiles_around(playthrough).items():
            if cell in playthrough.memory.level.traps and playthrough.scene.tile(direction) != Tile.HOSTILE:
                stepped += int(observation["action_mask"][COMPASS.index(direction)])
    env.close()
    assert (stepped > 0) != avoid_traps
