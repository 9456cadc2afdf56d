"""Task family `travel_itinerary_planning`: flights and hotels between invented places.

Every task has its own timetable and hotels, known only to the tools. Between two places of a task there are two flights
on its day and others on other days; each place has three hotels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from align_echo.base.dice import Dice
from align_echo.wrappers.m3tooleval.tools import (
    Tool,
    ToolCall,
    Tools,
    as_text,
    largest,
    make_recorder,
    number,
    numbers,
    smallest,
    toolbox,
)
from align_echo.wrappers.m3tooleval.upstream import ToolTask, draw_distinct, invent_word, join_words

AMENITIES = (("wifi", "pool"), ("wifi", "gym"), ("pool", "gym", "wifi"))
MONTHS = {"train": (1, 6), "test": (7, 12)}
"""First and last month of a split's flights."""


class TravelLeg(NamedTuple):
    """Part of a journey: start, goal, date, and number of nights at the goal."""

    start: str
    goal: str
    date: str
    nights: int


class TravelWorld:
    """World of one task, and its tools as the plan calls them."""

    def __init__(self, dice: Dice, split: str, places: int) -> None:
        self.dice = dice
        self.places = draw_distinct(places, lambda: invent_word(dice, split).capitalize())
        low, high = MONTHS[split]
        days = draw_distinct(places + 3, lambda: f"2041-{low + dice.below(high - low + 1):02}-{1 + dice.below(28):02}")
        self._dates = iter(sorted(days))
        self.flights: list[dict[str, Any]] = []
        self.hotels = [
            {"location": town, "preferences": list(amenities), "price_per_night": 20 + price, "rating": rating}
            for town in self.places
            for amenities, price, rating in zip(
                AMENITIES, dice.shuffled(range(3, 160))[:3], dice.shuffled((3, 4, 5)), strict=True
            )
        ]
        self.calls: list[ToolCall] = []
        self.tools = build_tools(self.flights, self.hotels)
        self.use = make_recorder(self.tools, self.calls)

    def date(self) -> str:
        """Return a date after all earlier ones."""
        return next(self._dates)

    def leg(self, start: int, goal: int, date: str = "") -> TravelLeg:
        """Add a leg between two places by index, with two flights on its day and one on another."""
        leg = TravelLeg(self.places[start], self.places[goal], date or self.date(), 2 + self.dice.below(6))
        prices = self.dice.shuffled(range(90, 990))[:3]
        days = (leg.date, leg.date, f"2040{leg.date[4:]}")
        for day, price in zip(days, prices, strict=True):
            flight = {"from_location": leg.start, "to_location": leg.goal, "date": day, "price": price}
            self.flights.append(flight)
        return leg

    def fares(self, leg: TravelLeg) -> list[int]:
        """Return the prices of a leg's flights."""
        flights: Any = self.use("find_flights", leg.start, leg.goal, leg.date)
        return [flight["price"] for flight in flights]

    def rooms(self, leg: TravelLeg, *wishes: str) -> list[dict[str, Any]]:
        """Return the hotels at the end of a leg."""
        hotels: Any = self.use("book_hotel", leg.goal, *wishes)
        return list(hotels)

    def cost(self, leg: TravelLeg, *wishes: str) -> float:
        """Compute the cost of a leg with the cheapest flight and hotel."""
        fare, room = min(self.fares(leg)), _cheapest(self.rooms(leg, *wishes))
        return self.budget(fare, room["price_per_night"], leg.nights)

    def budget(self, fare: int, night: int, nights: int) -> float:
        """Compute the price of a flight and nights in a hotel, by the tool."""
        total: Any = self.use("budget_calculator", fare, night, nights)
        return total  # type: ignore[no-any-return]


def build_tools(flights: Sequence[dict[str, Any]], hotels: Sequence[dict[str, Any]]) -> Tools:
    """Build the tools over a timetable and hotels."""

    def known(location: object) -> str:
        text = as_text(location).strip("\"'")
        names = sorted({str(hotel["location"]) for hotel in hotels})
        if text not in names:
            raise ValueError(f"no place is named {text[:60]}; the places are {', '.join(names)}")
        return text

    def find_flights(from_location: object, to_location: object, date: object) -> list[dict[str, Any]]:
        wanted = (known(from_location), known(to_location), as_text(date))
        return [
            flight for flight in flights if (flight["from_location"], flight["to_location"], flight["date"]) == wanted
        ]

    def book_hotel(location: object, *preferences: object) -> list[dict[str, Any]]:
        town, wishes = known(location), {as_text(wish) for wish in preferences}
        return [hotel for hotel in hotels if hotel["location"] == town and wishes <= set(hotel["preferences"])]

    return toolbox(
        Tool(
            "find_flights",
            "find_flights(from_location: str, to_location: str, date: str) -> List[Dict]",
            "The flights of a day (YYYY-MM-DD), with their prices.",
            find_flights,
        ),
        Tool(
            "book_hotel",
            "book_hotel(location: str, *preferences: str) -> List[Dict]",
            "The hotels of a place that have all that is wished for (wifi, pool, gym), with price a night and rating.",
            book_hotel,
        ),
        Tool(
            "budget_calculator",
            "budget_calculator(flight_price: float, hotel_price_per_night: float, num_nights: int) -> float",
            "A flight and the nights together.",
            lambda flight_price, hotel_price_per_night, num_nights: (
                number(flight_price) + number(hotel_price_per_night) * number(num_nights)
            ),
        ),
        Tool("max", "max(*args: float) -> float", "The largest of the given numbers.", largest),
        Tool("min", "min(*args: float) -> float", "The smallest of the given numbers.", smallest),
        Tool("sum", "sum(*args: float) -> float", "The given numbers together.", lambda *v: sum(numbers(v))),
    )


def _cheapest(hotels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return min(hotels, key=lambda hotel: int(hotel["price_per_night"]))


def _best(hotels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return max(hotels, key=lambda hotel: int(hotel["rating"]))


def _stay(leg: TravelLeg) -> str:
    return f"to {leg.goal} on {leg.date}, for {leg.nights} nights"


def _with_wishes(journey: TravelWorld) -> tuple[str, object]:
    leg = journey.leg(0, 1)
    return (
        f"From {leg.start}, travel {_stay(leg)}, by the cheaper flight, in the cheapest hotel with wifi and a pool. "
        "What does it cost in all?",
        journey.cost(leg, "wifi", "pool"),
    )


def _cheapest_trip(journey: TravelWorld) -> tuple[str, object]:
    leg = journey.leg(0, 1)
    return (
        f"From {leg.start}, what is the least that a journey costs {_stay(leg)}, flight and hotel together?",
        journey.cost(leg),
    )


def _best_rated(journey: TravelWorld) -> tuple[str, object]:
    leg = journey.leg(0, 1)
    room = _best(journey.rooms(leg))["price_per_night"]
    return (
        f"Somebody from {leg.start} goes {_stay(leg)}, in the best rated hotel and by the cheaper flight. How much is "
        "that?",
        journey.budget(min(journey.fares(leg)), room, leg.nights),
    )


def _dearer_flight(journey: TravelWorld) -> tuple[str, object]:
    leg = journey.leg(0, 1)
    room = _cheapest(journey.rooms(leg, "gym"))["price_per_night"]
    return (
        f"The cheaper flight from {leg.start} is sold out: take the dearer one {_stay(leg)}, in the cheapest hotel "
        "with a gym. What is the total?",
        journey.budget(max(journey.fares(leg)), room, leg.nights),
    )


def _with_but_without(journey: TravelWorld) -> tuple[str, object]:
    leg = journey.leg(0, 1)
    rooms = [room for room in journey.rooms(leg, "gym") if "pool" not in room["preferences"]]
    return (
        f"Travel from {leg.start} {_stay(leg)}, in a hotel that has a gym and no pool, by the cheaper flight. What is "
        "the total?",
        journey.budget(min(journey.fares(leg)), _cheapest(rooms)["price_per_night"], leg.nights),
    )


def _fares(journey: TravelWorld) -> tuple[str, object]:
    leg = journey.leg(0, 1)
    return (
        f"What do the flights from {leg.start} to {leg.goal} on {leg.date} cost? List the prices, the lowest first, "
        "such as [120, 340].",
        sorted(journey.fares(leg)),
    )


def _affordable(journey: TravelWorld) -> tuple[str, object]:
    leg = journey.leg(0, 1)
    cost = journey.cost(leg, "wifi")
    money = int(cost) - 40 + 20 * journey.dice.below(5)
    return (
        f"Is {money} enough for the cheapest journey from {leg.start} {_stay(leg)}, in a hotel with wifi? Answer True "
        "or False.",
        cost <= money,
    )


def _no_flight(journey: TravelWorld) -> tuple[str, object]:
    leg = journey.leg(0, 1)
    date = leg.date if journey.dice.chance(0.5) else journey.date()
    return f"Does any flight go from {leg.start} to {leg.goal} on {date}? Answer True or False.", bool(
        journey.use("find_flights", leg.start, leg.goal, date)
    )


def _two_places(journey: TravelWorld) -> tuple[str, object]:
    first, second = journey.leg(0, 1), journey.leg(1, 2)
    costs = [journey.cost(leg) for leg in (first, second)]
    return (
        f"From {first.start} go {_stay(first)}; from there {_stay(second)}. Flights and hotels are the cheapest. What "
        "do both parts cost together?",
        journey.use("sum", *costs),
    )


def _two_with_wifi(journey: TravelWorld) -> tuple[str, object]:
    first, second = journey.leg(0, 1), journey.leg(1, 2)
    costs = [journey.cost(first, "wifi", "gym"), journey.cost(second, "pool")]
    return (
        f"Travel from {first.start} {_stay(first)}, with wifi and a gym, and on {_stay(second)}, with a pool; always "
        "as cheaply as these wishes allow. What is the sum?",
        journey.use("sum", *costs),
    )


def _three_places(journey: TravelWorld) -> tuple[str, object]:
    legs = [journey.leg(number, number + 1) for number in range(3)]
    fares = [min(journey.fares(leg)) for leg in legs]
    way = join_words([f"{leg.goal} on {leg.date}" for leg in legs])
    return (
        f"A pilot flies from {legs[0].start} to {way}, by the cheapest flight each time, and sleeps on board. What do "
        "the flights cost together?",
        journey.use("sum", *fares),
    )


def _both_prices(journey: TravelWorld) -> tuple[str, object]:
    leg = journey.leg(0, 1)
    fare, room = min(journey.fares(leg)), _cheapest(journey.rooms(leg, "pool"))
    return (
        f"For a journey from {leg.start} to {leg.goal} on {leg.date}, give the price of the cheapest flight and the "
        "price a night of the cheapest hotel with a pool, in a dictionary such as {'flight': 1, 'hotel': 2}.",
        {"flight": fare, "hotel": room["price_per_night"]},
    )


def _there_and_back(journey: TravelWorld) -> tuple[str, object]:
    outward, back = journey.leg(0, 1), journey.leg(1, 0)
    home = min(journey.fares(back))
    return (
        f"From {outward.start}, go {_stay(outward)}, and fly back on {back.date}. All flights and the hotel are the "
        "cheapest there are. What does it come to?",
        journey.use("sum", journey.cost(outward), home),
    )


def _better_day(journey: TravelWorld) -> tuple[str, object]:
    legs = [journey.leg(0, 1), journey.leg(0, 1)]
    fares = [min(journey.fares(leg)) for leg in legs]
    while fares[0] == fares[1]:
        legs = [journey.leg(0, 1), journey.leg(0, 1)]
        fares = [min(journey.fares(leg)) for leg in legs]
    return (
        f"On which day is the cheapest flight from {legs[0].start} to {legs[0].goal} cheaper, {legs[0].date} or "
        f"{legs[1].date}? Answer with the day.",
        legs[fares.index(min(fares))].date,
    )


def _better_place(journey: TravelWorld) -> tuple[str, object]:
    date = journey.date()
    legs = [journey.leg(0, 1, date), journey.leg(0, 2, date)]
    costs = [journey.cost(leg._replace(nights=legs[0].nights)) for leg in legs]
    goals = " or ".join(leg.goal for leg in legs)
    return (
        f"On {date} somebody leaves {legs[0].start} for {legs[0].nights} nights in {goals}, as cheaply as possible. "
        "Which of the two costs less? Answer with its name.",
        legs[costs.index(min(costs))].goal,
    )


KINDS = (
    _with_wishes,
    _cheapest_trip,
    _best_rated,
    _dearer_flight,
    _with_but_without,
    _fares,
    _affordable,
    _no_flight,
    _two_places,
    _two_with_wifi,
    _three_places,
    _both_prices,
    _there_and_back,
    _better_day,
    _better_place,
)


def make(index: int, dice: Dice, split: str) -> ToolTask:
    """Generate the task of an index; kinds alternate."""
    journey = TravelWorld(dice, split, 4)
    instruction, expected = KINDS[index % len(KINDS)](journey)
    return ToolTask(instruction, expected, lambda: journey.tools, tuple(journey.calls))
