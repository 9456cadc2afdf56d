"""The way to a server: what the environment's variables do to it, and that nothing for this machine leaves it."""

from __future__ import annotations

import os
import socket

import pytest

from align_echo.base.network import find_route, is_this_machine
from align_echo.errors import EngineError, ModelError, UsageError
from align_echo.models.client import RetryPolicy
from align_echo.models.local.vllm_server import VllmServer
from align_echo.models.openai_model import OpenAICompatibleModel
from align_echo.types import Message
from align_echo.wrappers.searchqa.client import request_url, search_at
from tests.hostile_endpoint.faults import said
from tests.hostile_endpoint.server import serving

HELLO = (Message(role="user", content="Hello?"),)
KEY = "sk-planted-3f9a77c1"
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir", "sslkeylogfile")
PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower() in VARIABLES or name.startswith("OPENAI_") or name == "ALIGN_ECHO_API_KEY":
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def reply(base_url: str) -> str:
    model = OpenAICompatibleModel("m", base_url=base_url, retry=RetryPolicy(attempts=1), wait=lambda seconds: None)
    return model.complete(HELLO, temperature=0).text


# ---------------------------------------------------------------- this machine


@pytest.mark.parametrize("variable", PROXY_VARIABLES)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "127.1", "0.0.0.0", "[::ffff:127.0.0.1]"])
def test_a_request_to_this_machine_and_its_key_go_past_any_proxy(variable, host, monkeypatch):
    with serving(lambda exchange: exchange.answer(said("look"))) as server, serving(lambda exchange: None) as proxy:
        monkeypatch.setenv(variable, proxy.url.removesuffix("/v1"))
        assert reply(server.url.replace("127.0.0.1", host)) == "look"
        assert proxy.headers == []
        assert f"Bearer {KEY}" in server.headers[0]


def test_a_vllm_server_and_a_retrieval_server_on_this_machine_are_asked_past_any_proxy(monkeypatch):
    with serving(lambda exchange: exchange.answer(b"{}")) as server, serving(lambda exchange: None) as proxy:
        for variable in PROXY_VARIABLES:
            monkeypatch.setenv(variable, proxy.url.removesuffix("/v1"))
        with pytest.raises(ModelError):
            VllmServer("m", base_url=server.url, wait=lambda seconds: None)
        with pytest.raises(EngineError, match="does not speak the protocol"):
            search_at(request_url(server.url), "tea", 3)
        assert len(server.headers) > 1
        assert proxy.headers == []


@pytest.mark.parametrize(
    "host", ["127.255.0.9", "::1", "localhost.", "models.localhost", "0x7f.1", "2130706433", "::", "::ffff:127.0.0.1"]
)
def test_a_loopback_is_this_machine_however_it_is_written(host):
    assert is_this_machine(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "128.0.0.1", "localhost.example", "notlocalhost", "::2", "example", ""])
def test_other_hosts_are_not_this_machine(host):
    assert not is_this_machine(host)


def test_no_bad_variable_is_in_the_way_of_this_machine(monkeypatch):
    for name in (*PROXY_VARIABLES, "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE"):
        monkeypatch.setenv(name, "foo://nowhere")
    with serving(lambda exchange: exchange.answer(said("look"))) as server:
        assert reply(server.url) == "look"


# ---------------------------------------------------------------- proxies


@pytest.mark.parametrize("variable", PROXY_VARIABLES)
def test_other_servers_are_asked_through_the_proxy_that_a_variable_names(variable, monkeypatch):
    with serving(lambda exchange: exchange.answer(said("by proxy"))) as proxy:
        address = proxy.url.removesuffix("/v1").removeprefix("http://")
        monkeypatch.setenv(variable, f"http://me:hunter22@{address}" if variable.islower() else address)
        assert reply("http://models.example/v1") == "by proxy"
        assert proxy.headers[0].startswith("POST http://models.example/v1/chat/completions ")


@pytest.mark.parametrize(
    "listed",
    [
        *("*", "models.example", ".example", "*.example", "EXAMPLE", "other, models.example", "a models.example b"),
        *("models.example:80", "http://models.example", "[::1],*x*,models.example"),
    ],
)
def test_what_no_proxy_lists_is_asked_directly(listed, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", listed)
    assert find_route("http://models.example/v1").proxy is None


@pytest.mark.parametrize("listed", ["", ",", "models.example:81", "ls.example", "10.0.0.0/8", "[::1", "%", "x*"])
def test_what_no_proxy_does_not_list_is_asked_by_the_proxy(listed, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", listed)
    assert find_route("http://models.example/v1").proxy == "http://proxy.example:3128"


@pytest.mark.parametrize("listed", ["10.1.2.3", "10.0.0.0/8", "10.1.2.3/16", "fd00::/8", "[fd00::1]", "fd00::1"])
def test_addresses_and_networks_can_be_listed(listed, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", listed)
    hosts = ("10.1.2.3", "[fd00::1]")
    assert [find_route(f"http://{host}/v1").proxy is None for host in hosts] == ["." in listed, ":" in listed]


BAD_PROXIES = {
    "foo://proxy.example:1": "a proxy of the kind 'foo', which is unknown",
    "socks4://proxy.example:1": "a proxy of the kind 'socks4', which is unknown",
    "http://": "no address of a proxy",
    "http://proxy.example:99999": "no address of a proxy",
    "http://proxy.example:x": "no address of a proxy",
    "http://[::1": "no address of a proxy",
    "http://pro xy.example": "no address of a proxy",
    "http://proxy..example": "no address of a proxy",
    "http://pröxy.example": "no address of a proxy",
    "http://me:hunter22/x@proxy.example": "no address of a proxy",
    "://": "no address of a proxy",
}


@pytest.mark.parametrize("value", BAD_PROXIES)
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "all_proxy"])
def test_a_variable_that_names_no_proxy_is_one_line_with_its_name(variable, value, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError) as refused:
        OpenAICompatibleModel("m", base_url="https://models.example/v1")
    said_of_it = str(refused.value)
    assert said_of_it.startswith(f"${variable} ")
    assert BAD_PROXIES[value] in said_of_it
    assert "unset the variable" in said_of_it
    assert "hunter22" not in said_of_it
    with pytest.raises(UsageError, match=variable):
        request_url("https://search.example")


def test_a_socks_proxy_without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr("align_echo.base.network.find_spec", lambda name: None)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")
    with pytest.raises(UsageError, match=r"^\$ALL_PROXY names a SOCKS proxy, which needs `pip install socksio`"):
        OpenAICompatibleModel("m", base_url="https://models.example/v1")


def test_a_proxy_that_is_away_is_named_and_its_password_is_not(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:hunter22@127.0.0.1:{port}")
    with pytest.raises(UsageError) as refused:
        reply("https://models.example/v1")
    assert "nothing listens there (connection refused) through the proxy of $HTTPS_PROXY" in str(refused.value)
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_asks_for_a_password_ends_it_at_once(scheme, monkeypatch):
    with serving(lambda exchange: exchange.answer(b"", "407 Proxy Authentication Required")) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", proxy.url.removesuffix("/v1"))
        model = OpenAICompatibleModel("m", base_url=f"{scheme}://models.example/v1", wait=lambda seconds: None)
        with pytest.raises(UsageError, match=r"prox.*user and a password \(407\)"):
            model.complete(HELLO, temperature=0)
        assert len(proxy.headers) == 1


def test_proxies_of_the_system_are_heeded_too(monkeypatch):
    proxies = {"http": "http://proxy.example:1", "no": "x.example"}
    monkeypatch.setattr("align_echo.base.network.getproxies", lambda: proxies)
    assert find_route("http://models.example/v1").through == " through the proxy of the system's settings"
    assert find_route("http://x.example/v1").proxy is None


# ---------------------------------------------------------------- certificates, headers, addresses


BAD_CERTIFICATES = {
    "no file": ("SSL_CERT_FILE", "nowhere"),
    "a folder": ("SSL_CERT_FILE", "."),
    "an empty file": ("SSL_CERT_FILE", "empty"),
    "another file": ("SSL_CERT_FILE", "text"),
    "a pipe": ("SSL_CERT_FILE", "pipe"),
    "no folder": ("SSL_CERT_DIR", "nowhere"),
    "a file for a folder": ("SSL_CERT_DIR", "text"),
    "a log of keys in no folder": ("SSLKEYLOGFILE", "nowhere/keys"),
    "a folder for a log of keys": ("SSLKEYLOGFILE", "."),
}


@pytest.mark.parametrize("name", BAD_CERTIFICATES)
def test_a_variable_that_names_no_certificates_is_one_line_with_its_name(name, monkeypatch, tmp_path):
    variable, file = BAD_CERTIFICATES[name]
    (tmp_path / "empty").write_text("")
    (tmp_path / "text").write_text("no certificate")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv(variable, str(tmp_path / file))
    for connect in (lambda url: OpenAICompatibleModel("m", base_url=url), request_url):
        with pytest.raises(UsageError) as refused:
            connect("https://models.example")
        assert str(refused.value).startswith(f"${variable} names '{tmp_path / file}', which ")
        assert "unset it" in str(refused.value)
        assert "\n" not in str(refused.value)


BAD_HEADERS = {
    "OPENAI_ORG_ID": ["org\r\nX-Evil: 1", "org\x07", "örg", " org", "org\n"],
    "OPENAI_PROJECT_ID": ["p\n"],
    "OPENAI_CUSTOM_HEADERS": ["no colon", "a b: c", "X-Team: é", ": x", "X-Ok: 1\nX-Bad\x01: 2", "X: a\x0bb"],
}


@pytest.mark.parametrize(("variable", "value"), [(name, value) for name, bad in BAD_HEADERS.items() for value in bad])
def test_a_variable_that_is_no_header_is_one_line_with_its_name(variable, value, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=rf"^\${variable} holds .* unset it$") as refused:
        OpenAICompatibleModel("m", base_url="http://127.0.0.1:1/v1")
    assert value not in str(refused.value)


def test_headers_of_variables_are_sent_and_their_secrets_are_known(monkeypatch):
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: blue\n\nX-Gateway-Token: gate-77aa01bc\n")
    with serving(lambda exchange: exchange.answer(said(f"team blue, gate-77aa01bc, {exchange.headers}"))) as server:
        text = reply(server.url)
        assert "openai-organization: org-1" in server.headers[0].lower()
        assert "gate-77aa01bc" in server.headers[0]
    assert ["team blue" in text, "gate-77aa01bc" in text] == [True, False]


@pytest.mark.parametrize("host", ["models..example", "☃.example", "-x-.é", "[v1.x]", f"{'x' * 64}.example", ".example"])
def test_a_host_that_no_client_can_ask_is_one_line(host, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://{host}/v1")
    with pytest.raises(UsageError, match=r"the base URL|can be no host's name"):
        OpenAICompatibleModel("m")


@pytest.mark.parametrize("url", ["127.0.0.1:8000/v1", "localhost:8000", "ftp://x/v1", "//x/v1", "models.example"])
def test_an_address_in_the_variable_without_a_scheme_names_the_variable(url, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(UsageError, match=r"the base URL in \$OPENAI_BASE_URL .* must start with http:// or https://"):
        OpenAICompatibleModel("m")


def test_a_key_that_is_no_text_is_one_line(monkeypatch):
    monkeypatch.setitem(os.environb, b"OPENAI_API_KEY", b"sk-planted-\xff\xfe77aa")
    with pytest.raises(UsageError, match=r"the key in \$OPENAI_API_KEY holds"):
        OpenAICompatibleModel("m", base_url="http://127.0.0.1:1/v1")
