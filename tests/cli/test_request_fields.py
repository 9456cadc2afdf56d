"""Fields that a user adds to requests: what a server receives from each verb, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from align_echo.align.generation import GenerationConfig, plan_generation
from align_echo.cli.main import main
from align_echo.errors import UsageError
from align_echo.evaluate.ablation import AblationConfig, plan_ablation
from align_echo.evaluate.grid import GridConfig, plan_grid
from align_echo.gaia.flywheel import FlywheelConfig, plan_flywheel
from align_echo.models.choosing import read_name
from align_echo.models.local.chat_template import ChatFormat
from align_echo.types import Message
from tests.align.endpoint import Answer, Endpoint, Status, serve
from tests.cli.door_models import write_interfaces
from tests.cli.room_models import answer

ROOM, DOORS = "tests.cli.room_models:ROOM", "tests.cli.door_models:DOORS"
OPTIONS = {"reasoning-effort": "low", "template-args": '{"enable_thinking": false}', "extra-body": '{"top_k": 20}'}
FIELDS = {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}, "top_k": 20}


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")


def speak(request: Mapping[str, Any]) -> Answer:
    """Answer as the models of the room do, and with an open door elsewhere."""
    messages = [Message(role=message["role"], content=message["content"]) for message in request["messages"]]
    return "open red" if "door" in messages[0].content else answer(messages)


def added(endpoint: Endpoint, name: str = "m") -> list[dict[str, Any]]:
    """Return the fields of each request beside those that every request has."""
    usual = {"model", "messages", "max_tokens", "temperature", "n"}
    return [{key: value for key, value in request.items() if key not in usual} for request in endpoint.asked(name)]


def written(options: Mapping[str, str]) -> list[str]:
    return [text for name, value in options.items() for text in (f"--{name}", value)]


EVALUATE = ["evaluate", "--env", ROOM, "--tasks", "1"]
VERBS = {
    "evaluate": EVALUATE,
    "grid": ["grid", "--env", DOORS, "--agent", "vanilla", "--interface", "./knock.py", "--tasks", "1"],
    "generate-interface": ["generate-interface", "--env", ROOM, "--backend", "llm", "--iterations", "1"],
    "critic collect": ["critic", "collect", "--env", DOORS, "--tasks", "1", "--candidates", "2"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_request_of_a_verb_carries_the_fields(verb, capsys):
    write_interfaces(Path())
    with serve({"m": speak}) as endpoint:
        options = ["--model", "m", "--base-url", endpoint.url, "--out", "run", *written(OPTIONS)]
        assert main([*VERBS[verb], *options]) == 0, capsys.readouterr().err
    assert endpoint.requests
    assert all(fields == FIELDS for fields in added(endpoint))


def test_models_that_a_study_names_are_asked_with_the_fields():
    write_interfaces(Path())
    settings = {name.replace("-", "_"): value for name, value in OPTIONS.items()}
    with serve({"m": speak}) as endpoint:
        study = {"environments": [DOORS], "agents": [{"agent": "vanilla", "model": "m"}, "expert"], "tasks": 1}
        study |= {"interface": "./knock.py", "base_url": endpoint.url, **settings}
        Path("mine.yaml").write_text(yaml.safe_dump(study))
        assert main(["study", "mine.yaml", "--out", "run"]) == 0
    assert endpoint.requests
    assert all(fields == FIELDS for fields in added(endpoint))


def test_other_verbs_pass_the_fields_on():
    named: dict[str, Any] = {name.replace("-", "_"): value for name, value in OPTIONS.items()}
    ablated = plan_ablation("probe", AblationConfig(env="alfworld", model="m", base_url="http://a/v1", **named))
    turned = plan_flywheel(FlywheelConfig(env=DOORS, model="m", critic_model="pocket", **named))
    for plan in (ablated, turned):
        assert plan.player.model is not None
        assert plan.player.model.chat.fields == FIELDS


def test_a_local_model_is_given_its_template_by_every_verb():
    local: dict[str, Any] = {"model": "transformers:x", "chat_template": "own.jinja"}
    write_interfaces(Path())
    grid = plan_grid(GridConfig(env=(DOORS,), agent=("vanilla",), interface="./knock.py", tasks=1, **local))
    players = [
        *grid.players,
        plan_generation(GenerationConfig(env=ROOM, backend="llm", **local)).player,
        plan_flywheel(FlywheelConfig(env=DOORS, critic_model="pocket", **local)).player,
        plan_ablation("probe", AblationConfig(env="alfworld", **local)).player,
    ]
    assert [player.model and player.model.chat.template for player in players] == ["own.jinja"] * 4


def test_a_model_beside_the_agents_is_asked_without_them():
    with serve({"m": speak, "analyst": speak}) as endpoint:
        options = ["--model", "m", "--base-url", endpoint.url, "--analyzer-model", "analyst", *written(OPTIONS)]
        assert main([*VERBS["generate-interface"], *options, "--play-tasks", "0", "--out", "run"]) == 0
    assert endpoint.asked("analyst")
    assert all(fields == {} for fields in added(endpoint, "analyst"))


# ---------------------------------------------------------------- each role has its own, in the user's file

FILE = """\
[lab]
url = "URL"
[lab.models.careful]
model = "big"
reasoning_effort = "high"
extra_body = {top_k = 5}
max_tokens = 777
[lab.models.quick]
model = "big"
template_args = {enable_thinking = false}
[far]
url = "FAR"
"""
CAREFUL = {"model": "big", "reasoning_effort": "high", "top_k": 5, "max_tokens": 777}
QUICK = {"model": "big", "chat_template_kwargs": {"enable_thinking": False}}
ROLES: dict[str, tuple[list[str], dict[str, Any], dict[str, Any]]] = {
    "a judge": ([*EVALUATE, "--best-of", "2", "--temperature", "1", "--reasoning", "--judge"], CAREFUL, QUICK),
    "a critic": (
        [*EVALUATE, "--turns", "1", "--refine-rounds", "1", "--temperature", "1", "--critic"], CAREFUL, QUICK
    ),
    "an analyzer": (
        ["generate-interface", "--env", ROOM, "--backend", "llm", "--iterations", "1", "--play-tasks", "0",
         "--analyzer-model"], CAREFUL, QUICK,
    ),
}  # fmt: skip


@pytest.fixture
def named(monkeypatch, tmp_path):
    """An endpoint with short names, and another one that has a model of its own."""
    def criticise(request: dict[str, Any]) -> Answer:
        is_critic = "<reason>" in str(request["messages"])
        return "<reason>So.</reason><suggestions>Open it.</suggestions>" if is_critic else speak(request)

    with serve({"big": criticise}) as endpoint, serve({"own": speak}) as other:
        file = tmp_path / "endpoints.toml"
        file.write_text(FILE.replace("URL", endpoint.url).replace("FAR", other.url))
        monkeypatch.setenv("ALIGN_ECHO_ENDPOINTS", str(file))
        yield endpoint, other


def without_usual(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name not in ("messages", "temperature", "n")}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_named_by_a_short_name_is_asked_as_the_file_says(role, named, capsys):
    """The agent is asked by another name of the same model, with other fields."""
    endpoint, _ = named
    command, judged, played = ROLES[role]
    status = main([*command, "careful", "--model", "quick", "--base-url", "lab", "--out", "run"])
    assert status == 0, capsys.readouterr().err
    kinds = [without_usual(request) for request in endpoint.requests]
    assert judged in kinds
    assert {**played, "max_tokens": 512} in kinds
    careful = [request for request in kinds if "reasoning_effort" in request]
    assert all(request == judged for request in careful)
    quick = [request for request in kinds if request not in careful]
    assert all(request == {**played, "max_tokens": request["max_tokens"]} for request in quick)


def test_a_role_may_be_asked_at_another_endpoint(named, capsys):
    """`careful` of the first, and a model that the file does not list."""
    endpoint, other = named
    command = [*EVALUATE, "--best-of", "2", "--temperature", "1", "--judge", "far:own", "--model", "lab:careful"]
    assert main([*command, "--out", "run"]) == 0, capsys.readouterr().err
    assert {**CAREFUL} in [without_usual(request) for request in endpoint.requests]
    assert other.asked("own")
    config = json.loads(Path("run/config.json").read_text())
    assert (config["model"], config["base_url"], config["reasoning_effort"]) == ("lab:careful", endpoint.url, "high")


def test_an_option_comes_before_the_file(named, capsys):
    endpoint, _ = named
    command = [*EVALUATE, "--model", "careful", "--base-url", "lab", "--reasoning-effort", "low", "--max-tokens", "50"]
    assert main([*command, "--out", "run"]) == 0, capsys.readouterr().err
    fields = [without_usual(request) for request in endpoint.requests]
    assert all(each == {**CAREFUL, "reasoning_effort": "low", "max_tokens": 50} for each in fields)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('extra_body = {messages = "x"}', "the model bad in .*: --extra-body replaces no messages"),
        ('reasoning_effort = "very much"', "the model bad in .*: --reasoning-effort is a word"),
        ("max_tokens = 3", r"lab\.models\.bad\.max_tokens"),
        ("effort = 3", r"lab\.models\.bad\.effort"),
    ],
)
def test_a_short_name_that_cannot_be_asked_is_one_line(line, says, tmp_path, monkeypatch):
    file = tmp_path / "endpoints.toml"
    file.write_text(f'[lab]\nurl = "http://here/v1"\n[lab.models.bad]\n{line}\n')
    monkeypatch.setenv("ALIGN_ECHO_ENDPOINTS", str(file))
    with pytest.raises(UsageError, match=says) as caught:
        read_name("bad", "lab")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_run_goes_on_with_the_same_fields_only(option, capsys):
    with serve({"m": speak}) as endpoint:
        play = [*EVALUATE, "--model", "m", "--base-url", endpoint.url, "--out", "run"]
        assert main([*play, *written(OPTIONS)]) == 0
        others = {**OPTIONS, option: OPTIONS[option].replace("low", "high").replace("false", "true").replace("2", "3")}
        assert main([*play, "--resume", *written(others)]) == 2
        assert "; resume with the same" in capsys.readouterr().err
        asked = len(endpoint.requests)
        assert main([*play, "--resume", *written(OPTIONS)]) == 0
        assert len(endpoint.requests) == asked
    config = json.loads(Path("run/config.json").read_text())
    assert config["reasoning_effort"] == "low"
    assert json.loads(config["agent_details"]["fields.agent"]) == FIELDS


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        ("Unsupported parameter: 'reasoning_effort' is not supported with this model.", None),
        ("Unrecognized request argument supplied: reasoning_effort", None),
        ('"qwen2.5:0.5b" does not support thinking', None),
        ("reasoning_effort: Input should be 'minimal', 'medium' or 'high'", "minimal"),
        ('think value "low" is not supported for this model', None),
    ],
)
def test_a_refused_effort_is_adapted_once_and_said_once(message, sent, capsys):
    def refuse(request: Mapping[str, Any]) -> Answer:
        if request.get("reasoning_effort") == "low":
            return Status(400, body=json.dumps({"error": {"message": message}}))
        return speak(request)

    with serve({"m": refuse}) as endpoint:
        options = ["--model", "m", "--base-url", endpoint.url, "--reasoning-effort", "low", "--workers", "1"]
        assert main([*EVALUATE, *options, "--out", "run"]) == 0
    assert [request.get("reasoning_effort") for request in endpoint.requests[:3]] == ["low", sent, sent]
    assert capsys.readouterr().err.count("it takes no reasoning effort low") == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"extra-body": "{"}, "--extra-body takes a JSON object"),
        ({"extra-body": '{"x": NaN}'}, "--extra-body takes a JSON object"),
        ({"extra-body": "[1]"}, "--extra-body takes a JSON object"),
        ({"template-args": "x"}, "--template-args takes a JSON object"),
        *(
            ({"extra-body": json.dumps({name: 1})}, f"--extra-body replaces no {name}: ")
            for name in ("messages", "model", "stream", "api_key", "Authorization", "tools", "temperature")
        ),
        ({"reasoning-effort": "very much"}, "--reasoning-effort is a word"),
    ],
)
def test_what_cannot_be_sent_is_one_line(options, line, capsys):
    model = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
    assert main([*EVALUATE, *model, *written(options), "--out", "run"]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("model", "chat", "line"),
    [
        ("transformers:x", ChatFormat(effort="low"), "are for models at endpoints, not for transformers:x: "),
        ("vllm-server:x", ChatFormat(body="{}"), "--template-args sets variables of its template"),
        ("pocket", ChatFormat(effort="low"), "--reasoning-effort: pocket takes no options of its chats"),
        ("m", ChatFormat("own.jinja"), "--chat-template is for models that take token ids, not for m"),
    ],
)
def test_models_refuse_what_they_do_not_take(model, chat, line):
    with pytest.raises(UsageError, match=line):
        read_name(model, chat=chat)


def test_an_agent_without_a_model_takes_no_fields(capsys):
    assert main([*EVALUATE, "--agent", "random", "--reasoning-effort", "low", "--out", "run"]) == 2
    assert "the agent random asks no model: leave --reasoning-effort out" in capsys.readouterr().err


SEEN = dict.fromkeys(
    ("reasoning_effort", "extra_body", "template_args"), test_every_request_of_a_verb_carries_the_fields
) | {"chat_template": test_a_local_model_is_given_its_template_by_every_verb}
"""Options whose effect is seen here, for the tables of other verbs."""
