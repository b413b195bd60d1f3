"""What installing without a resolver would hide: a requirement that is missing, or installed in a refused version."""

import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]

# Sample Factory 2.1.1 is the newest there is and wants older versions than everything else. It runs with these:
# tests/appo trains it, loads its checkpoint and plays with the policy.
KNOWN = {
    ("sample-factory", "gymnasium"),
    ("sample-factory", "huggingface-hub"),
    ("sample-factory", "numpy"),
}


def applicable(requirements: list[str], extras: set[str]) -> Iterator[Requirement]:
    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield requirement


def faults(requirement: Requirement) -> bool:
    try:
        return not requirement.specifier.contains(metadata.version(requirement.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return True


def test_all_that_the_project_needs_is_installed_with_all_that_it_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    waiting = [("nethack-pipe", requirement) for requirement in applicable(wanted, set())]
    seen: set[tuple[str, frozenset[str]]] = set()
    wrong: set[tuple[str, str]] = set()
    while waiting:
        parent, requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if faults(requirement):
            wrong.add((parent, name))
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        waiting += [(name, inner) for inner in applicable(needs, set(requirement.extras))]
    assert len(seen) > 100
    assert wrong == KNOWN


def test_the_lock_is_what_is_installed_and_says_nothing_of_torch() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert {name: metadata.version(name) for name in pins} == pins
    assert not [name for name in pins if re.match(r"(torch|nvidia-.*|triton)$", name)]
