"""Strict reading of params.yaml: every wrong value, unknown key or missing key is one line that names it.

A section is a pydantic model (`Section`) that lives in the module of the stage it belongs to. The file is read as
YAML 1.2, because DVC does: what it writes for ``-S appo.learning_rate=1e-5`` (``1e-05``) is a number here too.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError


class ParamError(Exception):
    """One or more wrong parameters; `lines` has one message for each, and ``str()`` is all of them."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class Section(BaseModel):
    """One section of params.yaml: strict types (no ``"3"`` for 3), no unknown keys, no inf or nan, frozen.

    A validator over several fields begins each line of its message with the field to change:
    ``raise ValueError("batch_size: expected a multiple of 32, got 100")``.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalars of YAML 1.2's core schema, and no key twice."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = (key_node.tag, key_node.value) if isinstance(key_node, yaml.ScalarNode) else key_node
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key_node.value!r} is there twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text if base == 10 else text[2:], base)


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", list("-+.")),
    ("merge", r"<<", ["<"]),  # not in YAML 1.2, but DVC's reader has it
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)


def read_yaml(path: Path) -> Any:
    """The contents of a YAML 1.2 file. Raises ParamError with the line if it is not one, or not there."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise ParamError([f"{path.name}: there is no such file in {path.absolute().parent}"]) from None
    except UnicodeDecodeError as error:
        raise ParamError([f"{path.name}: not UTF-8 text ({error.reason} at byte {error.start})"]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ParamError([f"{path.name}: {where}{error.problem or error.context}"]) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ParamError([f"{path.name}: not readable as YAML: {' '.join(str(error).split())}"]) from None


def load(path: Path, models: Mapping[str, type[Section]]) -> dict[str, Any]:
    """The sections `models` (name -> model) of the file at `path`. Raises ParamError with all that is wrong in them."""
    document = read_yaml(path)
    if not isinstance(document, dict):
        raise ParamError([f"{path.name}: expected sections with keys, got {_show(document)}"])
    sections: dict[str, Any] = {}
    lines: list[str] = []
    for name, model in models.items():
        if name not in document:
            near = _nearest(name, [key for key in document if isinstance(key, str) and key not in models])
            lines.append(f"{path.name}: {name}: the section is missing{near}")
        elif not isinstance(document[name], dict):
            lines.append(f"{path.name}: {name}: expected a section (keys with values), got {_show(document[name])}")
        else:
            try:
                # Through JSON, where strict pydantic takes a list for a tuple and a word for an enum.
                sections[name] = model.model_validate_json(json.dumps(document[name]))
                lines += [f"{path.name}: {line}" for line in _left_out(name, sections[name])]
            except ValidationError as error:
                schema = model.model_json_schema()
                found = [_message(name, item, schema) for item in _errors(error, schema)]
                lines += [f"{path.name}: {line}" for message in found for line in message.splitlines()]
            except TypeError as error:
                lines.append(f"{path.name}: {name}: not plain YAML: {error}")
    if lines:
        raise ParamError(lines)
    return sections


def _left_out(name: str, section: BaseModel) -> list[str]:
    """Keys that the file does not have though the model has a default for them: what is not written is not known."""
    lines = []
    for key in type(section).model_fields:
        value = getattr(section, key)
        if key not in section.model_fields_set:
            lines.append(f"{name}.{key}: the key is missing")
        elif isinstance(value, BaseModel):
            lines += _left_out(f"{name}.{key}", value)
    return lines


def _errors(error: ValidationError, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """pydantic's errors by place: the alternatives of one union are one error, their names no part of the place."""
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    for item in error.errors(include_url=False):
        place: list[str | int] = []
        at = schema
        for part in item["loc"]:
            child = _child(at, part, schema)
            if child or "anyOf" not in at:
                place.append(part)
                at = child
        message = item["msg"] if item["type"] == "value_error" else ""
        kept.setdefault((*place, message), {**item, "loc": tuple(place)})
    return list(kept.values())


def _message(section: str, error: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """``appo.batch_size: expected an integer greater than 0, got 'abc'``; of a validator's text one line for each."""
    name = section
    known: Mapping[str, Any] = schema
    for part in error["loc"]:
        name += f"[{part}]" if isinstance(part, int) else f".{part}"
        parent, known = known, _child(known, part, schema)
    match error["type"]:
        case "missing":
            return f"{name}: the key is missing; expected {_allowed(known, schema)}"
        case "extra_forbidden":
            names = list(_mapping(parent, schema).get("properties", {}))
            near = _nearest(str(error["loc"][-1]), names) or f"; known are {', '.join(names)}"
            return f"{name}: unknown key{near}"
        case "value_error" | "assertion_error":
            keys = _mapping(known, schema).get("properties", {})
            texts = str(error["ctx"]["error"]).splitlines()
            return "\n".join(f"{name}.{text}" if _names_a_key(text, keys) else f"{name}: {text}" for text in texts)
        case _:
            return f"{name}: expected {_allowed(known, schema) or error['msg']}, got {_show(error['input'])}"


def _names_a_key(text: str, keys: Iterable[str]) -> bool:
    """Whether `text` begins with one of `keys` (``key: ...``, ``key.inner: ...`` or ``key[0]: ...``)."""
    key, colon, _ = text.partition(":")
    return bool(colon) and key.split(".")[0].split("[")[0] in keys


def _mapping(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """`schema` with its reference followed, or the one alternative of a union that has keys."""
    if "$ref" in schema:
        return root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    for option in schema.get("anyOf", ()):
        if "properties" in _mapping(option, root):
            return _mapping(option, root)
    return schema


def _child(schema: Mapping[str, Any], part: str | int, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON schema of item `part` of what `schema` describes; empty if it describes none."""
    schema = _mapping(schema, root)
    for option in (schema, *schema.get("anyOf", ())):
        if isinstance(part, str):
            found = option.get("properties", {}).get(part) or option.get("additionalProperties")
        elif part < len(option.get("prefixItems", ())):
            found = option["prefixItems"][part]
        else:
            found = option.get("items")
        if isinstance(found, Mapping):
            return found
    return {}


def _allowed(schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """What a value of this JSON schema may be, in words; empty where the schema says nothing."""
    schema = _mapping(schema, root) if "$ref" in schema else schema
    if "anyOf" in schema:
        return " or ".join(_allowed(option, root) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        choices = [_show(value) for value in schema.get("enum", [schema.get("const")])]
        return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    match schema.get("type"):
        case "integer":
            return "an integer" + _bounds(schema)
        case "number":
            return "a number" + _bounds(schema)
        case "boolean":
            return "true or false"
        case "null":
            return "null"
        case "string":
            words = f" of the form {schema['pattern']}" if "pattern" in schema else ""
            return ("a non-empty string" if schema.get("minLength") == 1 else "a string") + words
        case "array":
            items = _allowed(schema.get("items", {}), root)
            least = f" of at least {schema['minItems']}" if schema.get("minItems") else ""
            return f"a list{least}" + (f", each {items}" if items else "")
        case "object":
            values = schema.get("additionalProperties")
            each = _allowed(values, root) if isinstance(values, Mapping) else ""
            return "keys with values" + (f", each {each}" if each else "")
        case _:
            return ""


def _bounds(schema: Mapping[str, Any]) -> str:
    words = {
        "exclusiveMinimum": "greater than",
        "minimum": "at least",
        "exclusiveMaximum": "less than",
        "maximum": "at most",
        "multipleOf": "a multiple of",
    }
    limits = [f"{word} {schema[key]}" for key, word in words.items() if key in schema]
    return " " + " and ".join(limits) if limits else ""


def _nearest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _show(value: Any) -> str:
    """A value as the user would write it in YAML, strings in quotes, cut at 60 characters."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
