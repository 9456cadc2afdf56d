"""WebShop pages as HTML for people: the agent's text, with forms to search and to click.

There are no images: the embedded products have none, and the official ones are on another shop's server.
"""

from __future__ import annotations

import functools
from importlib import resources

import jinja2

from align_echo.wrappers.webshop.pages import Shop, ShopPage


def html(shop: Shop, page: ShopPage) -> str:
    """Render a complete HTML document for a page. Every text of the catalogue is escaped."""
    return _template().render(
        title=page.kind,
        nodes=shop.nodes(page),
        chosen=page.chosen,
        query=page.query,
        done=page.kind == "done",
        score=page.score,
    )


@functools.cache
def _template() -> jinja2.Template:
    source = resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(source)
