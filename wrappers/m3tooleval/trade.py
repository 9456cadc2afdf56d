"""Task family `trade_calculator`: values of goods in invented currencies, after tariffs and inflation."""

from __future__ import annotations

from typing import NamedTuple

from align_echo.base.dice import Dice
from align_echo.wrappers.m3tooleval.tools import (
    CALCULATOR,
    Tool,
    ToolCall,
    Use,
    largest,
    make_recorder,
    number,
    smallest,
    toolbox,
)
from align_echo.wrappers.m3tooleval.upstream import ToolTask, draw_distinct, invent_word, join_words

DIGITS = 2

TOOLS = toolbox(
    Tool(
        "convert_currency",
        "convert_currency(base_price: float, conversion_rate: float) -> float",
        "A price in another currency.",
        lambda base_price, conversion_rate: number(base_price) * number(conversion_rate),
    ),
    Tool(
        "calculate_tariff",
        "calculate_tariff(price: float, tariff_rate: float) -> float",
        "The tariff on a price; the rate is in percent.",
        lambda price, tariff_rate: number(price) * number(tariff_rate) / 100,
    ),
    Tool(
        "estimate_final_value",
        "estimate_final_value(price: float, tariff: float) -> float",
        "A price with its tariff; both are amounts.",
        lambda price, tariff: number(price) + number(tariff),
    ),
    CALCULATOR,
    Tool(
        "find_minimum",
        "find_minimum(*args: float) -> float",
        "The smallest of the given numbers.",
        smallest,
    ),
    Tool(
        "find_maximum",
        "find_maximum(*args: float) -> float",
        "The largest of the given numbers.",
        largest,
    ),
)


class TradeOffer(NamedTuple):
    """Goods for sale: number of units, price of each, conversion rate, and the tariff on the total in percent."""

    good: str
    units: int
    price: float
    rate: float
    tariff: int

    @property
    def text(self) -> str:
        """Deal in words."""
        return (
            f"{self.units} crates of {self.good} at {self.price} a crate, conversion rate {self.rate}, tariff "
            f"{self.tariff}%"
        )

    def changed(self, **fields: float) -> TradeOffer:
        """Return the deal with other terms."""
        return self._replace(**fields)  # type: ignore[arg-type]


def _deals(dice: Dice, split: str, count: int) -> list[TradeOffer]:
    goods = draw_distinct(count, lambda: invent_word(dice, split))
    return [
        TradeOffer(
            good, 20 + 7 * dice.below(60), round(dice.between(11, 400), 1), dice.between(1.1, 2.9), 2 + dice.below(17)
        )
        for good in goods
    ]


def _step_by_step(use: Use, deal: TradeOffer) -> object:
    price = use("convert_currency", use("calculator", f"{deal.units} * {deal.price}"), deal.rate)
    return use("estimate_final_value", price, use("calculate_tariff", price, deal.tariff))


def _worth(use: Use, deal: TradeOffer, factor: str = "") -> object:
    """Compute the final value of a deal in one call."""
    terms = f"{deal.units} * {deal.price} * {deal.rate} * (1 + {deal.tariff} / 100){factor}"
    return use("calculator", terms)


def _single(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    value = use("estimate_final_value", deal.price, use("calculate_tariff", deal.price, deal.tariff))
    return (
        f"A crate of {deal.good} costs {deal.price}, and the tariff on it is {deal.tariff}%. What is its value with "
        "the tariff?",
        value,
    )


def _one_deal(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    return f"A trader sells {deal.text}. What is the final value?", _step_by_step(use, deal)


def _with_freight(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    freight = 15 + dice.below(300)
    value = use("calculator", f"{_step_by_step(use, deal)} + {freight}")
    return (
        f"A trader buys {deal.text}. Freight of {freight} in the new currency comes on top, free of tariff. What is "
        "paid in all?",
        value,
    )


def _cheapest_route(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    routes = [deal.changed(rate=dice.between(1.1, 2.9), tariff=2 + dice.below(17)) for _ in range(3)]
    terms = join_words([f"rate {route.rate} with a tariff of {route.tariff}%" for route in routes])
    values = [_worth(use, route) for route in routes]
    return (
        f"{deal.units} crates of {deal.good} at {deal.price} each can go by three routes: {terms}. What is the least "
        "final value?",
        use("find_minimum", *values),
    )


def _best_rate(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    markets = [
        deal.changed(rate=rate) for rate in (dice.between(1.1, 1.6), dice.between(1.7, 2.2), dice.between(2.3, 2.9))
    ]
    rates = join_words([str(market.rate) for market in dice.shuffled(markets)])
    best = use("find_maximum", *(market.rate for market in markets))
    return (
        f"Three markets change {deal.units} crates of {deal.good} ({deal.price} each) at {rates}; the tariff is "
        f"{deal.tariff}% in all. What is the highest final value?",
        _step_by_step(use, deal.changed(rate=float(str(best)))),
    )


def _bulk(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    off, least = 3 + dice.below(9), deal.units - 10 + 20 * dice.below(2)
    factor = f" * (1 - {off} / 100)" if deal.units >= least else ""
    return (
        f"{deal.text[0].upper()}{deal.text[1:]}. From {least} crates on, the price of each is {off}% lower. What is "
        "the final value?",
        _worth(use, deal, factor),
    )


def _best_good(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    deals = _deals(dice, split, 2)
    values = [_worth(use, deal) for deal in deals]
    return f"Two lots are for sale: {join_words([deal.text for deal in deals])}. What is the higher final value?", use(
        "find_maximum", *values
    )


def _daily_rates(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    days = [deal.changed(rate=dice.between(1.1, 2.9), units=20 + 7 * dice.below(60)) for _ in range(3)]
    terms = join_words([f"{day.units} crates at rate {day.rate}" for day in days])
    return (
        f"{deal.good.capitalize()} costs {deal.price} a crate and bears a tariff of {deal.tariff}%. On three days are "
        f"sold: {terms}. Give the three final values as a list in this order, such as [1.25, 2.5, 3.0].",
        [_worth(use, day) for day in days],
    )


def _which_good(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    deals = _deals(dice, split, 3)
    values = [float(str(_worth(use, deal))) for deal in deals]
    best = deals[values.index(float(str(use("find_maximum", *values))))]
    return (
        f"Which of these goods has the highest final value: {join_words([deal.text for deal in deals])}? Answer with "
        "the name of the good.",
        best.good,
    )


def _seasons(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    seasons = [deal.changed(price=round(dice.between(11, 400), 1)) for _ in range(3)]
    prices = join_words([str(season.price) for season in seasons])
    return (
        f"A crate of {deal.good} costs {prices} in spring, summer and winter. {deal.units} crates are sold each time, "
        f"conversion rate {deal.rate}, tariff {deal.tariff}%. List the final values in this order, such as "
        "[1.25, 2.5, 3.0].",
        [_worth(use, season) for season in seasons],
    )


def _net(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    sold, bought = _deals(dice, split, 2)
    income, cost = _worth(use, sold), _worth(use, bought)
    return (
        f"A trader sells {sold.text}, and buys {bought.text}. What remains of the income after the cost? A loss is "
        "a negative number.",
        use("calculator", f"{income} - {cost}"),
    )


def _demand(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    up, down = 4 + dice.below(12), 4 + dice.below(12)
    factors = (f" * (1 + {up} / 100)", "", f" * (1 - {down} / 100)")
    return (
        f"A trader sells {deal.text}. In high demand the price is {up}% higher, in low demand {down}% lower. List the "
        "final values in high, usual and low demand, such as [3.0, 2.5, 1.25].",
        [_worth(use, deal, factor) for factor in factors],
    )


def _tradeoff(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    rival = deal.changed(units=deal.units - 9, tariff=deal.tariff + 1 + dice.below(9))
    values = [_worth(use, deal), _worth(use, rival)]
    return (
        f"Either {deal.text}; or {rival.units} of the same crates with a tariff of {rival.tariff}%. What is the final "
        "value of the option whose final value is higher?",
        use("find_maximum", *values),
    )


def _thresholds(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    first, second = _deals(dice, split, 2)
    off, limit = 3 + dice.below(9), min(first.units, second.units) + 5
    values = [_worth(use, deal, f" * (1 - {off} / 100)" if deal.units >= limit else "") for deal in (first, second)]
    return (
        f"Orders of {limit} crates or more are {off}% cheaper. Of {first.text}, and {second.text}, what is the lower "
        "final value?",
        use("find_minimum", *values),
    )


def _hedge(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    rates = [dice.between(1.1, 2.9) for _ in range(3)]
    worst = use("find_minimum", *rates)
    return (
        f"The rate of a currency may come to be any of {join_words(list(map(str, rates)))}. What is the least that "
        f"{deal.units} crates of {deal.good} at {deal.price} each bring, with a tariff of {deal.tariff}%?",
        _step_by_step(use, deal.changed(rate=float(str(worst)))),
    )


def _inflation(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    percent, years = 2 + dice.below(9), 2 + dice.below(5)
    price = use("calculator", f"{deal.price} * (1 + {percent} / 100) ** {years}")
    return (
        f"A crate of {deal.good} costs {deal.price} today, and inflation is {percent}% a year. What will it cost after "
        f"{years} years in a currency with the conversion rate {deal.rate}?",
        use("convert_currency", price, deal.rate),
    )


def _now_or_later(dice: Dice, split: str, use: Use) -> tuple[str, object]:
    (deal,) = _deals(dice, split, 1)
    more, dearer = 3 + dice.below(12), 1 + dice.below(4)
    later = deal.changed(tariff=deal.tariff + dearer)
    return (
        f"A trader can sell {deal.text}. In a month the price is {more}% higher, and the tariff {dearer} percentage "
        "points higher. Answer with both final values in a dictionary, such as {'now': 1.25, 'later': 2.5}.",
        {"now": _worth(use, deal), "later": _worth(use, later, f" * (1 + {more} / 100)")},
    )


KINDS = (
    _single,
    _one_deal,
    _with_freight,
    _cheapest_route,
    _best_rate,
    _bulk,
    _best_good,
    _daily_rates,
    _which_good,
    _seasons,
    _net,
    _demand,
    _tradeoff,
    _thresholds,
    _hedge,
    _inflation,
    _now_or_later,
)


def make(index: int, dice: Dice, split: str) -> ToolTask:
    """Generate the task of an index; kinds alternate."""
    calls: list[ToolCall] = []
    instruction, expected = KINDS[index % len(KINDS)](dice, split, make_recorder(TOOLS, calls))
    if not isinstance(expected, str):
        instruction += " Two digits after the point are enough."
    return ToolTask(instruction, expected, lambda: TOOLS, tuple(calls), DIGITS)
