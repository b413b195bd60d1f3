"""The page ``plots/counterfactuals.html``: what the table of branches holds, drawn. One file, no script, no network."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pyarrow as pa

from nethack_pipe.counterfactuals.dataset import moments
from nethack_pipe.counterfactuals.moments import DRAWN_AS, KINDS, Kind
from nethack_pipe.game.actions import ACTION_SETS
from nethack_pipe.perception import text
from nethack_pipe.seeds import Split
from nethack_pipe.tasks.skills import TASKS, Skill

TEMPLATE = "page.html.j2"  # beside this file
ASKED_OF: dict[Kind, Skill] = {
    "combat": "combat",
    "threat": "survive",
    "survival": "survive",
    "descent": "descend",
    "pickup": "resource",
}
"""The task that the example of a kind is chosen by."""

WIDTH, LABEL, ROW, BAR = 640, 110, 20, 13  # of charts, their row labels, rows and bars, in pixels
PERCENTILES = (5, 25, 50, 75, 95)
NOTHING_CHANGES = frozenset(text.target(text.Delta()).split(" | "))


@dataclass
class Chart:
    """An SVG image: what to draw in pixels from the upper left corner. `kind` of a shape is its class in the style."""

    title: str
    height: float
    width: float = WIDTH
    rects: list[tuple[float, float, float, float, str]] = field(default_factory=list)  # x, y, width, height, kind
    lines: list[tuple[float, float, float, float, str]] = field(default_factory=list)  # x1, y1, x2, y2, kind
    texts: list[tuple[float, float, str, str]] = field(default_factory=list)  # x, y, anchor, text
    legend: list[tuple[str, str]] = field(default_factory=list)  # kind, meaning


def page(tables: Mapping[Split, pa.Table], figures: Mapping[Split, Mapping[str, Any]]) -> str:
    """The whole page as HTML. Charts and examples are of the split ``train``.

    Args:
        tables: branches by split.
        figures: what `summary.summary` says of each.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    table, numbers = tables["train"], figures["train"]
    return environment.get_template(TEMPLATE).render(
        about={name: table[name][0].as_py() if table.num_rows else None for name in ("samples", "horizon")},
        policies=sorted(set(table["policy"].to_pylist())),
        figures=figures,
        tasks=TASKS,
        kinds=_kinds(numbers),
        spreads=[_spread(table, task) for task in TASKS],
        sure=_sure(numbers),
        agreement=_agreement(numbers),
        examples=list(_examples(table)),
    )


def _kinds(figures: Mapping[str, Any]) -> Chart:
    chart = Chart("Decisive moments by kind", ROW * 2 * len(KINDS) + 4)
    chart.legend = [("weak", "found in the games"), ("strong", "drawn and labelled")]
    most = max(*figures["found"].values(), 1)
    for i, kind in enumerate(DRAWN_AS):
        chart.texts.append((LABEL - 8, ROW * 2 * i + ROW + 4, "end", kind))
        for j, (name, shade) in enumerate((("found", "weak"), ("drawn", "strong"))):
            count = figures[name][kind]
            length, top = count / most * (WIDTH - LABEL - 60), ROW * 2 * i + 5 + j * (BAR + 2)
            chart.rects.append((LABEL, top, length, BAR, shade))
            chart.texts.append((LABEL + length + 5, top + BAR - 2, "start", f"{count}"))
    return chart


def _spread(table: pa.Table, task: Skill) -> Chart:
    """For each action the percentiles of its advantage over all moments where it is legal, on a square root scale."""
    actions = np.array(table["action"].to_pylist(), dtype=object)
    values = table[f"advantage_{task}"].to_numpy()
    found = {
        name: np.percentile(values[actions == name].astype(np.float64), PERCENTILES)
        for name in ACTION_SETS["compass"]
        if (actions == name).any()
    }
    reach = max((float(np.abs(marks).max()) for marks in found.values()), default=0.0) or 1.0
    half = (WIDTH - LABEL) / 2

    def across(value: float) -> float:
        return LABEL + half + float(np.sign(value)) * float(np.sqrt(abs(value) / reach)) * (half - 30)

    bottom = ROW * len(found)
    chart = Chart(f"{task}: advantage, points (square root scale)", bottom + 22)
    for value in (-reach, -reach / 4, 0.0, reach / 4, reach):
        chart.lines.append((across(value), 0, across(value), bottom, "axis"))
        chart.texts.append((across(value), bottom + 14, "middle", f"{value:+.3g}" if value else "0"))
    for i, (name, marks) in enumerate(found.items()):
        low, left, median, right, high = map(across, marks.tolist())
        y = ROW * i + ROW / 2
        chart.texts.append((LABEL - 8, y + 4, "end", name))
        chart.lines.append((low, y, high, y, "whisker"))
        chart.rects.append((left, y - BAR / 2, max(right - left, 1.0), BAR, "box"))
        chart.lines.append((median, y - BAR / 2, median, y + BAR / 2, "median"))
    return chart


def _sure(figures: Mapping[str, Any]) -> Chart:
    shares: dict[str, Sequence[float]] = {
        task: (
            figures["best_beats_all"][task],
            figures["best_beats_some"][task] - figures["best_beats_all"][task],
            1 - figures["best_beats_some"][task],
        )
        for task in TASKS
    }
    meanings = ("the best surely beats every other action", "one surely beats another", "nothing is sure")
    return _shares("Moments with a sure answer, share", shares, meanings)


def _agreement(figures: Mapping[str, Any]) -> Chart:
    shares: dict[str, Sequence[float]] = {
        task: (
            1 - figures["one_step_choice_is_not_best"][task],
            figures["one_step_choice_is_not_best"][task] - figures["one_step_choice_is_surely_worse"][task],
            figures["one_step_choice_is_surely_worse"][task],
        )
        for task in TASKS
    }
    meanings = ("the choice of one step is the best", "another is better, not surely", "another is surely better")
    return _shares("One-step choice against the return over the horizon, share", shares, meanings)


def _shares(title: str, shares: Mapping[str, Sequence[float]], meanings: Sequence[str]) -> Chart:
    """One bar per row, cut into three shares of 1."""
    shades = ("strong", "medium", "weak")
    chart = Chart(title, ROW * len(shares) + 4, legend=list(zip(shades, meanings, strict=True)))
    for i, (name, parts) in enumerate(shares.items()):
        y, x, left = ROW * i + 4, float(LABEL), []
        chart.texts.append((LABEL - 8, y + BAR - 2, "end", name))
        for part, shade in zip(parts, shades, strict=True):
            length = max(part, 0.0) * (WIDTH - LABEL - 130)
            chart.rects.append((x, y, length, BAR, shade))
            x += length
            left.append(f"{max(part, 0.0):.0%}")
        chart.texts.append((WIDTH - 122, y + BAR - 2, "start", " / ".join(left)))
    return chart


def _examples(table: pa.Table) -> Iterator[dict[str, Any]]:
    """For each kind the moment where what one does makes the greatest difference to the kind's task."""
    kind_of = table["kind"].to_pylist()
    by_kind: dict[str, list[slice]] = {kind: [] for kind in KINDS}
    for rows in moments(table):
        by_kind[kind_of[rows.start]].append(rows)
    for kind in DRAWN_AS:
        values = table[f"return_{ASKED_OF[kind]}"].to_numpy()
        if by_kind[kind]:
            chosen = max(by_kind[kind], key=lambda rows: float(np.ptp(values[rows])))
            actions = table.slice(chosen.start, chosen.stop - chosen.start).to_pylist()
            for row in actions:
                row["change"] = _change(row["target"])
            message = next(line for line in actions[0]["state_text"].splitlines() if line.startswith("msg:"))
            yield {
                "kind": kind,
                "task": ASKED_OF[kind],
                "moment": actions[0],
                "message": message.removeprefix("msg:"),
                "actions": actions,
            }


def _change(target: str) -> str:
    """A target text without what stays as it is."""
    return " | ".join(part for part in target.split(" | ") if part not in NOTHING_CHANGES) or "nothing"
