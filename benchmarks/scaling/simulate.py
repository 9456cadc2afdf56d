"""Steps of training on many machines, by the figures of single ones: a simulation, event by event.

A harvest is a closed network of queues. An episode holds one of the environments from its reset to its end, and goes
round: a request at its engine, a step on a core. Cores take jobs in the order in which they come. An engine serves all
its requests at once, each at an equal share of its rate, which grows with their number up to its last slot; more wait.
An ended episode goes over the driver's link and through the driver, one by one. Learning and publishing are arithmetic.
The same seed gives the same figures. Left out: memory, stragglers among machines, prefixes that rows share, critics.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.scaling.figures import Figures, Setup

RESOURCES = ("cores", "engines", "learners", "driver", "link")


@dataclass(frozen=True)
class Played:
    """A harvest. `busy` are seconds of work by resource, at full rate; `in_play` is the mean number of episodes in
    environments, `residence` the mean seconds of one in there."""

    seconds: float
    turns: int
    tokens: float
    episodes: int
    busy: dict[str, float]
    in_play: float
    residence: float


@dataclass(frozen=True)
class Step:
    """The mean step. `busy` is the share of its time that each resource works, at full rate; `bytes_in` come to the
    driver, `bytes_out` go to all engines."""

    seconds: float
    harvest: float
    learn: float
    publish: float
    turns: float
    busy: dict[str, float]
    bytes_in: float
    bytes_out: float
    dollars: float

    @property
    def turns_a_second(self) -> float:
        return self.turns / self.seconds

    @property
    def scarcest(self) -> str:
        """The resource that works most."""
        return max(RESOURCES, key=lambda name: self.busy[name])


class Servers:
    """So many of a kind, who take jobs in the order in which they come, each for a given time."""

    def __init__(self, clock: Clock, count: int) -> None:
        self._clock = clock
        self._free = count
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self.busy = 0.0

    def take(self, seconds: float, then: Callable[[], None]) -> None:
        """Do a job of so many seconds, then that."""
        if not self._free:
            self._waiting.append((seconds, then))
            return
        self._free -= 1
        self.busy += seconds
        self._clock.after(seconds, lambda: self._done(then))

    def _done(self, then: Callable[[], None]) -> None:
        self._free += 1
        if self._waiting:
            self.take(*self._waiting.popleft())
        then()


class Engine:
    """All requests under way at once, each at an equal share of the rate of their number; what is more waits.

    `_served` is how many tokens a request has been served that was there from the beginning: one that comes later ends
    when it has grown by the request's work (virtual time of processor sharing).
    """

    def __init__(self, clock: Clock, figures: Figures) -> None:
        self._clock = clock
        self._figures = figures
        self._served = 0.0
        self._since = 0.0
        self._ends: list[tuple[float, int, Callable[[], None]]] = []
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._numbers = itertools.count()
        self._plan = 0
        self.work = 0.0

    def take(self, new_context: float, then: Callable[[], None]) -> None:
        """Serve a request with so many tokens of context that are to be read, then do that."""
        figures = self._figures
        self.work += figures.work(new_context, figures.best_rate)
        self._advance()
        work = figures.work(new_context, figures.rate(min(len(self._ends) + 1, figures.slots)))
        if len(self._ends) >= self._figures.slots:
            self._waiting.append((work, then))
            return
        heapq.heappush(self._ends, (self._served + work, next(self._numbers), then))
        self._plan_next()

    @property
    def _speed(self) -> float:
        """Tokens a second of each request."""
        return self._figures.rate(len(self._ends)) / len(self._ends)

    def _advance(self) -> None:
        if self._ends:
            self._served += (self._clock.now - self._since) * self._speed
        self._since = self._clock.now

    def _plan_next(self) -> None:
        self._plan += 1
        plan = self._plan
        wait = max(0.0, (self._ends[0][0] - self._served) / self._speed)
        self._clock.after(wait, lambda: self._end_first(plan))

    def _end_first(self, plan: int) -> None:
        if plan != self._plan:
            return  # another request came or went meanwhile
        self._advance()
        _, _, then = heapq.heappop(self._ends)
        if self._waiting:
            work, other = self._waiting.popleft()
            heapq.heappush(self._ends, (self._served + work, next(self._numbers), other))
        if self._ends:
            self._plan_next()
        then()


class Clock:
    """What happens when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), act))

    def run(self) -> None:
        """To the last event."""
        while self._events:
            self.now, _, act = heapq.heappop(self._events)
            act()


@dataclass
class _Harvest:
    """One harvest under way."""

    figures: Figures
    setup: Setup
    dice: random.Random
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.cores = Servers(self.clock, self.setup.cores)
        self.link, self.driver = Servers(self.clock, 1), Servers(self.clock, 1)
        self.engines = [Engine(self.clock, self.figures) for _ in range(self.setup.engines)]
        self.left = self.setup.episodes
        self.turns = 0
        self.tokens = 0.0
        self.residences = 0.0

    def begin(self, number: int) -> None:
        """An episode in an environment that is free."""
        figures = self.figures
        self.left -= 1
        begun = self.clock.now
        turns = self.dice.choice(figures.turns)
        breaks_at = self.dice.randrange(turns) if self.dice.random() < figures.broken_share else -1
        engine = self.engines[number % len(self.engines)]
        turn, again = 0, breaks_at < 0

        def request() -> None:
            new = figures.observation_tokens + (figures.opening_tokens if turn == 0 else 0.0)
            engine.take(new, lambda: self.cores.take(figures.step_seconds, stepped))

        def stepped() -> None:
            nonlocal turn, again
            if not again and turn == breaks_at:
                turn, again = 0, True
                self.cores.take(figures.reset_seconds, request)
                return
            turn += 1
            if turn < turns:
                request()
                return
            self.turns += turns
            self.tokens += figures.opening_tokens + turns * (figures.observation_tokens + figures.reply_tokens)
            self.residences += self.clock.now - begun
            seconds = turns * figures.turn_bytes / figures.link_bytes
            self.link.take(seconds, lambda: self.driver.take(figures.driver_seconds, lambda: None))
            if self.left:
                self.begin(number)

        self.cores.take(figures.reset_seconds, request)

    def play(self) -> Played:
        episodes = self.setup.episodes
        for number in range(min(self.setup.environments, episodes)):
            self.begin(number)
        self.clock.run()
        seconds = self.clock.now
        busy = {
            "cores": self.cores.busy,
            "engines": sum(engine.work for engine in self.engines) / self.figures.best_rate,
            "driver": self.driver.busy,
            "link": self.link.busy,
        }
        in_play = self.residences / seconds if seconds else 0.0
        return Played(seconds, self.turns, self.tokens, episodes, busy, in_play, self.residences / episodes)


def harvest(figures: Figures, setup: Setup, seed: int = 0) -> Played:
    """One harvest."""
    return _Harvest(figures, setup, random.Random(seed)).play()


def publication(figures: Figures, setup: Setup) -> tuple[float, float]:
    """(seconds, bytes) of new weights for all engines, over the driver's link one after the other."""
    each = figures.adapters_bytes if setup.published == "adapters" else figures.weights_bytes
    away = 0.0 if setup.colocated else each * setup.engines
    return figures.publishing_seconds + away / figures.link_bytes, away


def simulate(figures: Figures, setup: Setup, *, steps: int = 3, seed: int = 0) -> Step:
    """The mean of so many steps. With `ahead` the first harvest, which is played while nothing is learned, does not
    count: a step lasts as long as the learning of one harvest and the playing of the next, whichever takes longer.
    """
    played = [harvest(figures, setup, seed * 1_000_003 + number) for number in range(steps + setup.ahead)]
    learning = [each.tokens / (figures.learning * setup.learners) for each in played]
    publishing, away = publication(figures, setup)
    if setup.ahead:
        pairs = zip(played[1:], learning, strict=False)
        lasted = [max(each.seconds, learn) + publishing for each, learn in pairs]
        learning, played = learning[:-1], played[1:]
    else:
        lasted = [each.seconds + learn + publishing for each, learn in zip(played, learning, strict=True)]
    whole = sum(lasted)
    counts = {"cores": setup.cores, "engines": setup.engines, "driver": 1, "link": 1}
    busy = {name: sum(each.busy[name] for each in played) / (count * whole) for name, count in counts.items()}
    busy["learners"] = sum(learning) / whole
    busy["link"] += steps * away / figures.link_bytes / whole
    turns = sum(each.turns for each in played)
    hourly = setup.gpus * figures.gpu_price + (setup.cores + 1) * figures.core_price
    return Step(
        seconds=whole / steps,
        harvest=sum(each.seconds for each in played) / steps,
        learn=sum(learning) / steps,
        publish=publishing,
        turns=turns / steps,
        busy=busy,
        bytes_in=turns / steps * figures.turn_bytes,
        bytes_out=away,
        dollars=hourly * whole / 3600 / turns * 1e6,
    )


def bound(figures: Figures, setup: Setup) -> float:
    """Seconds below which no harvest comes in the mean, however well its parts overlap: the work of the resource that
    has most, and an episode of mean length alone.
    """
    turns = sum(figures.turns) / len(figures.turns)
    new, written = figures.opening_tokens + turns * figures.observation_tokens, turns * figures.reply_tokens
    alone = figures.reset_seconds + turns * figures.step_seconds + written / figures.rate(1) + new / figures.reading
    core = figures.reset_seconds + turns * figures.step_seconds
    seconds = {
        "cores": setup.episodes * core / setup.cores,
        "engines": setup.episodes * (written / figures.best_rate + new / figures.reading) / setup.engines,
        "driver": setup.episodes * figures.driver_seconds,
        "link": setup.episodes * turns * figures.turn_bytes / figures.link_bytes,
        "environments": setup.episodes / setup.environments * alone,
    }
    return max(seconds.values())
