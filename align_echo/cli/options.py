"""Options of the command line, built from the config models of the verbs.

Not here: the options themselves (`agents/options.py`, and the config model of each verb).
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from pydantic.fields import FieldInfo

from align_echo.agents import options
from align_echo.agents.options import VerbConfig

Out = Annotated[
    Path | None,
    typer.Option("--out", help="Folder of the run; default: a new one under runs/."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what the run would ask of its models and what it costs; run nothing.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")]


def _help(option: Any) -> str:
    """Return the description of a shared option."""
    return str(next(part.description for part in get_args(option) if isinstance(part, FieldInfo)))


Env = Annotated[str, typer.Option("--env", help=_help(options.Env))]
InterfaceName = Annotated[str, typer.Option("--interface", help=_help(options.InterfaceName))]
Seed = Annotated[int, typer.Option("--seed", min=0, help=_help(options.Seed))]
DataRoot = Annotated[Path | None, typer.Option("--data-root", help=_help(options.DataRoot))]


def takes(config: type[VerbConfig]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb an option for each field of a config model; the verb's first argument is the checked config.

    A field gives the option's name, type, default, bounds and help; fields that the model shares with others come last.
    The verb's other arguments are options of its own.
    """

    def give_options(verb: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(verb, include_extras=True)
        _, *rest = inspect.signature(verb).parameters.values()
        own = [parameter.replace(annotation=hints[parameter.name]) for parameter in rest]
        arguments = [each for each in own if _is_argument(each)]
        own_options = [each for each in own if not _is_argument(each)]
        shared = [name for name in config.model_fields if name not in config.__annotations__]
        names = [*config.__annotations__, *shared]
        fields = [_parameter(name, config.model_fields[name]) for name in names if name in config.model_fields]

        def command(**values: Any) -> None:
            chosen = {field.name: values.pop(field.name) for field in fields}
            verb(config(**{name: value for name, value in chosen.items() if value is not None}), **values)

        parameters = [*arguments, *fields, *own_options]
        command.__name__, command.__doc__, command.__module__ = verb.__name__, verb.__doc__, verb.__module__
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        )
        return command

    return give_options


def _is_argument(parameter: inspect.Parameter) -> bool:
    return any(isinstance(part, typer.models.ArgumentInfo) for part in get_args(parameter.annotation))


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    """Return the option of a field as a parameter of a command's function."""
    spelling = f"--{name.replace('_', '-')}"
    if field.default is True:
        spelling += f"/--no-{name.replace('_', '-')}"
    kind, details = _command_type(field)
    bounds = {
        limit: getattr(detail, bound)
        for detail in details
        for limit, bound in (("min", "ge"), ("max", "le"))
        if hasattr(detail, bound)
    }
    option = typer.Option(spelling, help=field.description, **bounds)
    default = field.default if field.default_factory is None else None
    if field.is_required():
        default = inspect.Parameter.empty
    elif isinstance(default, tuple):
        default = list(default)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _command_type(field: FieldInfo) -> tuple[Any, list[Any]]:
    """Return the type of an option's text, and the constraints on its value or, for a repeated option, on each.

    The type is the first of several, and a list for a tuple.
    """
    kinds = get_args(field.annotation) if get_origin(field.annotation) in (Union, types.UnionType) else ()
    kind: Any = kinds[0] if kinds else field.annotation
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        details = [part for each in get_args(item)[1:] for part in each.metadata]
        return list[get_args(item)[0] if details else item], details  # type: ignore[misc]
    return (Union[kind, None] if type(None) in kinds else kind), field.metadata  # noqa: UP007
