"""The oracle: it buys what is asked, from any page."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from align_echo.wrappers.webshop.catalogue import open_catalogue
from align_echo.wrappers.webshop.env import ShopOracle, WebShopEnv
from align_echo.wrappers.webshop.pages import Shop, ShopPage, clickables
from tests.wrappers.webshop.tiny_data import item, write_data, written


def follow_the_expert(shop: Shop, page: ShopPage) -> tuple[ShopPage, int]:
    count = 0
    while (action := ShopOracle(shop, page).expert_action()) is not None:
        before = ShopOracle(shop, page).distance()
        page, count = shop.follow(page, action), count + 1
        after = ShopOracle(shop, page).distance()
        assert (before is None and after is None) or before == (after or 0) + 1
    return page, count


def test_it_scores_one_on_all_of_aligns_test_tasks_and_two_hundred_others(embedded):
    for split, count in (("align_test", 50), ("train", 200)):
        env = WebShopEnv(embedded, split)
        for task in env.task_ids[:count]:
            env.reset(options={"task": task})
            over = False
            while not over:
                _, _, terminated, truncated, _ = env.step(str(env.oracle().expert_action()))
                over = terminated or truncated
            assert (env.state.score, env.state.won) == (1.0, True), task


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1999), st.lists(st.integers(0, 10**6), max_size=8))
def test_it_reaches_the_goal_from_any_page_in_as_many_actions_as_it_says(embedded, number, choices):
    shop = Shop(embedded, embedded.goal(f"goal-{number}"))
    page = shop.search(ShopPage(), shop.goal.instruction)
    for choice in choices:
        names = [name for name in clickables(shop.nodes(page)) if name not in ("buy now", "search")]
        page = shop.follow(page, f"click[{names[choice % len(names)]}]") if names else page
    distance = ShopOracle(shop, page).distance()
    last, count = follow_the_expert(shop, page)
    assert (last.kind, last.score) == ("done", 1.0)
    assert count == distance


def test_it_comes_back_from_other_products_by_the_shortest_way(embedded):
    shop = Shop(embedded, embedded.goal("goal-3"))
    first = ShopOracle(shop, ShopPage()).expert_action()
    assert first is not None
    results = shop.follow(ShopPage(), first)
    there = ShopOracle(shop, results).route()
    assert there is not None
    other = next(row for row in results.listed if row != shop.goal.row)
    opened = shop.follow(results, f"click[{embedded.product(other).asin}]")
    assert ShopOracle(shop, opened).route() == ["click[< prev]", *there]
    assert ShopOracle(shop, shop.follow(results, "click[next >]")).route() == ["click[< prev]", *there]
    read = shop.follow(opened, "click[features]")
    assert ShopOracle(shop, read).distance() == len(there) + 1
    assert ShopOracle(shop, read).expert_action() == first


def test_a_wrong_purchase_leaves_nothing_to_do(embedded):
    shop = Shop(embedded, embedded.goal("goal-0"))
    page = ShopPage("done", item=shop.goal.row, score=0.5)
    assert ShopOracle(shop, page).expert_action() is None
    assert ShopOracle(shop, page).distance() is None
    assert ShopOracle(shop, ShopPage("done", item=shop.goal.row, score=1.0)).distance() == 0


def test_a_product_that_its_title_does_not_find_is_found_by_all_its_words(tmp_path):
    twins = [item(f"B0000001{number:02}", "Brass Desk Lamp", small_description="Big") for number in range(60)]
    wanted = item("B000000001", "Brass Desk Lamp", full_description="Unlike the rest " * 9, small_description="Small")
    catalogue = open_catalogue(write_data(tmp_path, items=[*twins, wanted]))
    for task in catalogue.ids("test"):
        shop = Shop(catalogue, catalogue.goal(task))
        assert shop.goal.row not in catalogue.find("Brass Desk Lamp")
        action = ShopOracle(shop, ShopPage()).expert_action()
        assert action is not None
        assert "unlike the rest" in action
        assert shop.goal.row in shop.follow(ShopPage(), action).results


def test_a_goal_that_cannot_be_met_in_full_is_still_bought_but_has_no_distance(tmp_path):
    instructions = {"B000000001": [written("a lamp", ["solid brass", "made of glass"], ["xl"])]}
    catalogue = open_catalogue(write_data(tmp_path, instructions=instructions))
    shop = Shop(catalogue, catalogue.goal("goal-0"))
    page, count = follow_the_expert(shop, ShopPage())
    assert (page.kind, page.score, count) == ("done", 3 / 4, 4)
    assert ShopOracle(shop, ShopPage()).distance() is None


def test_each_group_is_chosen_for_an_option_that_no_other_group_met(tmp_path):
    values = {"Size": ["small", "large"], "Length": ["small long", "large long"]}
    options = {name: [{"value": value} for value in listed] for name, listed in values.items()}
    instructions = {"B000000001": [written("a lamp", ["brass"], ["small", "large"])]}
    lamp = item("B000000001", "Brass Lamp", customization_options=options)
    catalogue = open_catalogue(write_data(tmp_path, items=[lamp], instructions=instructions))
    oracle = ShopOracle(Shop(catalogue, catalogue.goal("goal-0")), ShopPage())
    assert oracle.choice() == {"size": "small", "length": "large long"}
    assert oracle.best_score() == 1.0
