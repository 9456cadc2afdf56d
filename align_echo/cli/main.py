"""Entry point: verbs, and errors as one line on standard error with exit status 2."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from pydantic import ValidationError
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_command, get_group

from align_echo.base import halting
from align_echo.base.plain_yaml import first_wrong
from align_echo.base.progress import printed_notices
from align_echo.cli.output import redacted_output
from align_echo.errors import AlignEchoError
from align_echo.models.local import close_local
from align_echo.models.local.memory import POOL, parse_size
from align_echo.registry import LazyMapping
from align_echo.version import __version__

RENAMED = {
    ("critic collect", "--guide"): "--judge",
    ("critic evaluate", "--critic"): "--judge",
    ("critic gui-steps", "--critic"): "--judge",
    ("critic train", "--steps"): "--recording",
    ("critic flywheel", "--critic"): "--critic-model",
}
"""Old and new names of options."""

VERBS = ("generate-interface", "evaluate", "grid", "study", "train", "show", "view", "report", "doctor", "envs",
         "models", "serve", "shop", "retrieval-server", "critic", "interface")  # fmt: skip


PLACEHOLDERS = {Path: "<path>", int: "<n>", float: "<x>", str: "<text>"}
"""Stand-ins for values in the help, by the first of these types that an option takes."""


def _value_type(parameter: Any) -> Any:
    """Return the type of an option's or argument's value, or of each of several; None for a switch or a choice."""
    annotation = parameter.type_descriptor.annotation
    return next((kind for kind in (annotation, *get_args(annotation)) if kind in PLACEHOLDERS), None)


def _memory(
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            help="Memory for local models and their conversations, as 6GiB; default: half of what is free.",
            callback=lambda size: POOL.set_limit(parse_size(size) if size else 0),
            expose_value=False,
        ),
    ] = None,
) -> None: ...


LOADING = {"model", "judge", "critic_model"}
"""Names of options for models. A verb with one of them, and `study`, takes --memory too."""


class _Verb(TyperCommand):
    """A verb with plain placeholders in its help. It refuses an empty text: as a path it means the current folder."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if self.name == "study" or LOADING & {str(parameter.name) for parameter in self.params}:
            own = typer.Typer()
            own.command()(_memory)
            self.params += [parameter for parameter in get_command(own).params if parameter.name == "memory"]
        for parameter in self.params:
            is_argument = isinstance(parameter, TyperArgument)
            placeholder = str(parameter.name).upper() if is_argument else PLACEHOLDERS.get(_value_type(parameter))
            parameter.metavar = parameter.metavar or placeholder

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in self.params:
            value = values.get(str(parameter.name))
            texts = value if isinstance(value, list | tuple) else [value]
            if any(isinstance(text, str) and not text.strip() for text in texts):
                is_path = _value_type(parameter) is Path
                problem = "it is empty: give it a path" if is_path else "the name is empty: leave it out, or name one"
                raise typer.BadParameter(problem, ctx, cast(Any, parameter))
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [parameter for parameter in self.params if isinstance(parameter, TyperArgument)]
        return ["[OPTIONS]", *(str(argument.metavar) for argument in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, TyperArgument):
                rows["Arguments"] += [(str(parameter.metavar), record[1])] if record else []
            else:
                rows["Options"] += [record] if record else []
        for title, lines in rows.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


def _print_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _build_command(name: str) -> Any:
    """Build the command of a verb. Its module is imported only now, since each imports a part of the library."""
    python_name = name.replace("-", "_")
    verb = getattr(importlib.import_module(f"align_echo.cli.{python_name}"), python_name)
    standalone = typer.Typer(rich_markup_mode=None)
    if isinstance(verb, typer.Typer):
        for command in verb.registered_commands:
            command.cls = _Verb
        own = verb.registered_callback
        callback = own.callback if own else _print_help
        standalone.add_typer(verb, name=name, invoke_without_command=True, callback=callback)
    else:
        standalone.command(cls=_Verb)(verb)
    return get_group(standalone).commands[name]


class _Root(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": LazyMapping(VERBS, _build_command)})


app = typer.Typer(
    name="align-echo", cls=_Root, help="Find, prove and fix misalignments between agents and environments.",
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
)  # fmt: skip


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        print(f"align-echo {__version__}")
        raise typer.Exit
    _print_help(context)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status. `arguments` default to the process's own."""
    if sys.stdout is None:
        return _fail("standard output is closed: send it to a file or to /dev/null")
    with redacted_output(), printed_notices():
        return _status(arguments)


def _status(arguments: Sequence[str] | None) -> int:
    try:
        status = app(args=arguments, prog_name="align-echo", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        return _fail(_renaming_message(error) or _message(error), f"; see {_command_path(error)} --help")
    except AlignEchoError as error:
        return _fail(str(error))
    except BrokenPipeError:
        _drop_output()
        return 1
    except OSError as error:
        _drop_output()
        return _fail(f"cannot use {error.filename or 'the output'}: {error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        return halting.status()
    finally:
        close_local()
    return status if isinstance(status, int) else 0


def _command_path(error: typer.TyperException) -> str:
    """Return the command whose help lists what the error is about."""
    context = getattr(error, "ctx", None)
    return context.command_path if context else "align-echo"


def _message(error: typer.TyperException) -> str:
    """Return the message of an error of the command line; for a value that is refused, in our own words."""
    if type(error) is not typer.BadParameter or error.param is None:
        return error.format_message()
    reason = error.message
    if isinstance(error.__cause__, ValidationError):
        *choices, last = map(str, error.param.type_descriptor.choices or ("",))
        text = error.__cause__.errors(include_url=False)[0]["input"]
        reason = f"must be {', '.join(choices)} or {last}, not {text!r}" if choices else first_wrong(error.__cause__)
    name = error.param.opts[0] if error.param.opts[0].startswith("-") else str(error.param.name).upper()
    return f"{name}: {reason}"


def _renaming_message(error: typer.TyperException) -> str:
    """Return the message for an option's old name; empty for another error."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    verb = context.command_path.removeprefix("align-echo ") if context else ""
    new = RENAMED.get((verb, str(option)))
    return f"{option} of {verb} is called {new} now" if new else ""


def _fail(message: str, hint: str = "") -> int:
    print(f"align-echo: {' '.join(message.split()).rstrip('.;:, ')}{hint}", file=sys.stderr)
    return 2


def _drop_output() -> None:
    """Discard buffered output, so that Python does not try to write it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(_fail("start the command line with: python -m align_echo_command"))
