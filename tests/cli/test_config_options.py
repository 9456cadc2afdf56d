"""A verb's options are the fields of its config model: in Python and on the command line alike."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

import pytest
import typer
from pydantic import Field
from typer.main import get_command

from align_echo.agents import options
from align_echo.agents.options import VerbConfig
from align_echo.agents.players import MODEL_VARIABLE, default_model
from align_echo.align.generation import GenerationConfig
from align_echo.cli.main import app, main
from align_echo.cli.options import takes
from align_echo.errors import UsageError
from align_echo.evaluate.ablation import AblationConfig
from align_echo.evaluate.grid import GridConfig
from align_echo.evaluate.plan import EvaluationConfig, plan_evaluation
from align_echo.gaia.collect import CollectionConfig
from align_echo.gaia.flywheel import FlywheelConfig
from align_echo.gaia.trial import TrialConfig

CONFIGS: dict[str, type[VerbConfig]] = {
    "evaluate": EvaluationConfig,
    "generate-interface": GenerationConfig,
    "grid": GridConfig,
    "interface ablate": AblationConfig,
    "critic collect": CollectionConfig,
    "critic evaluate": TrialConfig,
    "critic flywheel": FlywheelConfig,
}


class SampleConfig(VerbConfig):
    """Each kind of option."""

    name: str
    items: Annotated[tuple[Annotated[int, Field(ge=2)], ...], Field(description="Some.")] = (2,)
    share: Annotated[float, Field(ge=0, le=1, description="A share.")] = 0.5
    quick: Annotated[bool, Field(description="Quick or not.")] = True
    plain: Annotated[bool, Field(description="Plain or not.")] = False
    folder: Annotated[Path | None, Field(description="A folder.")] = None
    model: options.Model = Field(default_factory=default_model)


def parse(*arguments: str) -> SampleConfig:
    configs: list[SampleConfig] = []
    sample = typer.Typer(pretty_exceptions_enable=False)

    @sample.command()
    @takes(SampleConfig)
    def verb(config: SampleConfig, later: Annotated[int, typer.Option("--later")] = 1) -> None:
        """Do nothing."""
        assert later == 1
        configs.append(config)

    sample(args=list(arguments), standalone_mode=False)
    return configs[0]


def find_verb(name: str):
    command = get_command(app)
    for part in name.split():
        command = command.commands[part]  # type: ignore[attr-defined]
    return command


@pytest.mark.parametrize("verb", CONFIGS)
def test_each_field_is_an_option_with_its_help_and_bounds(verb):
    parameters = {parameter.name: parameter for parameter in find_verb(verb).params}
    for name, field in CONFIGS[verb].model_fields.items():
        assert parameters[name].opts[0] == f"--{name.replace('_', '-')}"
        assert parameters[name].help == field.description
        assert parameters[name].required == field.is_required()
        for part in field.metadata:
            assert not hasattr(part, "ge") or parameters[name].min == part.ge
            assert not hasattr(part, "le") or parameters[name].max == part.le


def test_a_verbs_function_takes_a_config_model_alone():
    assert list(inspect.signature(plan_evaluation).parameters) == ["config"]


def test_options_become_the_config(monkeypatch):
    monkeypatch.delenv(MODEL_VARIABLE, raising=False)
    assert parse("--name", "a") == SampleConfig(name="a")
    line = "--name b --items 3 --items 4 --no-quick --plain --share 1 --folder x"
    parsed = parse(*line.split())
    assert parsed == SampleConfig(name="b", items=(3, 4), quick=False, plain=True, share=1.0, folder=Path("x"))


@pytest.mark.parametrize(
    "arguments",
    [(), ("--name", "a", "--items", "1"), ("--name", "a", "--share", "1.5"), ("--name", "a", "--no-plain")],
)
def test_what_the_model_refuses_the_command_refuses(arguments):
    with pytest.raises(typer.TyperException):
        parse(*arguments)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "--name"),
        ({"name": ""}, "--name: the name is empty"),
        ({"name": "a", "model": " "}, "--model: the name is empty"),
        ({"name": "a", "items": (1,)}, "--items.0: must be at least 2, not 1"),
        ({"name": "a", "share": 2}, "--share"),
        ({"name": "a", "later_share": 0.5}, "--later-share: there is no such setting"),
    ],
)
def test_in_python_a_wrong_option_is_one_line(values, message):
    with pytest.raises(UsageError) as refused:
        SampleConfig(**values)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_the_model_of_the_environment_variable_is_the_default_in_python_and_on_the_command_line(monkeypatch):
    monkeypatch.setenv(MODEL_VARIABLE, "looker")
    assert SampleConfig(name="a").model == parse("--name", "a").model == "looker"
    assert parse("--name", "a", "--model", "pocket").model == "pocket"
    assert SampleConfig(name="a", model=None).model is None


def test_a_verb_refuses_a_bound_of_its_config_with_status_2(capsys):
    assert main(["evaluate", "--env", "alfworld", "--turns", "0"]) == 2
    assert "--turns" in capsys.readouterr().err


SHARED = {
    "base_url": "*", "max_cost": "*", "max_requests": "*", "max_tokens_total": "*",
    **dict.fromkeys(("model", "chat_template", "template_args", "reasoning_effort", "extra_body"), "agent"),
    **dict.fromkeys(("agent", "max_tokens", "workers"), "agent"),
    "turns": "plays",
}  # fmt: skip
"""Options with one meaning for several verbs: for all that ask models, all with an agent, all whose episodes end by a
step limit of the user's.
"""


@pytest.mark.parametrize("verb", CONFIGS)
def test_verbs_for_which_an_option_has_a_meaning_have_it(verb):
    kinds = {"*"} | ({"agent"} if "model" in CONFIGS[verb].model_fields else set())
    kinds |= {"plays"} if "agent" in kinds and verb != "generate-interface" else set()
    assert {name for name, kind in SHARED.items() if kind in kinds} - {*CONFIGS[verb].model_fields} == set()
