"""Pages as WebShop's documents have them: texts, clickables, where each click leads."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from align_echo.wrappers.webshop.catalogue import ProductCatalogue
from align_echo.wrappers.webshop.pages import Shop, ShopPage, clickables, parse_action, plain_text, rich_text

TASK = "i need a brass lamp"


@pytest.fixture
def shop(official: ProductCatalogue) -> Shop:
    return Shop(official, next(goal for goal in official._goals if goal.instruction.startswith(TASK)))


@pytest.fixture
def visit(shop: Shop):
    """The page after some actions from the first."""

    def go(*actions: str) -> ShopPage:
        page = ShopPage()
        for action in actions:
            page = shop.follow(page, action)
        return page

    return go


@pytest.fixture
def text(shop: Shop, visit):
    return lambda *actions: plain_text(shop.nodes(visit(*actions))).replace(shop.goal.instruction, "TASK")


@pytest.fixture
def clicks(shop: Shop, visit):
    return lambda *actions: clickables(shop.nodes(visit(*actions)))


@pytest.fixture
def rich(shop: Shop, visit):
    def read(*actions: str) -> str:
        page = visit(*actions)
        return rich_text(shop.nodes(page), page).replace(shop.goal.instruction, "TASK")

    return read


LAMP = ("search[brass desk lamp]", "click[b000000001]")
OPTIONS = "color [SEP] dark navy [SEP] black | white [SEP] size [SEP] xl"
LAMP_PAGE = (
    f"Instruction: [SEP] TASK [SEP] Back to Search [SEP] < Prev [SEP] {OPTIONS} [SEP] Brass Desk Lamp [SEP] "
    "Price: $10.0 to $20.0 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
)


def test_the_first_page(text, clicks):
    assert text() == "WebShop [SEP] Instruction: [SEP] TASK [SEP] Search"
    assert clicks() == ("search",)


def test_a_page_of_results(text, clicks):
    shown = text("search[Brass]")
    assert shown == (
        "Instruction: [SEP] TASK [SEP] Back to Search [SEP] Page 1 (Total results: 1) [SEP] Next > [SEP] "
        "B000000001 [SEP] Brass Desk Lamp [SEP] $10.0 to $20.0"
    )
    assert clicks("search[Brass]") == ("back to search", "next >", "b000000001")


def test_a_search_gives_fifty_at_most_and_ten_a_page(text, clicks):
    assert " Page 1 (Total results: 50) [SEP] Next > [SEP] B0" in text("search[lamp]")
    assert len(clicks("search[lamp]")) == 2 + 10


def test_a_search_without_results_has_a_page_too(text):
    empty = "Instruction: [SEP] TASK [SEP] Back to Search [SEP] Page 1 (Total results: 0) [SEP] Next >"
    assert text("search[xylophone]") == empty
    assert text("search[ ]") == empty
    assert text("search[the]") == empty


def test_next_goes_past_the_end_and_prev_comes_back(text):
    turns = ["click[next >]"] * 6
    assert text("search[lamp]", *turns) == (
        "Instruction: [SEP] TASK [SEP] Back to Search [SEP] Page 7 (Total results: 50) [SEP] < Prev [SEP] Next >"
    )
    assert text("search[lamp]", *turns, "click[< prev]") == text("search[lamp]", *turns[:5])
    assert text("search[lamp]", turns[0], "click[< Prev]") == text("search[lamp]")
    assert text("search[lamp]", "click[< prev]") == text("search[lamp]")


def test_the_item_page(text, clicks):
    assert text(*LAMP) == LAMP_PAGE
    buttons = ("back to search", "< prev", "description", "features", "reviews", "buy now")
    assert clicks(*LAMP) == (*buttons, "dark navy", "black | white", "xl")


def test_a_product_without_price_or_options(text):
    assert text("search[oak]", "click[b000000002]") == (
        "Instruction: [SEP] TASK [SEP] Back to Search [SEP] < Prev [SEP] Oak Table [SEP] Price: $100.0 [SEP] "
        "Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("Description", " [SEP] All about the Brass Desk Lamp."),
        ("Features", " [SEP] A Brass Desk Lamp you can trust [SEP] Made to last"),
        ("Reviews", ""),
    ],
)
def test_the_sub_pages(text, clicks, name, content):
    actions = (*LAMP, f"click[{name}]")
    assert text(*actions) == f"Instruction: [SEP] TASK [SEP] Back to Search [SEP] < Prev{content}"
    assert clicks(*actions) == ("back to search", "< prev")


def test_a_description_may_be_empty(text):
    assert text("search[chandelier]", "click[b000000003]", "click[description]").endswith("[SEP] < Prev")


def test_attributes_are_shown_only_where_asked_for(official, shop, text):
    assert "Attributes" not in text(*LAMP)
    open_ = Shop(official, shop.goal, show_attrs=True)
    page = ShopPage()
    for action in LAMP:
        page = open_.follow(page, action)
    assert "Reviews [SEP] Attributes [SEP] Buy Now" in plain_text(open_.nodes(page))
    shown = plain_text(open_.nodes(open_.follow(page, "click[attributes]")))
    attributes = "easy clean [SEP] solid brass [SEP] garden [SEP] desk lamps [SEP] Home › Lighting › Lamps"
    assert shown.endswith(f"< Prev [SEP] {attributes}")
    assert shop.follow(page, "click[attributes]") is page


def test_the_last_page(text, clicks):
    bought = (*LAMP, "click[xl]", "click[dark navy]", "click[buy now]")
    assert text(*bought) == (
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk interface.) [SEP] "
        'Purchased [SEP] asin [SEP] B000000001 [SEP] options [SEP] {"color": "dark navy", "size": "xl"} [SEP] '
        "attrs [SEP] None [SEP] category [SEP] None [SEP] query [SEP] None [SEP] product category [SEP] None [SEP] "
        "Target [SEP] asin [SEP] options [SEP] attrs [SEP] price upper [SEP] instuction text [SEP] category [SEP] "
        "product category [SEP] query [SEP] Goal [SEP] None [SEP] Reward [SEP] "
        "Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP] Reward Details [SEP] None"
    )
    assert clicks(*bought) == ()
    assert "(min 0.0, max 1.0) [SEP] 0.75 [SEP] " in text(*LAMP, "click[xl]", "click[buy now]")


# ---------------------------------------------------------------- actions


def test_a_search_is_accepted_on_any_page_and_clears_what_was_chosen(visit):
    for actions in ((), LAMP, (*LAMP, "click[xl]"), (*LAMP, "click[features]"), ("search[oak]", "click[next >]")):
        page = visit(*actions, "search[Brass Desk LAMP]")
        assert (page.kind, page.query, page.number) == ("results", "brass desk lamp", 1)
        assert (page.item, page.options) == (-1, ())


def test_choosing_again_in_a_group_replaces_the_value(visit):
    page = visit(*LAMP, "click[dark navy]", "click[xl]", "click[BLACK | white]")
    assert dict(page.options) == {"color": "black | white", "size": "xl"}


def test_the_text_does_not_show_what_was_chosen(text):
    assert text(*LAMP, "click[xl]") == text(*LAMP)


def test_prev_from_the_item_page_clears_what_was_chosen_and_from_a_sub_page_keeps_it(visit):
    chosen = (*LAMP, "click[xl]")
    assert visit(*chosen, "click[description]", "click[< prev]").options == (("size", "xl"),)
    assert visit(*chosen, "click[< prev]", "click[b000000001]").options == ()
    assert visit("search[lamp]", "click[next >]", "click[next >]").number == 3


def test_prev_from_the_item_page_comes_back_to_the_same_page_of_results(shop, visit):
    page = visit("search[lamp]", "click[next >]")
    code = clickables(shop.nodes(page))[3]
    assert shop.follow(shop.follow(page, f"click[{code}]"), "click[< prev]").listed == page.listed


def test_back_to_search_forgets_everything(visit):
    assert visit(*LAMP, "click[xl]", "click[back to search]") == ShopPage()


@pytest.mark.parametrize(
    "action",
    [
        "click[search]",
        "Search[lamp]",
        "CLICK[buy now]",
        " search[lamp]",
        "search lamp",
        "search[]",
        "click[]",
        "click[b000000002]",
        "click[Buy]",
        "click[dark  navy]",
        "click[ xl]",
        "click[next >]",
        "buy now",
        "search[lamp] then click[xl]",
        "think: ...\nclick[buy now]",
        "",
        "]search[",
    ],
)
def test_anything_else_leaves_the_very_same_page(shop, visit, action):
    page = visit(*LAMP)
    assert shop.follow(page, action) is page


def test_the_search_button_is_listed_and_does_nothing(shop):
    first = ShopPage()
    assert clickables(shop.nodes(first)) == ("search",)
    assert shop.follow(first, "click[search]") is first


def test_codes_and_values_may_be_written_in_any_case_and_followed_by_words(visit):
    assert visit("search[brass]", "click[B000000001] now", "click[XL]").options == (("size", "xl"),)


@pytest.mark.parametrize("query", ["<r> oak", "<c> garden", "<q> lamps", "<a> easy clean", "<r>"])
def test_no_first_word_opens_a_back_door(visit, query):
    as_words = query.replace("<", "").replace(">", "")
    assert visit(f"search[{query}]").results == visit(f"search[{as_words}]").results


@given(st.text(st.sampled_from("ab[]\n c"), max_size=14) | st.text(max_size=10))
def test_an_action_is_read_as_the_greedy_pattern_reads_it(action):
    match = re.match(r"(.+)\[(.+)\]", action)
    assert parse_action(action) == ((match[1], match[2].lower()) if match else ("", ""))


def test_a_long_hostile_action_is_read_in_no_time():
    assert parse_action("[" * 100_000) == ("", "")
    assert parse_action("[" * 50_000 + "]" * 50_000)[1].endswith("]")


# ---------------------------------------------------------------- text_rich


def test_rich_text_marks_buttons(rich):
    assert rich() == "WebShop\nInstruction:\nTASK\n[button] Search [button_]\n"
    assert rich("search[brass]") == (
        "Instruction:\nTASK\n[button] Back to Search [button_]\nPage 1 (Total results: 1)\n[button] Next > [button_]\n"
        "\n[button] B000000001 [button_]\nBrass Desk Lamp\n$10.0 to $20.0\n"
    )


def test_rich_text_marks_what_was_chosen_and_says_so_first(rich):
    assert rich(*LAMP, "click[dark navy]", "click[xl]") == (
        "You have clicked xl.\nYou have clicked dark navy.\nInstruction:\nTASK\n[button] Back to Search [button_]\n"
        "[button] < Prev [button_]\ncolor\n  [clicked button] dark navy [clicked button_]\n"
        "  [button] black | white [button_]\nsize\n  [clicked button] xl [clicked button_]\nBrass Desk Lamp\n"
        "Price: $10.0 to $20.0\nRating: N.A.\n[button] Description [button_]\n[button] Features [button_]\n"
        "[button] Reviews [button_]\n[button] Buy Now [button_]\n"
    )


def test_rich_text_marks_products_that_were_opened_until_back_to_search(rich):
    assert "\n[clicked button] B000000001 [clicked button_]\n" in rich(*LAMP, "click[< prev]")
    assert "\n[clicked button] B000000001 [clicked button_]\n" in rich(*LAMP, "search[brass]")
    assert "[clicked" not in rich(*LAMP, "click[back to search]", "search[brass]")
