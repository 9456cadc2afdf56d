"""Endpoints by short names of the user's file, and the models that an endpoint lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from align_echo.errors import UsageError, without_secrets
from align_echo.models.endpoint import read_endpoint
from align_echo.models.openai_model import OpenAICompatibleModel, list_models
from align_echo.types import Message
from tests.align.endpoint import Reply, Status, serve
from tests.hostile_endpoint.server import Exchange, serving

HELLO = (Message(role="user", content="Hello?"),)


@pytest.fixture(autouse=True)
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("OPENAI_API_KEY", "ALIGN_ECHO_API_KEY", "OPENAI_BASE_URL", "ALIGN_ECHO_ENDPOINTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "align-echo").mkdir()
    return tmp_path / "align-echo" / "endpoints.toml"


def test_a_name_stands_for_its_url_key_limits_and_prices(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve({"m": [Reply("Hi.", prompt_tokens=1_000_000, completion_tokens=1_000_000)]}) as endpoint:
        file.write_text(
            f'[lab]\nurl = "{endpoint.url}/"\nkey = "LAB_KEY"\nconcurrency = 3\ntimeout = 7\n'
            "prices = {m = {prompt = 2.5, completion = 1}}\n"
        )
        with pytest.raises(UsageError, match=r"is read from \$LAB_KEY, which is not set"):
            OpenAICompatibleModel("m", base_url="lab")
        monkeypatch.setenv("LAB_KEY", "sk-lab-0123456789")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-0123456789")
        model = OpenAICompatibleModel("m", base_url="lab")
        assert model.complete(HELLO, temperature=0).usage.cost_usd == 3.5
        assert endpoint.authorizations == ["Bearer sk-lab-0123456789"]
        assert model.base_url == endpoint.url
        assert (model._most, model._client.timeout) == (3, 7)


def test_a_name_stands_in_the_variable_too_and_a_refused_key_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve({"m": [Status(401)]}) as endpoint:
        file.write_text(f'[lab]\nurl = "{endpoint.url}"\nkey = "LAB_KEY"\n')
        monkeypatch.setenv("LAB_KEY", "sk-lab-0123456789")
        monkeypatch.setenv("OPENAI_BASE_URL", "lab")
        with pytest.raises(UsageError, match=r"refuses the key \(401\): check LAB_KEY;"):
            OpenAICompatibleModel("m").complete(HELLO, temperature=0)


def test_an_unknown_name_is_answered_with_the_known(file: Path) -> None:
    file.write_text('[lab]\nurl = "http://here/v1"\n[home]\nurl = "http://there/v1"\n')
    with pytest.raises(UsageError, match=r"'labb' must start with http.*, or be one of lab, home$"):
        read_endpoint("labb")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[lab", "not readable"),
        ("[lab]\n", "url"),
        ('[lab]\nurl = "http://here/v1"\nkeys = "X"\n', "keys"),
        ('[lab]\nurl = "http://here/v1"\nconcurrency = 0\n', "concurrency"),
        ('[lab]\nurl = "here"\n', r"URL of \[lab\] .* must start with http.*/v1$"),
        ('[lab]\nurl = "lab"\n', "must start with http"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        read_endpoint("lab")
    assert "\n" not in str(caught.value)


def test_a_file_in_the_current_folder_is_read_only_if_the_variable_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endpoints.toml").write_text('[lab]\nurl = "http://here/v1"\n')
    with pytest.raises(UsageError, match="must start with http"):
        read_endpoint("lab")
    monkeypatch.setenv("ALIGN_ECHO_ENDPOINTS", "endpoints.toml")
    assert read_endpoint("lab").url == "http://here/v1"


def test_the_models_of_an_endpoint_are_listed() -> None:
    with serve({"/models/X": [], "b": [], "odd\x1b": []}) as endpoint:
        assert list_models(endpoint.url) == ["/models/X", "b"]
    with pytest.raises(UsageError, match=r"cannot be reached|does not list"):
        list_models(endpoint.url)


def test_a_server_that_cannot_list_its_models_is_named() -> None:
    def broken(exchange: Exchange) -> None:
        exchange.answer(b"Internal Server Error", "500 Internal Server Error")

    with serving(broken) as server, pytest.raises(UsageError, match=r"/v1 does not list its models: status 500"):
        list_models(server.url)


def test_a_model_of_a_server_may_be_called_by_a_path() -> None:
    with serve({"/models/X": [Reply("Hi.")]}) as endpoint:
        model = OpenAICompatibleModel("/models/X", base_url=endpoint.url)
        assert model.complete(HELLO, temperature=0).text == "Hi."


def test_a_folder_that_the_endpoint_does_not_know_can_run_here(tmp_path: Path) -> None:
    with serve({}) as endpoint, pytest.raises(UsageError, match=rf"transformers:{tmp_path}, without --base-url"):
        OpenAICompatibleModel(str(tmp_path), base_url=endpoint.url).complete(HELLO, temperature=0)


@pytest.mark.parametrize("price", ["-1", "nan", "inf", '"1"'])
def test_a_price_that_is_none_is_refused(price: str, file: Path) -> None:
    file.write_text(f'[lab]\nurl = "http://here/v1"\nprices = {{m = {{prompt = {price}, completion = 1}}}}\n')
    with pytest.raises(UsageError, match=r"lab\.prices\.m\.prompt: "):
        read_endpoint("lab")


def test_a_key_in_place_of_its_variable_is_refused_and_not_shown(file: Path) -> None:
    file.write_text('[lab]\nurl = "http://here/v1"\nkey = "sk-Abc123456789xyzT"\n')
    with pytest.raises(UsageError, match=r"lab\.key: names the variable that holds the key") as caught:
        read_endpoint("lab")
    assert "Abc123456789" not in without_secrets(str(caught.value))
