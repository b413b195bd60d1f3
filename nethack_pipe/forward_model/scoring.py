"""How good predictions are, open loop: field by field, on the hard kinds of rows, beside two rules without learning."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np

from nethack_pipe import seeds
from nethack_pipe.forward_model.conversations import Example
from nethack_pipe.perception.text import Baseline, Delta, baseline, parse
from nethack_pipe.statistics import mean_interval

FIELDS: dict[str, tuple[str, ...]] = {
    "position": ("dx", "dy"),
    "hp": ("hp",),
    "gold": ("gold",),
    "depth": ("depth",),
    "survived": ("alive",),
    "explored": ("explored",),
    "message": ("message",),
}
"""What is right by itself: name -> attributes of `Delta` that must all be equal."""

MEASURES: dict[str, tuple[str, ...]] = {
    "em5": ("dx", "dy", "hp", "gold", "depth", "alive"),
    "em6": ("dx", "dy", "hp", "gold", "depth", "alive", "message"),
    **FIELDS,
}
"""Exact match of five fields (position, HP, gold, depth, survived), of these and the message, and each field."""

KINDS: dict[str, tuple[str, Callable[[Delta], bool]]] = {
    "moved": ("position", lambda true: (true.dx, true.dy) != (0, 0)),
    "hp_changed": ("hp", lambda true: true.hp != 0),
    "gold_changed": ("gold", lambda true: true.gold != 0),
    "depth_changed": ("depth", lambda true: true.depth != 0),
    "died": ("survived", lambda true: not true.alive),
    "explored_more": ("explored", lambda true: true.explored != 0),
    "message_shown": ("message", lambda true: true.message != ""),
}
"""Rows in which a field really changed: name -> the field that counts there, and which rows these are."""


def score(examples: Sequence[Example], answers: Sequence[str], seed: int) -> dict[str, Any]:
    """Metrics of a model's `answers` to the prompts of `examples`.

    An answer that cannot be read is wrong in every field. Intervals are 95 % percentile bootstraps (Efron 1979) that
    re-draw whole games, since the rows of one game are alike.

    Args:
        examples: at least one held-out transition.
        answers: the model's answer to each.
        seed: root seed, ``base.seed``.

    Returns:
        ``rows``, ``games``, ``readable`` (share); for the model and each baseline its `MEASURES`, each ``{mean, low,
        high}``; ``model_minus_move_succeeds`` for em5 and em6 (paired); per kind of `KINDS` its number of ``rows`` and
        each predictor's share right in the field that counts; ``sampled``, see `score_sampled`.
    """
    truths = [_read(example.target) for example in examples]
    predictions: dict[str, list[Delta | None]] = {"model": [parse(answer) for answer in answers]}
    for kind in get_args(Baseline):
        predictions[kind] = [baseline(kind, example.state_text, example.action) for example in examples]
    games = np.array([example.game_seed for example in examples])

    def right(name: str, measure: str) -> np.ndarray:
        return _right(predictions[name], truths, MEASURES[measure])

    def interval(values: np.ndarray, *purpose: str) -> dict[str, float]:
        return mean_interval(values, seeds.rng(seed, "scoring", *purpose), games)

    metrics: dict[str, Any] = {
        "rows": len(examples),
        "games": len(np.unique(games)),
        "readable": float(np.mean([delta is not None for delta in predictions["model"]])),
    }
    for name in predictions:
        metrics[name] = {measure: interval(right(name, measure), name, measure) for measure in MEASURES}
    metrics["model_minus_move_succeeds"] = {
        measure: interval(right("model", measure) - right("move_succeeds", measure), "paired", measure)
        for measure in ("em5", "em6")
    }
    for kind, (field, belongs) in KINDS.items():
        rows = np.array([belongs(truth) for truth in truths])
        metrics[kind] = {"rows": int(rows.sum())}
        if rows.any():
            metrics[kind] |= {name: float(right(name, field)[rows].mean()) for name in predictions}
    metrics["sampled"] = score_sampled(examples, predictions)
    return metrics


def score_sampled(
    examples: Sequence[Example], predictions: dict[str, list[Delta | None]], measure: str = "em6"
) -> dict[str, float]:
    """How likely the predictions are under the true outcomes of branches with re-drawn random streams.

    Args:
        examples: those that have `outcomes` count.
        predictions: predictor -> one prediction per example.
        measure: which fields must be equal.

    Returns:
        ``rows``; per predictor the mean share of a row's samples that its prediction agrees with; ``best``: that of the
        most frequent outcome, which no prediction can exceed. Only ``rows`` if no example has outcomes.
    """
    rows = [index for index, example in enumerate(examples) if example.outcomes]
    if not rows:
        return {"rows": 0}
    shares: dict[str, list[float]] = {name: [] for name in ("best", *predictions)}
    for index in rows:
        weights: dict[tuple[Any, ...], int] = {}
        for outcome, count in examples[index].outcomes:
            key = _fields(_read(outcome), measure)
            weights[key] = weights.get(key, 0) + count
        total = sum(weights.values())
        shares["best"].append(max(weights.values()) / total)
        for name, deltas in predictions.items():
            delta = deltas[index]
            shares[name].append(0.0 if delta is None else weights.get(_fields(delta, measure), 0) / total)
    return {"rows": len(rows), **{name: float(np.mean(values)) for name, values in shares.items()}}


def _right(predictions: Sequence[Delta | None], truths: Sequence[Delta], attributes: Sequence[str]) -> np.ndarray:
    """1.0 where all `attributes` are predicted right, else 0.0."""
    return np.array(
        [
            float(delta is not None and all(getattr(delta, name) == getattr(truth, name) for name in attributes))
            for delta, truth in zip(predictions, truths, strict=True)
        ]
    )


def _fields(delta: Delta, measure: str) -> tuple[Any, ...]:
    return tuple(getattr(delta, name) for name in MEASURES[measure])


def _read(target: str) -> Delta:
    delta = parse(target)
    if delta is None:
        raise ValueError(f"a recorded target cannot be read: {target!r}")
    return delta
