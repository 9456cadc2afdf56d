"""Writes docs/reference/cli.md from the command line and docs/reference/config.md from the models that read configs.

`python docs/generate.py` writes both; `make docs` does so first. tests/docs/test_generated.py says when they are stale.
A key's meaning is the text under its field; a default or a bound is what the model or the option has. Left out: what
commands write and how they end, which docs/cli.md tells.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticUndefined
from typer.main import get_command

from align_echo.base.files import write_atomically
from align_echo.cli.main import app
from align_echo.evaluate.study_file import StudyFile, studies
from align_echo.gaia.presets import preset_file, presets
from align_echo.registry import OURS, Registry

DOCS = Path(__file__).resolve().parent
SHARED = 2
"""Verbs from which on an option is explained once, for all of them."""

OPTION_HEAD = ("Option", "Default", "Meaning")
NOTE = "<!-- Written by `python docs/generate.py`: change the code that it reads, not this page. -->"


def cell(text: object) -> str:
    """A text as one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "&#124;")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The lines of a Markdown table."""
    first, *others = [f"| {' | '.join(cell(part) for part in line)} |".replace("|  |", "| |") for line in [head, *rows]]
    return [first, f"|{'---|' * len(head)}", *others]


# ---------------------------------------------------------------- command line


def verbs(group: Any, name: str = "align-echo") -> Iterator[tuple[str, Any]]:
    """Every verb with its command, in the order of the command line."""
    for part, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from verbs(command, f"{name} {part}")
        else:
            yield f"{name} {part}", command


def placeholder(parameter: Any) -> str:
    """What stands for the value of an option; empty for a switch."""
    annotation = parameter.type_descriptor.annotation
    if annotation is bool:
        return ""
    kinds = [annotation, *get_args(annotation)]
    choices = [word for part in kinds if get_origin(part) is Literal for word in get_args(part)]
    if choices:
        return f"{{{','.join(map(str, choices))}}}"
    return "N" if int in kinds else "X" if float in kinds else "PATH" if Path in kinds else "TEXT"


def spelling(parameter: Any) -> str:
    """How an option or an argument is written."""
    if not parameter.opts[0].startswith("-"):
        return f"`{(parameter.metavar or parameter.name.upper()).replace('|', ' or ')}`"
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return f"`{names} {placeholder(parameter)}".rstrip() + "`"


def default(parameter: Any) -> str:
    """What an option is where it is not given."""
    if parameter.required:
        return "required"
    if parameter.default in (None, False) or parameter.default == ():
        return ""
    if parameter.default is True:
        return "on"
    if isinstance(parameter.default, list):
        return ", ".join(f"`{item}`" for item in parameter.default)
    return f"`{parameter.default:g}`" if isinstance(parameter.default, float) else f"`{parameter.default}`"


def bounds(parameter: Any) -> str:
    """The range of an option's numbers, as an ending of its meaning."""
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    ends = [f"{sign}{end}" for sign, end in (("≥", least), ("≤", most)) if end is not None]
    return f" ({', '.join(ends)})" if ends else ""


def repeated(parameter: Any) -> str:
    """Whether an option may be there several times, as an ending of its meaning."""
    annotation = parameter.type_descriptor.annotation
    lists = [part for part in (annotation, *get_args(annotation)) if get_origin(part) is list]
    several = lists and parameter.opts[0].startswith("-") and not re.search("repeat|several", parameter.help)
    return " (repeatable)" if several else ""


def row(parameter: Any) -> tuple[str, str, str]:
    """An option's line in a table: spelling, default, meaning."""
    meaning = f"{parameter.help.strip().rstrip('.')}{bounds(parameter)}{repeated(parameter)}."
    return spelling(parameter), default(parameter), meaning


def shared_rows(commands: Sequence[Any]) -> list[tuple[str, str, str]]:
    """The lines of options that the tables of `SHARED` or more verbs would repeat, in the order of the command line.

    A name that two lines would have is not shared: a verb could not say which it takes.
    """
    lines = Counter(row(taken) for command in commands for taken in command.params if taken.opts[0].startswith("-"))
    often = [line for line, count in lines.items() if count >= SHARED]
    names = Counter(option_name(line) for line in often)
    return [line for line in often if names[option_name(line)] == 1]


def option_name(line: tuple[str, str, str]) -> str:
    """The first name of an option, from its line in a table."""
    return line[0].strip("`").split()[0].rstrip(",")


def of_a_verb(name: str, command: Any, shared: Sequence[tuple[str, str, str]], written: str) -> list[str]:
    """The lines of one verb."""
    lines = ["", f"## {name}", "", " ".join(command.help.split())]
    rows = [row(taken) for taken in command.params]
    own = [line for line in rows if line not in shared]
    if own:
        lines += ["", *table(OPTION_HEAD, own)]
    names = [f"`{option_name(line)}`" for line in rows if line in shared]
    if names:
        lines += ["", f"[Shared](#shared-options): {', '.join(names)}."]
    section = next((part for part in (name, name.rpartition(" ")[0]) if f"## {part}\n" in written), None)
    if section:
        lines += ["", f"[More](../cli.md#{section.replace(' ', '-')})."]
    return lines


def command_line() -> str:
    """The page of the command line."""
    written = (DOCS / "cli.md").read_text(encoding="utf-8")
    commands = dict(verbs(get_command(app)))
    shared = shared_rows(list(commands.values()))
    lines = [
        *("# Commands and options", "", NOTE, ""),
        "Every verb with its arguments, in order, and its options. An option without a default is off, or",
        "its meaning says what holds. What the verbs write and how they end: [the command line](../cli.md).",
        *("", "## Shared options", ""),
        "Options with the same meaning under several verbs; each verb lists those it takes.",
        *("", *table(OPTION_HEAD, shared)),
    ]
    for name, command in commands.items():
        lines += of_a_verb(name, command, shared, written)
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- configs


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """The text under each field of a model, those of the models that it builds on too."""
    found: dict[str, str] = {}
    for part in reversed(model.__mro__):
        if not issubclass(part, BaseModel) or part is BaseModel:
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(part))).body
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(field.target)] = str(text.value.value)
    return found


def kind(annotation: Any) -> str:
    """A type in words."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return next(filter(None, map(registered, parts[1:])), "") or kind(parts[0])
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(kind(part) for part in parts if part is not type(None))
    if origin is tuple:
        inner = [kind(part) for part in parts if part is not ...]
        if inner[0].startswith("list"):
            return "list"
        return f"list of {inner[0]}" if ... in parts else f"list of {len(inner)} ({inner[0]})"
    names: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "boolean"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def registered(validator: object) -> str:
    """Our names in the registry that a validator looks a name up in; empty for any other validator."""
    registry = getattr(getattr(validator, "func", None), "__self__", None)
    if not isinstance(registry, Registry):
        return ""
    ours = [name for name, entry in registry.entries().items() if entry.origin.startswith(OURS)]
    return " or ".join(f"`{name}`" for name in [*ours, "module:NAME"])


def limits(model: type[BaseModel], name: str) -> str:
    """The bounds of a number, from the model's JSON schema."""
    schema = TypeAdapter(model).json_schema(mode="validation")
    properties = schema["properties"][name]
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    numbers = [part for part in [properties, *properties.get("anyOf", [])] if part.get("type") in ("integer", "number")]
    return "".join(f" {sign}{part[word]}" for part in numbers for word, sign in signs.items() if word in part)


Keys = dict[str, tuple[str, ...]]
"""The lines of a table of keys, by key."""

KEY_HEAD = ("Key", "Type", "Default", "Meaning")


def key_rows(model: type[BaseModel], section: str = "") -> Keys:
    """The lines of a model's keys; sections are not among them. Raises `KeyError` for one without a meaning."""
    said = meanings(model)
    rows: Keys = {}
    for name, field in model.model_fields.items():
        value: Any = field.get_default(call_default_factory=True)
        if isinstance(value, BaseModel):
            continue
        shown = "required" if value is PydanticUndefined else f"`{json.dumps(value)}`"
        taken = kind(Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation)
        rows[name] = (f"`{section}{name}`", taken + limits(model, name), shown, said[name])
    return rows


def keys(model: type[BaseModel], section: str = "") -> list[str]:
    """The table of a model's keys, without its sections."""
    return table(KEY_HEAD, list(key_rows(model, section).values()))


def sections(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """The models within a model, by the key that they stand under."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield f"{prefix}{name}", inner
            yield from sections(inner, f"{prefix}{name}.")


def about_preset(name: str) -> str:
    """The first line of a critic's preset, which says what it is."""
    return preset_file(name).read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def configs() -> str:
    """The page of configs. Needs the extras `train` and `gui`."""
    from align_echo.gaia.fit.learning import FitSettings
    from align_echo.gaia.fit.reasoning import ReasoningSettings
    from align_echo.gaia.gui.learning import VisionSettings
    from align_echo.train.config import TrainConfig
    from align_echo.train.presets import about, methods

    lines = [
        *("# Configs", "", NOTE, ""),
        "Every key of the files that commands read. A key whose default is `null` may be `null`. An unknown key and a",
        "wrong value are refused in one line before anything is loaded.",
        *("", "## align-echo train", ""),
        "The YAML file of `--config`. It may begin with `method: NAME`: its own keys then win over the method's,",
        "section by section, and options of the command line win over the file. `base: NAME` gives these settings to a",
        "method of your own. What runs do with them: [training](../training.md).",
        *("", *keys(TrainConfig)),
    ]
    for name, model in sections(TrainConfig):
        lines += ["", f"### {name}", "", *((inspect.getdoc(model) or "").split("\n")), "", *keys(model, f"{name}.")]
    lines += ["", "### Methods", ""]
    lines += ["Names for `--method`, `method` and `base`; `align-echo train --method list` prints them.", ""]
    lines += table(("Method", "What it is"), [(f"`{name}`", about(name)) for name in methods()])
    lines += ["", "## align-echo critic train", "", "The YAML file of `--config`, or one of these presets:", ""]
    lines += table(("Preset", "What it is"), [(f"`{name}`", about_preset(name)) for name in presets()])
    of_critics = (
        ("Critics that read", "", FitSettings),
        ("Critics that reason", "With `--reasoning`.", ReasoningSettings),
        ("Critics that look", "With `--recording`.", VisionSettings),
    )
    tables = [key_rows(settings) for _, _, settings in of_critics]
    same = {name: line for name, line in tables[0].items() if all(rows.get(name) == line for rows in tables)}
    lines += ["", "### All critics", "", *table(KEY_HEAD, list(same.values()))]
    for (title, when, _), rows in zip(of_critics, tables, strict=True):
        others = {name: line for name, line in rows.items() if name not in same}
        again = [name for name, line in others.items() if rows is not tables[0] and tables[0].get(name) == line]
        first = f"As for critics that read: {', '.join(f'`{name}`' for name in again)}." if again else ""
        said = " ".join(filter(None, (when, first)))
        own = [line for name, line in others.items() if name not in again]
        lines += ["", f"### {title}", *(["", said] if said else []), "", *table(KEY_HEAD, own)]
    built_in = " and ".join(f"`{name}`" for name in studies())
    lines += ["", "## align-echo study", "", f"Your own file; {built_in} are built in.", ""]
    lines += keys(StudyFile)
    return "\n".join(lines) + "\n"


PAGES = {"reference/cli.md": command_line, "reference/config.md": configs}


def main() -> None:
    """Write the pages that the code has changed."""
    for name, page in PAGES.items():
        write_atomically(DOCS / name, re.sub(r" +$", "", page(), flags=re.MULTILINE))
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
