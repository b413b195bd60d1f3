"""What `make repro` says at its end."""

from nethack_pipe.summary import summary
from tests.helpers.toy import Toy


def test_it_shows_outputs_figures_and_what_has_not_run(finished_toy: Toy) -> None:
    toy = finished_toy
    assert [line for line in summary(toy.root).splitlines() if line.startswith("  ")][:6] == [
        f"  data/rows  ({sum(path.stat().st_size for path in (toy.root / 'data/rows').iterdir()) / 1e3:.1f} kB)",
        "  not run yet",
        f"  models/train  ({sum(path.stat().st_size for path in (toy.root / 'models/train').iterdir()) / 1e3:.1f} kB)",
        "  plots/train_loss.csv  (0.0 kB)",
        "  loss   0.333333",
        "  steps  4",
    ]
    assert "make: Write numbered rows" in summary(toy.root)
