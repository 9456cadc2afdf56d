"""Entry point: verbs, and errors as one line on standard error with exit status 2."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from align_echo.base import halting
from align_echo.base.progress import printed_notices
from align_echo.cli.output import redacted_output
from align_echo.errors import AlignEchoError
from align_echo.models.local import close_local
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
         "serve", "shop", "retrieval-server", "critic", "interface")  # fmt: skip


def _build_command(name: str) -> Any:
    """Build the command of a verb. Its module is imported only now, since each imports a part of the library."""
    python_name = name.replace("-", "_")
    verb = getattr(importlib.import_module(f"align_echo.cli.{python_name}"), python_name)
    standalone = typer.Typer(rich_markup_mode=None)
    standalone.add_typer(verb, name=name) if isinstance(verb, typer.Typer) else standalone.command()(verb)
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
    if context.invoked_subcommand is None:
        print(context.get_help())


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
        return _fail(_renaming_message(error) or error.format_message(), "; see align-echo --help")
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


def _renaming_message(error: typer.TyperException) -> str:
    """Return the message for an option's old name; empty for another error."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    verb = context.command_path.removeprefix("align-echo ") if context else ""
    new = RENAMED.get((verb, str(option)))
    return f"{option} of {verb} is called {new} now" if new else ""


def _fail(message: str, hint: str = "") -> int:
    print(f"align-echo: {' '.join(message.split()).rstrip('.')}{hint}", file=sys.stderr)
    return 2


def _drop_output() -> None:
    """Discard buffered output, so that Python does not try to write it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(_fail("start the command line with: python -m align_echo_command"))
