"""Which actions are legal: on made-up moments, and in real games."""

import random

import pytest

from nethack_pipe.game import tables
from nethack_pipe.game.actions import ACTION_SETS, DIRECTIONS
from nethack_pipe.game.game import Game
from nethack_pipe.perception.glyphs import Tile
from nethack_pipe.tasks.playthrough import Playthrough
from tests.helpers.scenes import playing

COMPASS = ACTION_SETS["compass"]
ALWAYS = {"wait", "search"}
FOUR = set(list(DIRECTIONS)[:4])


def legal(painting: str, actions=COMPASS, **changes) -> set[str]:
    return set(playing(painting, actions, **changes)[1].legal)


def test_free_ground_and_walls():
    assert legal("...\n.@.\n...") == ALWAYS | set(DIRECTIONS)
    assert legal("|-|\n|@|\n-.-") == ALWAYS | {"south"}
    assert legal("   \n @ \n   ") == ALWAYS | set(DIRECTIONS)  # what is not known may be tried
    assert legal("...\n.@.\n...", ACTION_SETS["reference"]) == ALWAYS | FOUR


@pytest.mark.parametrize(
    ("symbol", "may_enter"),
    [
        *((symbol, True) for symbol in ".:#,'<>{_^)$%*0fng5I"),
        *((symbol, False) for symbol in "|-=TS}G"),
    ],
)
def test_what_may_be_entered(symbol, may_enter):
    moves = legal(f"...\n.@{symbol}\n...") - {"kick", "open"}
    assert moves == ALWAYS | set(DIRECTIONS) - (set() if may_enter else {"east"})


@pytest.mark.parametrize("door", "'+")
def test_no_diagonal_step_into_or_out_of_a_door(door):
    assert legal(f"{door}..\n.@.\n...") - {"kick", "open"} == ALWAYS | set(DIRECTIONS) - {"northwest"}
    assert "north" in legal(f".{door}.\n.@.\n...")
    game, playthrough = playing("...\n@'.\n...")
    game.paint("...\n.@.\n...", "east")
    playthrough.step("east")
    assert playthrough.scene.ground == Tile.OPEN_DOOR
    assert set(playthrough.legal) == ALWAYS | FOUR
    game.paint("...\n.'@\n...", "east")
    playthrough.step("east")
    assert set(playthrough.legal) == ALWAYS | set(DIRECTIONS)


def test_a_doorway_without_a_door_may_be_crossed_diagonally():
    assert legal(",..\n.@.\n...") == ALWAYS | set(DIRECTIONS)


def test_down_and_up_only_on_the_stairs_themselves():
    game, playthrough = playing("...\n@>.\n...", depth=2)
    # The hero came by stairs, or so the memory of a new game says.
    assert "up" in playthrough.legal and "down" not in playthrough.legal
    game.paint("...\n<@.\n...", "east", depth=2)
    playthrough.step("east")
    assert "down" in playthrough.legal and "up" not in playthrough.legal
    game.paint("...\n<>@\n...", "east", depth=2)
    playthrough.step("east")
    assert not {"up", "down"} & set(playthrough.legal)
    assert "up" not in legal("...\n.@.\n...", depth=1)  # that way the game ends


def test_pickup_only_where_something_lies():
    game, playthrough = playing("...\n@).\n...")
    assert "pickup" not in playthrough.legal
    game.paint("...\n.@.\n...", "east", "You see here a dagger.")
    playthrough.step("east")
    assert "pickup" in playthrough.legal
    game.paint("...\n.@.\n...", "pickup", "b - a dagger.")
    playthrough.step("pickup")
    assert "pickup" not in playthrough.legal


def test_kick_and_open_need_something_to_aim_at():
    assert {"kick", "open"} <= legal("...\n.@+\n...")
    assert not {"kick", "open"} & legal("...\n.@'\n...")
    assert {"kick", "open"} & legal("...\n.@n\n...") == {"kick"}
    assert not {"kick", "open"} & legal("...\n.@f\n...")
    assert not {"kick", "open"} & legal("...\n.@G\n...")
    game, playthrough = playing("...\n.@n\n...")
    game.paint("...\n.@.\n...", "east", "You kill the newt!")
    playthrough.step("east")
    assert "kick" not in playthrough.legal
    game, playthrough = playing("...\n.@+\n...")
    game.paint("....\n@..+\n....", "west")
    playthrough.step("west")
    assert not {"kick", "open"} & set(playthrough.legal)


def test_eat_drink_and_drop_need_something_carried():
    game, playthrough = playing("...\n.@.\n...")
    items = {"eat", "drink", "drop"}

    def after(*inventory, **stats):
        game.carry(*inventory)
        game.paint("...\n.@.\n...", "wait", **stats)
        playthrough.step("wait")
        return items & set(playthrough.legal)

    robe = ("a", tables.ARMOR_CLASS, True)
    apple, potion = ("b", tables.FOOD_CLASS, False), ("c", tables.POTION_CLASS, False)
    assert after() == set()
    assert after(robe) == set()  # worn things are not dropped
    assert after(robe, apple) == {"eat", "drop"}
    assert after(robe, potion) == {"drink", "drop"}
    assert after(robe, apple, potion) == items
    assert after(robe, apple, hunger=0) == {"drop"}  # who eats while satiated may choke
    assert after(("$", tables.COIN_CLASS, False), hunger=1) == set()


def test_the_mask_follows_the_action_set():
    for actions in ACTION_SETS.values():
        _, playthrough = playing("...\n.@+\n...", actions)
        assert playthrough.mask.shape == (len(actions),) and playthrough.mask.dtype == bool
        assert playthrough.legal == [name for name, ok in zip(actions, playthrough.mask, strict=True) if ok]


def test_scenes_follow_each_other():
    game, playthrough = playing("...\n.@.\n...")
    first = playthrough.scene
    assert playthrough.before is None and first.action is None
    game.paint("...\n..@\n...", "east", hp=3)
    second = playthrough.step("east")
    assert playthrough.before is first and playthrough.scene is second
    assert (second.action, second.hp, first.hp, second.x - first.x) == ("east", 3, 14, 1)


def test_a_rock_is_bumped_into_once_in_a_real_game():
    bumps = set()
    legal_steps = 0
    for seed in (3, 4, 11):
        with Game() as game:
            playthrough = Playthrough(game, COMPASS)
            playthrough.reset(seed)
            rng = random.Random(seed)
            for _ in range(150):
                before = playthrough.scene
                action = rng.choice([name for name in playthrough.legal if name in DIRECTIONS] or ["search"])
                scene = playthrough.step(action)
                if scene.done:
                    break
                legal_steps += 1
                if not scene.took_time and "stone" in scene.text or "It's a wall" in scene.text:
                    assert before.tile(action) == Tile.UNKNOWN and scene.tile(action) == Tile.WALL
                    bump = seed, scene.level, before.cell, action
                    assert bump not in bumps and action not in playthrough.legal
                    bumps.add(bump)
    assert legal_steps > 300 and len(bumps) > 10


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_no_command_swallows_the_next_action_in_a_real_game(seed):
    with Game() as game:
        playthrough = Playthrough(game, COMPASS)
        playthrough.reset(seed)
        for command in ("eat", "kick", "drink", "drop", "kick:north", "open:west"):
            playthrough.step(command)
            before = playthrough.scene
            step = next(name for name in DIRECTIONS if before.tile(name) in (Tile.FLOOR, Tile.STAIRS_UP))
            after = playthrough.step(step)
            assert (after.y - before.y, after.x - before.x) == DIRECTIONS[step], (command, after.text)


def test_a_twin_in_a_branch_goes_its_own_way():
    with Game() as game:
        playthrough = Playthrough(game, COMPASS)
        scene = playthrough.reset(5)
        mask = playthrough.mask.copy()

        def ahead(branch: Game) -> tuple[int, int, list[str]]:
            twin = playthrough.twin(branch, playthrough.memory.copy())
            assert twin.scene is playthrough.scene and twin.legal == playthrough.legal
            for _ in range(4):
                last = twin.step(twin.legal[0])
            return last.turn, last.cell, twin.legal

        branched = game.branch(ahead)
        assert playthrough.scene is scene and (playthrough.mask == mask).all()
        for _ in range(4):
            last = playthrough.step(playthrough.legal[0])
        assert (last.turn, last.cell, playthrough.legal) == branched
