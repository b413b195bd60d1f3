"""When a prayer helps."""

from nethack_pipe.perception.scene import Scene
from nethack_pipe.tasks.rewards import WEAK


class Prayer:
    """When a hero had better pray: he is dying of wounds or weak with hunger, and his god is likely to listen.

    The rules are NetHack's (pray.c): a god helps who is in such trouble if the prayer timeout (300 at the beginning,
    one less each turn, about 350 after a prayer that was heard) is at most 200. He who prays earlier angers him, and is
    not heard any more; prayers are due again all the same.
    """

    FIRST = 101  # turn from which on the timeout is low enough
    AGAIN = 500  # turns after a prayer: low enough then in seven of eight cases, by NetHack's rnz(350)

    def __init__(self) -> None:
        self._next = self.FIRST

    def is_due(self, scene: Scene) -> bool:
        return scene.turn >= self._next and (dying(scene) or scene.hunger >= WEAK)

    def prayed(self, scene: Scene) -> None:
        """The hero prayed in the turn of `scene`."""
        self._next = scene.turn + self.AGAIN


def dying(scene: Scene) -> bool:
    """Whether NetHack calls the hit points critically low (pray.c, critically_low_hp(), below experience level 22)."""
    level = scene.experience_level
    divisor = 5 if level < 6 else 6 if level < 14 else 7
    return scene.hp <= 5 or scene.hp * divisor <= min(scene.max_hp, 15 * level)
