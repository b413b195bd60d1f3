"""``python -m nethack_pipe.summary``: what the pipeline has made, its figures in short, and how to look further."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nethack_pipe.params import read_yaml

FIGURES = 12  # shown of each stage; `dvc metrics show` has all
# Of a stage with very many figures, those that say most come first.
HEADLINES = {
    "counterfactuals": re.compile(r"^train\.(moments|rows|branches|preference_pairs|one_step_choice_is_surely_worse)"),
    "baselines": re.compile(r"\.task_reward\.mean$"),
    "evaluate": re.compile(r"\.(appo|task_greedy)\.task_reward\.mean$|^open_loop\.model\.em[56]\.mean$"),
}


def figures(values: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The numbers and words in nested metrics, with dotted names."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from figures(value, f"{name}.{key}" if name else str(key))
    elif isinstance(values, int | float | str):
        yield name, values


def size(path: Path) -> str:
    """The size of a file or folder, for people."""
    count = sum(file.stat().st_size for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file())
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"


def summary(root: Path) -> str:
    """The text for the repository at `root`, by stage in the order of dvc.yaml."""
    lines = []
    for name, stage in read_yaml(root / "dvc.yaml")["stages"].items():
        lines += ["", f"{name}: {stage['desc']}"]
        lines += [f"  {path}  ({size(root / path)})" for path in stage.get("outs", []) if (root / path).exists()]
        metrics = root / "metrics" / f"{name}.json"
        if not metrics.exists():
            lines.append("  not run yet")
            continue
        found = list(figures(json.loads(metrics.read_text())[name]))
        if name in HEADLINES:
            found.sort(key=lambda figure: HEADLINES[name].search(figure[0]) is None)
        width = max((len(key) for key, _ in found[:FIGURES]), default=0)
        lines += [f"  {key:<{width}}  {value:g}" if isinstance(value, float) else f"  {key:<{width}}  {value}"
                  for key, value in found[:FIGURES]]  # fmt: skip
        if len(found) > FIGURES:
            lines.append(f"  ... {len(found) - FIGURES} more")
    return "\n".join([*lines, "", *NEXT])


NEXT = (
    "Look further (. .venv/bin/activate first):",
    "  dvc metrics show                          every figure",
    "  dvc plots show                            curves, as a page that works offline",
    "  dvc exp run -S appo.learning_rate=1e-4    change one thing; only what depends on it runs again",
    "  dvc metrics diff                          what that changed",
)

if __name__ == "__main__":
    print(summary(Path.cwd()))
