import gc
import warnings
from pathlib import Path

import numpy as np
import pytest

from nethack_pipe.game import tables
from nethack_pipe.game.actions import ACTION_SETS, ACTIONS, DIRECTIONS
from nethack_pipe.game.game import DEFAULT_KEYS, EndStatus, Game, Step, replay
from nethack_pipe.game.tables import BL
from tests.helpers.games import WIZARD_KEYS, digest, give_up, go_to_level, monsters, play, press, random_actions

IN_USE = ("being worn", "in hand", "wielded", "in quiver", "at the ready", "alternate weapon", "on left", "on right")


def strings(step: Step) -> list[str]:
    return [line.tobytes().partition(b"\0")[0].decode() for line in step.observation["inv_strs"]]


def letters(step: Step) -> str:
    return step.observation["inv_letters"].tobytes().rstrip(b"\0").decode()


def asks(game: Game) -> bool:
    return any(game._internal[i] for i in (1, 2, 3))


def beside(game: Game, monster: str) -> str | None:
    """In which direction from the hero a monster of this name is shown."""
    observation = game.last.observation
    x, y = observation["blstats"][:2].tolist()
    for name, (dy, dx) in DIRECTIONS.items():
        if observation["glyphs"][y + dy, x + dx] == tables.MONSTER_NAMES.index(monster):
            return name
    return None


def test_observation_has_the_asked_keys_and_our_two_and_is_used_again() -> None:
    with Game(("glyphs", "tty_chars")) as game:
        step = game.reset(1)
        assert set(step.observation) == {"glyphs", "tty_chars", "peaceful", "inv_worn"}
        assert "Agent" in step.observation["tty_chars"][22].tobytes().decode()
        copy = step.copy()
        after = game.step("search")
        assert after.observation is step.observation
        assert not np.shares_memory(copy.observation["tty_chars"], after.observation["tty_chars"])
        assert not np.array_equal(copy.observation["tty_chars"], after.observation["tty_chars"])
        assert game.last is after
    with Game() as game:
        assert set(game.reset(1).observation) == {*DEFAULT_KEYS, "peaceful", "inv_worn"}
        assert game.last.text.startswith("Hello Agent, welcome to NetHack!  You are a neutral male human Monk.")
        assert not game.last.took_time
    with pytest.raises(ValueError, match="no observation key 'glyph': NLE has glyphs, chars"):
        Game(("glyph",))


def test_actions_by_index_are_those_by_name() -> None:
    with Game() as game:
        for name in ACTIONS:
            by_name = play(game, 3, [name, "search"])
            assert play(game, 3, [ACTIONS.index(name), "search"]) == by_name  # type: ignore[list-item]
            assert play(game, 3, [np.int64(ACTIONS.index(name)), "search"]) == by_name  # type: ignore[list-item]


def test_moving_changes_the_position_as_the_direction_says() -> None:
    moved = set()
    with Game() as game:
        for seed in range(6):
            game.reset(seed)
            for name, (dy, dx) in DIRECTIONS.items():
                x, y = game.last.observation["blstats"][:2].tolist()
                step = game.step(name)
                position = step.observation["blstats"][:2].tolist()
                if position != [x, y]:
                    assert position == [x + dx, y + dy]
                    assert step.took_time
                    moved.add(name)
    assert moved == set(DIRECTIONS)


def test_took_time_is_exact() -> None:
    # The monk is fast: in about a third of his actions no new turn begins. Some searching shows every one of them,
    # and walking into a wall none.
    with Game() as game:
        game.reset(2)
        steps = [(game.step("search").took_time, int(game.last.observation["blstats"][BL.TIME])) for _ in range(40)]
        assert all(took_time for took_time, _ in steps)
        turns = steps[-1][1] - steps[0][1] + 1
        assert 24 <= turns <= 36
        idle = [step for step in (game.step("west") for _ in range(80)) if "wall" in step.text or "stone" in step.text]
        assert idle and not any(step.took_time for step in idle)


def test_an_action_that_takes_no_time_moves_nobody() -> None:
    idle = busy = 0
    with Game(WIZARD_KEYS, wizard=True) as game:
        for seed in range(4):
            game.reset(seed)
            press(game, "\x07hostile newt\r")
            for action in random_actions(seed, 100):
                before = monsters(game)
                step = game.step(action)
                if step.took_time:
                    busy += monsters(game) != before
                else:
                    idle += 1
                    assert monsters(game) == before, (seed, action, step.text)
    assert idle > 50 and busy > 50


def test_no_prompt_swallows_the_next_action() -> None:
    names = (*ACTIONS, "kick:north", "open:east", "eat:a", "drink:h", "drop:b", "drop:z", "eat:Z", "drink:d")
    shown = 0
    with Game(wizard=True) as game:
        for seed in range(8):
            game.reset(seed)
            go_to_level(game, 1 + 3 * seed)
            press(game, "\x07peaceful gnome\r")
            for action in random_actions(seed, 150, names):
                step = game.step(action)
                assert not asks(game)
                assert "--More--" not in step.text and "In what direction" not in step.text
                shown += bool(step.text)
    assert shown > 300


def test_messages_before_more_are_kept() -> None:
    with Game(wizard=True) as game:
        game.reset(0)
        for _ in range(6):
            press(game, "\x07hostile jackal\r")
        texts = [game.step("search").text for _ in range(10)]
    # A line of the screen is shorter than these.
    assert sum(text.count("jackal") >= 3 and len(text) > 100 for text in texts) >= 2
    assert all("\n" not in text and "   " not in text for text in texts)


def test_a_question_before_the_first_turn_is_left() -> None:
    with Game() as game:
        game.reset(405927734880884568)  # the hero stands on a scroll that turns to dust: how shall its kind be called?
        assert game.step("search").took_time


def test_a_question_for_a_place_on_the_map_is_left() -> None:
    with Game(wizard=True) as game:
        game.reset(1)
        assert press(game, ";").text.startswith("Pick an object.")
        press(game, "\x17cursed potion of object detection\r")
        # The detected objects may be looked at with a cursor, of which only the keys would tell.
        assert game.step(f"drink:{letters_of_potions(game)[-1]}").took_time
        x, y = game.last.observation["blstats"][:2].tolist()
        assert game.step("search").took_time
        assert game.last.observation["blstats"][:2].tolist() == [x, y]


def test_enlightenment_over_several_pages_is_left() -> None:
    with Game(wizard=True) as game:
        game.reset(1)
        press(game, "\x18")
        assert not asks(game)
        assert game.step("search").took_time


def test_pickup_takes_a_whole_pile_also_of_several_pages() -> None:
    things = [
        "blinding",
        "booze",
        "confusion",
        "enlightenment",
        "fruit juice",
        "see invisible",
        "hallucination",
        "healing",
    ]
    things = [f"potion of {thing}" for thing in things] + [
        f"scroll of {thing}"
        for thing in ("identify", "light", "enchant armor", "remove curse", "food detection", "fire", "earth", "taming")
    ]
    things += [f"wand of {thing}" for thing in ("light", "striking", "sleep", "cold", "digging", "nothing")]
    with Game(WIZARD_KEYS, wizard=True) as game:
        game.reset(1)
        for thing in things:
            press(game, f"\x17{thing}\r")
        carried = sorted(strings(game.last))
        droppable = [
            letter
            for letter, worn in zip(letters(game.last), game.last.observation["inv_worn"], strict=False)
            if not worn
        ]
        assert len(droppable) > 24  # more than a page
        for letter in droppable:
            assert game.step(f"drop:{letter}").took_time
        assert len(letters(game.last)) < 10
        step = game.step("pickup")
        assert step.took_time
        assert sorted(line[4:] for line in strings(step)) == sorted(line[4:] for line in carried)
        assert game.step("pickup").text == "The stairs are solidly fixed to the floor."
        assert not game.last.took_time


def test_eat_drink_and_drop_take_what_they_name() -> None:
    with Game((*DEFAULT_KEYS, "inv_strs")) as game:
        game.reset(0)
        oclasses = game.last.observation["inv_oclasses"].tolist()
        named = dict(zip(letters(game.last), zip(oclasses, strings(game.last), strict=True), strict=False))
        foods = [letter for letter, (oclass, _) in named.items() if oclass == tables.FOOD_CLASS]
        potions = [letter for letter, (oclass, _) in named.items() if oclass == tables.POTION_CLASS]
        assert len(foods) > 1 and potions
        last_food = named[foods[-1]][1]
        game.step(f"drop:{foods[-1]}")
        assert f"You drop {last_food}." in game.last.text
        assert foods[-1] not in letters(game.last)
        # Food lies here now; it is not that which is eaten.
        game.step(f"eat:{foods[0]}")
        assert game.last.took_time
        assert game.step("pickup").took_time
        assert last_food in strings(game.last)
        assert game.step(f"drink:{potions[0]}").took_time
        assert named[potions[0]][1] not in strings(game.last)


def test_without_a_target_nothing_happens() -> None:
    with Game() as game:
        game.reset(1)
        used = set(letters(game.last))
        unused = next(letter for letter in "zyxwvu" if letter not in used)
        before = monsters(game)
        for action in ("open", "kick", f"eat:{unused}", f"drink:{unused}", f"drop:{unused}"):
            seen = game.last.copy()
            step = game.step(action)
            assert (step.text, step.took_time) == ("", False)
            for key in set(seen.observation) - {"message"}:
                assert np.array_equal(seen.observation[key], step.observation[key])
        assert monsters(game) == before
        assert game.actions == ["open", "kick", f"eat:{unused}", f"drink:{unused}", f"drop:{unused}"]


def test_praying_is_confirmed_and_takes_time() -> None:
    with Game() as game:
        game.reset(3)
        step = game.step("pray")
        assert "You begin praying" in step.text and "You finish your prayer." in step.text
        assert "is displeased." in step.text, "so early, and without need, no god listens"
        assert step.took_time and not asks(game)
        assert game.actions == ["pray"]


def test_the_dungeon_is_not_left() -> None:
    with Game() as game:
        step = game.reset(2)
        step = game.step("up")
        assert step.text.startswith("Beware, there will be no return!")
        assert not step.took_time and not step.done
        assert game.step("search").took_time


def test_peacefuls_are_known_and_not_attacked() -> None:
    with Game(WIZARD_KEYS, wizard=True) as game:
        game.reset(3)
        for _ in range(20):
            press(game, "\x07peaceful watchman\r")
            direction = beside(game, "watchman")
            if direction:
                break
        assert direction
        x, y = game.last.observation["blstats"][:2].tolist()
        dy, dx = DIRECTIONS[direction]
        assert game.last.observation["peaceful"][y + dy, x + dx]
        assert not game.last.observation["peaceful"][y, x]
        step = game.step(direction)
        assert step.text.startswith("Really attack the watchman?")
        assert not step.took_time
        assert step.observation["peaceful"][y + dy, x + dx]


def test_peaceful_and_worn_are_what_nethack_says() -> None:
    keys = ("glyphs", "blstats", "screen_descriptions", "inv_strs")
    peaceful = worn = hallucinating = 0
    with Game(keys, wizard=True) as game:
        for seed in range(6):
            game.reset(seed)
            for monster in ("peaceful jackal", "hostile newt", "tame gnome", "peaceful hill orc", "peaceful long worm"):
                press(game, f"\x07{monster}\r")
            for i, action in enumerate(random_actions(seed, 80)):
                if i == 50:
                    press(game, "\x17cursed potion of hallucination\r")
                    game.step(f"drink:{letters_of_potions(game)[-1]}")
                seen = game.step(action).observation
                says = np.char.find(seen["screen_descriptions"].view("S80")[..., 0], b"peaceful ") >= 0
                says &= tables.IS_NORMAL_MONSTER[seen["glyphs"]] | tables.IS_DETECTED[seen["glyphs"]]
                assert np.array_equal(says, seen["peaceful"]), (seed, i, action)
                peaceful += int(says.sum())
                hallucinating += bool(seen["blstats"][BL.CONDITION] & tables.CONDITIONS["hallu"])
                in_use = [any(mark in line for mark in IN_USE) for line in strings(game.last)]
                assert in_use == seen["inv_worn"].tolist(), (seed, i, action)
                worn += sum(in_use)
    assert peaceful > 500 and worn > 500 and hallucinating > 50


def test_worn_things_are_known_when_the_letters_stay() -> None:
    with Game() as game:
        step = game.reset(1)
        worn = [letter for letter, used in zip(letters(step), step.observation["inv_worn"], strict=False) if used]
        assert len(worn) == 2  # gloves and robe
        step = press(game, f"T{worn[1]}")
        while "finish" not in step.text and "You were wearing" not in step.text:
            step = game.step("search")
        slot = letters(step).index(worn[1])
        assert not step.observation["inv_worn"][slot]
        assert step.observation["inv_worn"].sum() == 1


def letters_of_potions(game: Game) -> str:
    arrays = game._target_arrays
    pairs = zip(arrays["inv_letters"].tolist(), arrays["inv_oclasses"].tolist(), strict=True)
    return "".join(chr(letter) for letter, oclass in pairs if oclass == tables.POTION_CLASS)


def test_looking_for_peacefuls_and_worn_things_does_not_change_the_game() -> None:
    class Blind(Game):
        def _look_for_peaceful(self, shown: bytes, hero: int) -> None:
            pass

    actions = random_actions(4, 150, tuple(action for action in ACTION_SETS["compass"] if action != "eat"))
    keys = ("tty_chars", "glyphs", "blstats")
    frames: list[list[bytes]] = []
    for kind in (Game, Blind):
        with kind(keys) as game:
            game.reset(4)
            frames.append([game.step(action).observation["tty_chars"].tobytes() for action in actions])
    assert frames[0] == frames[1]


def test_the_end_keeps_the_last_living_moment() -> None:
    with Game() as game:
        # This hero eats until he chokes.
        game.reset(4)
        while not game.last.done:
            alive = game.last.copy()
            step = game.step("eat")
            assert len(game.actions) < 200
            if not game.last.took_time and not game.last.done:
                game.step("search")
        assert step.end_status is EndStatus.DEATH and game.how in ("CHOKING", "DIED", "STARVING")
        assert step.took_time
        assert "You die..." in step.text
        blstats = step.observation["blstats"]
        assert blstats[BL.HP] > 0 and blstats[BL.HPMAX] == alive.observation["blstats"][BL.HPMAX]
        assert blstats[BL.DEPTH] == 1 and blstats[BL.TIME] >= alive.observation["blstats"][BL.TIME]
        x, y = blstats[:2].tolist()
        assert tables.MONSTER_OF_GLYPH[step.observation["glyphs"][y, x]] == tables.MONSTER_NAMES.index("monk")
        assert np.array_equal(step.observation["chars"] == ord("|"), alive.observation["chars"] == ord("|"))
        assert step.score == blstats[BL.SCORE]
        with pytest.raises(RuntimeError, match="over: reset it"):
            game.step("search")
        assert not game.reset(4).done and game.how is None


def test_quitting_ends_the_game_too() -> None:
    with Game() as game:
        game.reset(1)
        assert give_up(game).end_status is EndStatus.DEATH
        assert game.how == "QUIT"


@pytest.mark.parametrize("seed", [-1, 1.5, "1", None, True])
def test_wrong_seeds_are_refused(seed: object) -> None:
    with Game() as game, pytest.raises(ValueError, match=f"must be an integer >= 0, not {seed!r}"):
        game.reset(seed)  # type: ignore[arg-type]


def test_misuse_is_told() -> None:
    game = Game()
    with pytest.raises(RuntimeError, match="reset it"):
        game.step("search")
    with pytest.raises(RuntimeError, match="reset it"):
        game.last  # noqa: B018
    with pytest.raises(RuntimeError, match="reset it"):
        game.branch(lambda game: None)
    with pytest.raises(RuntimeError, match="reset it"):
        game.reseed(1)
    game.reset(np.int64(3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no action 'jump'"):
        game.step("jump")
    assert game.actions == []
    game.close()
    game.close()
    with pytest.raises(RuntimeError, match="closed"):
        game.step("search")
    with pytest.raises(RuntimeError, match="closed"):
        game.reset(3)


def test_a_game_that_is_dropped_gives_everything_back_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        game = Game()
        game.reset(1)
        folder = game._nethack._vardir
        del game
        gc.collect()
    assert not Path(folder).exists()


def test_replay() -> None:
    actions = random_actions(7, 80, ("north", "south", "search", "kick", "drop:a", "pickup"))
    with Game() as game:
        play(game, 7, actions)
        with replay(7, game.actions) as again:
            assert digest(again.last) == digest(game.last)
            assert again.actions == game.actions == actions
