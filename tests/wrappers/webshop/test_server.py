"""A person shops a task over real HTTP."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest

from align_echo.cli.main import main
from align_echo.wrappers.webshop.catalogue import open_catalogue
from align_echo.wrappers.webshop.env import ShopOracle
from align_echo.wrappers.webshop.pages import Shop, ShopPage, html, plain_text
from align_echo.wrappers.webshop.server import make_server
from tests.wrappers.webshop.tiny_data import item, write_data


@pytest.fixture
def shop(embedded):
    return Shop(embedded, embedded.goal("goal-3"))


@pytest.fixture
def address(shop) -> Iterator[str]:
    with make_server(shop, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def browser() -> OpenerDirector:
    return build_opener(HTTPCookieProcessor(CookieJar()))


def read(opener: OpenerDirector, address: str, **form: str) -> str:
    data = urlencode(form).encode() if form else None
    return str(opener.open(address, data).read().decode())


def test_a_person_searches_clicks_and_buys(shop, address):
    me, page = browser(), ShopPage()
    assert shop.goal.instruction in unescape(read(me, address))
    while (action := ShopOracle(shop, page).expert_action()) is not None:
        name, _, argument = action.rstrip("]").partition("[")
        body = read(me, address, **{name: argument})
        page = shop.follow(page, action)
    assert "Score: 1.0" in body
    assert 'name="click"' not in body
    assert "Score: 1.0" in read(me, address, search="lamp")
    assert 'name="search"' in read(me, address, again="1")


def test_the_page_of_a_person_has_the_texts_of_an_agents_page(shop, address):
    me = browser()
    body = read(me, address, search="speaker")
    page = shop.follow(ShopPage(), "search[speaker]")
    shown = [unescape(text) for text in re.findall(r"<p>(.*?)</p>|\">([^<]*)</button>", body) for text in text if text]
    assert shown == plain_text(shop.nodes(page)).split(" [SEP] ")


def test_chosen_options_are_marked(shop):
    page = ShopOracle(shop, ShopPage())
    opened = ShopPage()
    for action in (page.route() or [])[:-1]:
        opened = shop.follow(opened, action)
    assert html(shop, opened).count('aria-pressed="true"') == len(opened.options) > 0


def test_two_people_shop_apart(address):
    me, you = browser(), browser()
    read(me, address, search="curtain")
    assert "Total results" not in read(you, address)
    assert "Total results" in read(me, address)


def test_what_a_catalogue_holds_is_escaped(tmp_path):
    evil = item("B000000001", "<script>alert(1)</script> lamp", full_description="<b>bold</b>")
    catalogue = open_catalogue(write_data(tmp_path, items=[evil]))
    shop = Shop(catalogue, catalogue.goal("goal-0"))
    body = html(shop, shop.follow(ShopPage(), 'search[lamp "><script>]'))
    assert "<script>" not in body
    assert "&lt;script&gt;alert(1)" in body


def test_other_addresses_and_forms_without_end_are_refused(address):
    with pytest.raises(HTTPError, match="404"):
        browser().open(f"{address}etc")
    with pytest.raises(HTTPError, match="400"):
        browser().open(address, b"search=" + b"a" * 20_000)


def post(address: str, length: bytes) -> bytes:
    """The status line of a form that says it is so long."""
    with socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1].rstrip("/")))) as sent:
        sent.sendall(b"POST / HTTP/1.0\r\nContent-Length: " + length + b"\r\n\r\nsearch=a")
        return sent.makefile("rb").readline()


@pytest.mark.parametrize("length", [b"", b"-1", b"\xb2", b"1_0", b"9" * 5000])
def test_a_form_of_a_length_that_is_none_is_refused(address, capsys, length):
    assert post(address, length).split()[1] == b"400"
    assert capsys.readouterr().err == ""


def test_nothing_is_said_of_a_browser_that_goes_away(shop, capsys):
    with make_server(shop, 0) as server:
        gone = socket.create_connection(("127.0.0.1", server.server_port))
        gone.sendall(b"POST / HTTP/1.0\r\nContent-Length: 50\r\n\r\nsearch=")
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # end with a reset
        gone.close()
        server.daemon_threads = False  # closing the server then waits for the answer
        server.handle_request()
    assert capsys.readouterr().err == ""


def test_the_verb_prints_where_to_go(tmp_path):
    command = [sys.executable, "-m", "align_echo_command", "shop", "--task", "goal-3", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        where = line.partition(": ")[2].strip()
        assert "Instruction:" in read(browser(), where)
        process.terminate()
    assert line.startswith("goal-3: http://127.0.0.1:")


def test_an_unknown_task_and_a_port_that_is_taken_are_one_line(address, capsys):
    assert main(["shop", "--task", "goal-123456"]) == 2
    assert main(["shop", "--port", address.rsplit(":", 1)[1].rstrip("/")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "there is no WebShop task 'goal-123456'" in errors[0]
    assert "take another one" in errors[1]
