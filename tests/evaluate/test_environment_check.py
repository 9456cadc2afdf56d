"""What `envs check` finds: each world has one property that the world beside it has not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import gymnasium
import pytest

import align_echo
from align_echo.cli.main import main
from align_echo.evaluate.environment_check import SHIPPED_STEPS, CheckConfig, EnvironmentReport, check_environment
from align_echo.interface.contract import load_interface, shipped_interfaces
from align_echo.wrappers.align_wrapper import AlignWrapper
from align_echo.wrappers.catalogue import environment
from align_echo.wrappers.plain import PlainEnv

FORMS = "left | right | up"


class Walk(gymnasium.Env):
    """Walk on a line until its end."""

    observation_space = gymnasium.spaces.Text(300)
    action_space = gymnasium.spaces.Text(30)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(3))
        self.played = 0
        return self.show("You stand on a line."), {}

    def step(self, action):
        self.played += 1
        if action not in ("left", "right", "up"):
            return self.show("That means nothing."), 0.0, False, False, {}
        self.place += {"left": -1, "right": 1}.get(action, 0)
        return self.show(f"You go {action}."), float(self.place == 5), self.place == 5, False, {}

    def show(self, text: str) -> str:
        return text


class Counted(Walk):
    def show(self, text: str) -> str:
        return f"[{self.played}] {text}"


class Remembering(Walk):
    shown = ""

    def show(self, text: str) -> str:
        self.shown = text if not self.played else f"{self.shown}\n{self.played}: {text}"
        return self.shown


class Forgetful(Walk):
    """Draws from chance that no seed reaches."""

    def show(self, text: str) -> str:
        return f"{text} A wind of {random.SystemRandom().random():.6f}."


class Fickle(Forgetful):
    """Begins and ends by that chance, too."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = random.SystemRandom().randrange(-4, 5)
        return self.show(f"You stand at {self.place}."), {}


class Shared(Walk):
    """Seeds the chance of the whole process, and draws from it."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        random.seed(seed)
        return super().reset(seed=seed)

    def show(self, text: str) -> str:
        return f"{text} A wind of {random.random():.6f}."


class Mute(Walk):
    """Shows the page again after nonsense."""

    page = ""

    def show(self, text: str) -> str:
        self.page = self.page if "nothing" in text else text
        return self.page


class Letters(Walk):
    def show(self, text: str) -> str:
        return f"{text} Où ça? 左 или вправо"


class Long(Walk):
    def show(self, text: str) -> str:
        return text + "x" * 200_000


class Bandit(Walk):
    def step(self, action):
        return "Done.", 1.0, True, False, {}


def declared(world: type[Walk]) -> align_echo.TextEnvironment:
    return align_echo.TextEnvironment(world, action_format=FORMS, step_limit=30)


KINDS = (Walk, Counted, Remembering, Forgetful, Fickle, Shared, Mute, Letters, Long, Bandit)
WORLDS = {world.__name__: declared(world) for world in KINDS}
WRONG_TEST = align_echo.TextEnvironment(Walk, action_format=FORMS, is_invalid=lambda text: text == "No.")


def check(source: align_echo.TextEnvironment, **options: object) -> dict[str, tuple[str, str]]:
    report = check_environment(CheckConfig(env=source.spec("world"), turns=12, **options))  # type: ignore[arg-type]
    assert isinstance(report, EnvironmentReport)
    return {finding.name: (finding.state, finding.message) for finding in report.findings}


class Still(Walk):
    """Answers nothing but one text, so that no trial of copies tells."""

    def show(self, text: str) -> str:
        return "Still."


def test_the_price_of_a_return_leaves_out_the_trials_of_copies(monkeypatch):
    """A trial of copies costs ten minutes on the clock, a return without a trial nothing."""
    late = [0.0]
    monkeypatch.setattr("align_echo.evaluate.environment_check.time.perf_counter", lambda: late[0])
    tried = PlainEnv._try_copies

    def try_copies(env: PlainEnv, task_id: str, said: Sequence[str]) -> None:
        late[0] += 600
        tried(env, task_id, said)

    monkeypatch.setattr(PlainEnv, "_try_copies", try_copies)
    found = check(declared(Still))
    assert late[0] > 0
    assert "a return to turn 6 0 ms" in found["forks"][1]
    assert "take about 0 ms" in found["probe"][1]


def test_a_plain_world_has_no_trouble():
    found = check(WORLDS["Walk"])
    assert {name for name, (state, _) in found.items() if state == "trouble"} == set()
    assert found["counters"][0] == found["history"][0] == found["repeats"][0] == found["interleaved"][0] == "good"
    assert found["refusals"][0] == "good"
    assert found["refusals"][1].startswith("3 of 3 refusals of nonsense are recognised, inferred")
    assert "train 200, test 50; step limit 30; no actions are listed" in found["tasks"][1]


@pytest.mark.parametrize(
    ("world", "name", "state", "words"),
    [
        ("Counted", "counters", "note", "counts turns"),
        ("Remembering", "history", "note", "hold the text before"),
        ("Forgetful", "repeats", "trouble", "seed all chance"),
        ("Forgetful", "forks", "trouble", "does not repeat itself"),
        ("Forgetful", "text", "good", "reach the agent unchanged"),
        ("Fickle", "text", "good", "reach the agent unchanged"),
        ("Shared", "repeats", "good", "same texts"),
        ("Shared", "interleaved", "trouble", "processes:N"),
        ("Mute", "refusals", "note", "not recognised"),
        ("Letters", "text", "good", "also non-ASCII ones"),
        ("Long", "text", "trouble", "cut off"),
        ("Bandit", "ends", "note", "within 1 turn:"),
    ],
)
def test_each_property_is_found(world, name, state, words):
    found = check(WORLDS[world])
    assert found[name][0] == state
    assert words in found[name][1]


def test_a_text_that_an_interface_changes_is_trouble(monkeypatch):
    stepped = AlignWrapper.step

    def step(env: AlignWrapper, action: str):
        text, *others = stepped(env, action)
        return (f"{text}!", *others)

    monkeypatch.setattr(AlignWrapper, "step", step)
    state, message = check(WORLDS["Walk"])["text"]
    assert (state, message[:22]) == ("trouble", "an interface changes a")


def test_a_declared_test_that_knows_no_refusal_is_trouble():
    state, message = check(WRONG_TEST)["refusals"]
    assert (state, message[:30]) == ("trouble", "0 of 3 refusals of nonsense ar")


def test_chance_of_the_process_that_is_declared_is_no_trouble():
    declared_shared = align_echo.TextEnvironment(Shared, action_format=FORMS, global_random=True)
    assert check(declared_shared)["interleaved"][0] == "good"


def test_the_steps_of_interfaces_that_ship_are_those_of_their_records():
    shipped = [load_interface(name).provenance.engine_steps for name in shipped_interfaces()]
    assert (min(shipped), max(shipped)) == SHIPPED_STEPS


def test_one_task_cannot_be_interleaved():
    assert check(WORLDS["Walk"], tasks=1)["interleaved"] == ("note", "not tried: it takes two tasks")


def test_options_act():
    spec = WORLDS["Walk"].spec("world")
    report = check_environment(CheckConfig(env=spec, split="test", tasks=3, turns=4, seed=1))
    assert (report.split, report.tasks, report.turns) == ("test", 3, 12)
    assert check_environment(CheckConfig(env=spec, tasks=3, turns=4)).split == "train"


def test_the_verb_ends_with_1_where_there_is_trouble(capsys, monkeypatch):
    name = f"{__name__}:SHARED"
    monkeypatch.setitem(globals(), "SHARED", WORLDS["Shared"])
    assert main(["envs", "check", "--env", name, "--tasks", "2", "--turns", "4"]) == 1
    assert "trouble" in capsys.readouterr().out
    assert environment(name).step_limit == 30


def test_a_new_environment_plays_as_it_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["envs", "new", "my_first_world"]) == 0
    assert "my_first_world.py" in capsys.readouterr().out
    assert main(["envs", "check", "--env", "my_first_world:ENV"]) == 0
    assert main(["evaluate", "--env", "my_first_world:ENV", "--agent", "expert", "--tasks", "4", "--out", "run"]) == 0
    assert "100.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "words"), [("3x", "no name"), ("class", "no name"), ("taken_world", "exists"), ("json", "installed")]
)
def test_a_name_that_cannot_be_written_is_refused(tmp_path, monkeypatch, capsys, name, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken_world.py").write_text("")
    assert main(["envs", "new", name]) == 2
    assert words in capsys.readouterr().err
    assert (tmp_path / "taken_world.py").read_text() == ""


def test_random_has_nothing_to_draw_from_where_no_action_is_listed(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(globals(), "WALK", WORLDS["Walk"])
    assert main(["evaluate", "--env", f"{__name__}:WALK", "--agent", "random", "--tasks", "2", "--out", "run"]) == 2
    assert "lists no actions" in capsys.readouterr().err
