"""Names of models and their base URL: resolved once, at the edge, and the same in the record as at the endpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from align_echo.agents.players import default_model
from align_echo.align.generation import GenerationConfig, plan_generation
from align_echo.errors import UsageError
from align_echo.evaluate.plan import EvaluationConfig, plan_evaluation
from align_echo.evaluate.playing import play
from align_echo.evaluate.study import plan_study
from align_echo.evaluate.study_file import StudyFile
from tests.align.endpoint import Endpoint, serve

NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def endpoints():
    """Two endpoints with a model that looks."""
    looks: dict[str, Any] = {"m": lambda request: "look"}
    with serve(looks) as first, serve(looks) as second:
        yield first, second


def turns_at(*endpoints: Endpoint) -> list[int]:
    return [len(endpoint.requests) for endpoint in endpoints]


def config_of(**changes: Any) -> EvaluationConfig:
    return EvaluationConfig(env="alfworld", agent="vanilla", tasks=1, turns=2, **changes)


@pytest.mark.parametrize(
    ("option", "variable", "asked"), [(0, None, 0), (0, 1, 0), (None, 1, 1)], ids=["option", "both", "variable"]
)
def test_the_option_goes_before_the_variable_where_the_model_is_asked(
    option, variable, asked, endpoints, run, monkeypatch
):
    if variable is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoints[variable].url)
    address = [] if option is None else ["--base-url", endpoints[option].url]
    command = ["evaluate", "--env", "alfworld", "--agent", "vanilla", "--tasks", "1", "--turns", "2", "--out", "run"]
    status, _, err = run(*command, "--model", "m", *address)
    assert status == 0, err
    assert turns_at(*endpoints) == [2 * (asked == 0), 2 * (asked == 1)]
    record = json.loads(Path("run/config.json").read_text())
    assert record["base_url"] == record["agent_details"]["base_url.agent"] == endpoints[asked].url


def test_a_base_url_is_resolved_before_anything_is_played_and_not_again(endpoints, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_BASE_URL", endpoints[0].url)
    plan = plan_evaluation(config_of(model="m"))
    monkeypatch.setenv("OPENAI_BASE_URL", endpoints[1].url)
    play(plan, tmp_path / "run")
    assert turns_at(*endpoints) == [2, 0]
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert record["base_url"] == record["agent_details"]["base_url.agent"] == endpoints[0].url


def test_a_path_is_a_model_of_the_endpoint_unless_another_is_asked_there(monkeypatch, tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    judged = {"best_of": 2, "temperature": 1.0}

    def places(**options: Any) -> list[tuple[str, str | None]]:
        plan = plan_evaluation(config_of(base_url=NOWHERE, **options))
        return [(name.source, name.base_url) for name in plan.models]

    assert places(model=str(folder)) == [(str(folder), NOWHERE)]
    assert places(model="/models/nowhere/here") == [("/models/nowhere/here", NOWHERE)]
    assert places(model=str(folder), judge="m", **judged) == [(str(folder), None), ("m", NOWHERE)]
    assert places(model="m", judge=str(folder), **judged) == [("m", NOWHERE), (str(folder), None)]
    with pytest.raises(UsageError, match="runs in this process and is asked at no endpoint"):
        places(model=f"transformers:{folder}")


def test_only_models_at_an_endpoint_take_the_base_url(monkeypatch):
    monkeypatch.setattr("align_echo.agents.players.what_pocket_lacks", lambda: "")
    critic = {"refine_rounds": 1, "critic": "m", "temperature": 1.0}
    plan = plan_evaluation(config_of(model="pocket", base_url=NOWHERE, **critic))
    assert [(str(name), name.base_url) for name in plan.models] == [("pocket", None), ("m", NOWHERE)]
    with pytest.raises(UsageError, match="--model pocket runs in this process and is asked at no endpoint"):
        plan_evaluation(config_of(model="pocket", base_url=NOWHERE))
    with pytest.raises(UsageError, match="--model novice is a script and is asked at no endpoint"):
        plan_evaluation(config_of(model="novice", base_url=NOWHERE))


def test_the_variable_names_the_model_of_verbs_without_one(monkeypatch):
    assert default_model() is None
    monkeypatch.setenv("ALIGN_ECHO_MODEL", "novice-careful")
    asked, named = plan_evaluation(config_of()), plan_evaluation(config_of(model="novice"))
    assert [str(plan.player.model) for plan in (asked, named)] == ["novice-careful", "novice"]
    generation = plan_generation(GenerationConfig(env="alfworld", agent="vanilla", iterations=1))
    assert str(generation.player.model) == "novice-careful"


def test_an_agent_without_a_model_ignores_the_variable_and_refuses_the_option(monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_MODEL", "novice")
    assert plan_evaluation(EvaluationConfig(env="alfworld", agent="expert", tasks=1)).player.model is None
    with pytest.raises(UsageError, match="the agent expert asks no model: leave --model out"):
        plan_evaluation(EvaluationConfig(env="alfworld", agent="expert", tasks=1, model="gpt-x"))


def test_a_study_takes_its_models_from_its_file_alone(monkeypatch):
    monkeypatch.setenv("ALIGN_ECHO_MODEL", "gpt-x")
    keys = {"environments": ["alfworld"], "agents": ["novice"], "interface": "generate", "backend": "auto"}
    plan = plan_study(StudyFile.model_validate({**keys, "tasks": 1, "iterations": 1}))
    assert {part.player.model for part in plan.evaluations.values()} == {None}
    assert {part.chosen for part in plan.generations.values()} == {"probe"}
