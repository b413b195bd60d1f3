"""Which files of this repository a module imports, found without running it.

``python -m tests.helpers.imports`` prints, for each stage, the code that belongs under its deps in dvc.yaml.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("nethack_pipe", "stages")


def closure(root: Path, module: str) -> list[str]:
    """Paths of all files that importing `module` can run, sorted; empty ``__init__.py`` files left out.

    Imports inside functions count; those under ``if TYPE_CHECKING`` do not. A C source counts where a module asks
    `build.library` for it by name, a template where a module names it.
    """
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        for path in _files(root, waiting.pop()):
            if path not in found:
                found.add(path)
                waiting += _imported(root, path)
                found.update(_other_code(root, path))
    return sorted(path.relative_to(root).as_posix() for path in found if path.read_text().strip())


def _files(root: Path, module: str) -> Iterator[Path]:
    """The file of `module` and the ``__init__.py`` of each package above it; nothing for a name that is no module."""
    parts = module.split(".")
    if parts[0] not in PACKAGES:
        return
    for end in range(1, len(parts) + 1):
        base = root.joinpath(*parts[:end])
        yield from (path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file())


def _imported(root: Path, path: Path) -> Iterator[str]:
    package = list(path.relative_to(root).with_suffix("").parts[:-1])
    for node in _nodes(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                above = package[: len(package) - node.level + 1] if node.level else []
                source = ".".join([*above, *filter(None, [node.module])])
                yield source
                yield from (f"{source}.{alias.name}" for alias in node.names)
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def _other_code(root: Path, path: Path) -> Iterator[Path]:
    for node in _nodes(ast.parse(path.read_text(), str(path))):
        match node:
            case ast.Call(func=ast.Attribute(attr="library"), args=[ast.Constant(value=str(name))]):
                yield root / "nethack_pipe" / "native" / f"{name}.c"
            case ast.Constant(value=str(name)) if name.endswith(".j2") and path.with_name(name).is_file():
                yield path.with_name(name)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from _nodes(child)


if __name__ == "__main__":
    here = Path(__file__).parents[2]
    for stage in sorted(here.glob("stages/[!_]*.py")):
        print(f"{stage.stem}:", *(f"    - {path}" for path in closure(here, f"stages.{stage.stem}")), sep="\n")
