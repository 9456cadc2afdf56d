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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticUndefined
from typer.main import get_command

from align_echo.cli.main import app
from align_echo.evaluate.study_file import StudyFile, studies
from align_echo.files import write_atomically
from align_echo.gaia.presets import preset_file, presets

DOCS = Path(__file__).resolve().parent
NOTE = "<!-- Written by `python docs/generate.py`: change the code that it reads, not this page. -->"


def cell(text: object) -> str:
    """A text as one cell of a Markdown table."""
    return " ".join(str(text).split()).replace("|", "&#124;")


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The lines of a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return [f"| {' | '.join(cell(part) for part in line)} |".replace("|  |", "| |") for line in lines]


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
    return f"`{parameter.default:g}`" if isinstance(parameter.default, float) else f"`{parameter.default}`"


def bounds(parameter: Any) -> str:
    """The range of an option's numbers, as an ending of its meaning."""
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if least is not None and most is not None:
        return f" From {least} to {most}."
    if least is not None:
        return f" At least {least}."
    return "" if most is None else f" At most {most}."


def repeated(parameter: Any) -> str:
    """Whether an option may be there several times, as an ending of its meaning."""
    annotation = parameter.type_descriptor.annotation
    lists = [part for part in (annotation, *get_args(annotation)) if get_origin(part) is list]
    return " May be given several times." if lists and parameter.opts[0].startswith("-") else ""


def of_a_verb(name: str, command: Any, written: str) -> list[str]:
    """The lines of one verb."""
    arguments = [spelling(taken).strip("`") for taken in command.params if not taken.opts[0].startswith("-")]
    usage = " ".join([name, *arguments, *(["[OPTIONS]"] if len(arguments) < len(command.params) else [])])
    lines = ["", f"## {name}", "", " ".join(command.help.split()), "", "```text", usage, "```"]
    if command.params:
        rows = [
            (spelling(taken), default(taken), f"{taken.help.strip().rstrip('.')}.{bounds(taken)}{repeated(taken)}")
            for taken in command.params
        ]
        lines += ["", *table(("Option", "Default", "Meaning"), rows)]
    if f"## {name}\n" in written:
        lines += ["", f"What it writes, and how it ends: [{name}](../cli.md#{name.replace(' ', '-')})."]
    return lines


def command_line() -> str:
    """The page of the command line."""
    written = (DOCS / "cli.md").read_text(encoding="utf-8")
    lines = [
        *("# Commands and options", "", NOTE, ""),
        "Every verb with its arguments and options, as `--help` tells them. An option without a default is off, or is",
        "what its meaning says. What the verbs write, the keys of their summaries and how they end: [the command",
        "line](../cli.md).",
    ]
    for name, command in verbs(get_command(app)):
        lines += of_a_verb(name, command, written)
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
        return kind(parts[0])
    if origin is Literal:
        return " or ".join(f"`{part}`" for part in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(kind(part) for part in parts)
    if origin is tuple:
        inner = [kind(part) for part in parts if part is not ...]
        if inner[0].startswith("list"):
            return "list"
        return f"list of {inner[0]}" if ... in parts else f"list of {len(inner)} ({inner[0]})"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    names: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    names[type(None)] = "null"
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def limits(model: type[BaseModel], name: str) -> str:
    """The bounds of a number, from the model's JSON schema."""
    schema = TypeAdapter(model).json_schema(mode="validation")
    properties = schema["properties"][name]
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    numbers = [part for part in [properties, *properties.get("anyOf", [])] if part.get("type") in ("integer", "number")]
    return "".join(f", {sign} {part[word]}" for part in numbers for word, sign in signs.items() if word in part)


def keys(model: type[BaseModel], section: str = "") -> list[str]:
    """The table of a model's keys; sections' own tables are not in it. Raises `KeyError` for one without a meaning."""
    said = meanings(model)
    rows = []
    for name, field in model.model_fields.items():
        value: Any = field.get_default(call_default_factory=True)
        if value is PydanticUndefined:
            shown = "required"
        elif isinstance(value, BaseModel):
            shown = ""
        else:
            shown = f"`{json.dumps(value)}`"
        rows.append((f"`{section}{name}`", kind(field.annotation) + limits(model, name), shown, said[name]))
    return table(("Key", "Type", "Default", "Meaning"), rows)


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
    from align_echo.gaia.fit.reasoning_steps import ReasoningSettings
    from align_echo.gui.learning import VisionSettings
    from align_echo.train.config import TrainConfig
    from align_echo.train.presets import about, methods

    lines = [
        *("# Configs", "", NOTE, ""),
        "Every key of the files that commands read, with its type, its default and its meaning. An unknown key and a",
        "wrong value are refused in one line before anything is loaded.",
        *("", "## align-echo train", ""),
        "What `--config` names, in YAML. It may begin with `method: NAME`; the file's own keys then win over the",
        "method's, section by section, as options of the command line win over the file. `base: NAME` gives these",
        "settings to a method of your own. What runs do with it: [training](../training.md).",
        *("", *keys(TrainConfig)),
    ]
    for name, model in sections(TrainConfig):
        lines += ["", f"### {name}", "", *((inspect.getdoc(model) or "").split("\n")), "", *keys(model, f"{name}.")]
    lines += ["", "### Methods", ""]
    lines += ["What `--method`, `method` and `base` name; `align-echo train --method list` prints them.", ""]
    lines += table(("Method", "What it is"), [(f"`{name}`", about(name)) for name in methods()])
    lines += ["", "## align-echo critic train", "", "What `--config` names, in YAML, or one of these presets:", ""]
    lines += table(("Preset", "What it is"), [(f"`{name}`", about_preset(name)) for name in presets()])
    of_critics = (
        ("Critics that read", "", FitSettings),
        ("Critics that reason", "With `--reasoning`.", ReasoningSettings),
        ("Critics that look", "With `--recording`.", VisionSettings),
    )
    for title, when, settings in of_critics:
        lines += ["", f"### {title}", *(["", when] if when else []), "", *keys(settings)]
    come_along = " and ".join(f"`{name}`" for name in studies())
    lines += ["", "## align-echo study", "", f"A file of your own; {come_along} come along.", ""]
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
