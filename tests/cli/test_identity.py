"""What things are is told by their content, whatever they are called: interfaces, environments, agents, models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import align_echo
from align_echo.errors import UsageError
from align_echo.interface.contract import identity, load_interface, save_interface
from align_echo.interface.hints import HintCount
from align_echo.report.view import packing
from align_echo.report.view.listing import provenances
from align_echo.rollout.session import Session
from align_echo.run_dir import CONFIG, RunDir
from align_echo.types import Trajectory
from align_echo.wrappers.catalogue import ENVIRONMENTS, environment, register
from tests import vault_env
from tests.play import source
from tests.vault_env import declared

TELLS = source(
    "obs, reward, done, info = env.step(agent_action)\n"
    "text = obs\n"
    "if text == 'No.':\n"
    "    text += ' You need to `' + agent_action.replace('open', 'unlock') + '` first.'\n"
    "return text, reward, done",
    rules="return 'Do as you are told.'",
)
EVALUATE = ["evaluate", "--agent", "tests.vault_env:Obedient", "--tasks", "2", "--out", "run"]


@pytest.fixture
def tells(tmp_path) -> Path:
    """An interface that was made for `tests.vault_env:VAULT`, with its record."""
    return made(tmp_path, "tells")


def made(folder: Path, stem: str, **changes: object) -> Path:
    spec = environment("tests.vault_env:VAULT")
    interface = identity(spec.contract)
    provenance = interface.provenance.model_copy(update={"backend": "hand", "action_format": spec.action_format})
    interface = interface.model_copy(update={"source": TELLS, "provenance": provenance, **changes})
    return save_interface(interface, folder, stem)


def won(folder: str = "run") -> float:
    summary = json.loads(Path(folder, "summary.json").read_text())
    return float(summary["variants"]["full"]["success_rate"]["value"])


@pytest.mark.parametrize("env", ["tests.vault_env:VAULT", "tests.vault_env:Vault", "othervault:Copy"])
def test_an_equal_environment_under_another_name_takes_the_interface(run, tells, tmp_path, env):
    (tmp_path / "othervault.py").write_text("from tests.vault_env import VAULT as Copy\n")
    status, out, err = run(*EVALUATE, "--env", env, "--interface", "tells.py")
    assert status == 0, err
    assert won() == 100
    assert ("made by hand for tests.vault_env:VAULT" in out) == (env != "tests.vault_env:VAULT")


def test_registered_environments_and_objects_are_no_other_case(tells):
    spec = declared().spec("somebody's vault")
    interface = spec.interface("tells.py")
    assert interface is not None
    env = align_echo.make(spec, interface="tells.py")
    opening, _ = env.reset(options={"task": "0"})
    assert opening.startswith("Do as you are told.")
    with Session.open(spec, interface=load_interface(tells), agent="mine") as session:
        session.reset("0")
        assert session.step("open box 1").observation == "No. You need to `unlock box 1` first."
    assert session.trajectory().played_under == interface.played


BAD = """
import dataclasses
from tests.vault_env import VAULT
JSON = dataclasses.replace(VAULT, action_format="JSON with a tool and its arguments")
LOOKS = dataclasses.replace(VAULT, read_only_actions=("look",))
"""


def test_a_mismatch_is_said_before_anything_is_loaded_with_a_way_to_go_on(run, tells, tmp_path):
    (tmp_path / "kinds.py").write_text(BAD)
    chat = ["--agent", "vanilla", "--model", "transformers:/no/such/model", "--out", "run"]
    status, out, err = run("evaluate", *chat, "--env", "kinds:JSON", "--interface", "tells.py")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert "made for tests.vault_env:VAULT, does not fit kinds:JSON: its actions are" in err
    assert not Path("run").exists()
    way = err.partition("all the same: align-echo ")[2].partition(";")[0].split()
    status, out, err = run(*way, "--out", "copy")
    assert status == 0, err
    assert "written: copy/tells.py; next: align-echo evaluate --env kinds:JSON --interface copy/tells.py" in out
    status, _, err = run(*EVALUATE, "--env", "kinds:JSON", "--interface", "copy/tells.py")
    assert status == 0, err
    assert won() == 100
    assert load_interface("copy/tells.py").provenance.environment == "tests.vault_env:VAULT"
    more_looks = [*EVALUATE[:-1], "looks", "--env", "kinds:LOOKS", "--interface", "tells.py"]
    assert run(*more_looks)[0] == 0
    made(tmp_path, "looks", contract=environment("kinds:LOOKS").contract)
    vault = ["--env", "tests.vault_env:VAULT", "--agent", "tests.vault_env:Obedient"]
    for command in (["grid", *vault], ["interface", "audit", "looks.py", *vault[:2]]):
        named = [] if "audit" in command else ["--interface", "looks.py", "--out", "more"]
        status, _, err = run(*command, *named)
        assert (status, "it may look by `look`" in err, Path("more").exists()) == (2, True, False), err


def test_code_of_another_kind_is_not_bound(run, tmp_path, tells):
    status, _, err = run("interface", "bind", "tells.py", "--env", "alfworld", "--out", "copy")
    assert (status, err.count("\n")) == (2, 1)
    assert "cannot be played in alfworld: it calls" in err
    assert "here env.step takes a list with one action and answers with lists" in err
    assert err.endswith("change every env.step in its code, and what WrapStep returns\n")
    assert not Path("copy").exists()


def test_a_file_that_nothing_ties_to_an_environment_needs_no_copy(run, tmp_path):
    (tmp_path / "bare.py").write_text(TELLS)
    status, _, err = run("interface", "bind", "bare.py", "--env", "tests.vault_env:Vault", "--out", "copy")
    assert (status, err.count("\n"), Path("copy").exists()) == (2, 1, False)
    assert "has no .json beside it that ties it to another environment" in err
    command = err.partition("try it as it is with align-echo ")[2].split()
    status, _, err = run(*command, "--agent", "tests.vault_env:Obedient", "--tasks", "2", "--out", "run")
    assert status == 0, err
    (tmp_path / "bare.py").write_text(TELLS.replace("def WrapStep(env, ", "def WrapStep("))
    status, _, err = run("interface", "bind", "bare.py", "--env", "tests.vault_env:Vault", "--out", "copy")
    assert (status, "wrong signature: WrapStep(" in err) == (2, True), err


def test_a_bare_file_is_read_by_the_contract_that_it_is_used_with(tmp_path):
    (tmp_path / "bare.py").write_text(TELLS)
    with Session.open("tests.vault_env:Vault", interface="bare.py", agent="mine") as session:
        session.reset("0")
        assert "unlock box 2" in session.step("open box 2").observation


# ---------------------------------------------------------------- resuming


def test_a_copy_goes_on_and_another_of_the_same_label_does_not(run, tells, tmp_path):
    vault = [*EVALUATE, "--env", "tests.vault_env:VAULT"]
    assert run(*vault, "--interface", "tells.py")[0] == 0
    for ending in (".py", ".json"):
        shutil.copy(tells.with_suffix(ending), tmp_path / f"renamed{ending}")
    status, _, err = run(*vault, "--interface", "renamed.py", "--resume")
    assert status == 0, err

    def silences(rule: str) -> Path:
        return made(tmp_path, "tells", record=(HintCount(rule=rule, failed=9),))

    silences("you need to `unlock _` first.")
    again = [*vault[: vault.index("run")], "again", *vault[vault.index("run") + 1 :], "--interface", "tells.py"]
    assert run(*again)[0] == 0
    label = json.loads(Path("again/config.json").read_text())["interfaces"]["full"]
    silences("some other rule.")
    interface = environment("tests.vault_env:VAULT").interface("tells.py")
    assert interface is not None
    assert interface.label == label
    status, _, err = run(*again, "--resume")
    assert (status, err.count("\n"), "was started with interfaces.full" in err) == (2, 1, True), err


def test_a_run_of_an_older_version_goes_on_by_what_its_label_says(run, tells):
    vault = [*EVALUATE, "--env", "tests.vault_env:VAULT", "--interface", "tells.py"]
    assert run(*vault)[0] == 0
    config = Path("run/config.json")
    old = json.loads(config.read_text())
    for key in ("interface_contents", "interface_named"):
        del old[key]
    config.write_text(json.dumps({**old, "interfaces": {"full": "other/name@" + old["interfaces"]["full"][6:]}}))
    assert run(*vault, "--resume")[0] == 0
    config.write_text(json.dumps({**old, "interfaces": {"full": "tells@0123456789abcdef"}}))
    assert run(*vault, "--resume")[0] == 2


def test_another_agent_of_the_same_name_does_not_go_on_with_a_run(run, tmp_path, hardly_any_fresh_tasks):
    learn = ["generate-interface", "--env", "tests.vault_env:VAULT", "--tasks-per-iteration", "1", "--iterations", "1"]
    learn += ["--play-tasks", "0", "--out", "run"]
    assert run(*learn, "--agent", "tests.vault_env:Stubborn")[0] == 0
    status, _, err = run(*learn, "--agent", "tests.vault_env:Obedient", "--resume")
    assert (status, err.count("\n")) == (2, 1)
    assert "player = tests.vault_env:Stubborn, not tests.vault_env:Obedient" in err
    config = Path("run/config.json")
    older = json.loads(config.read_text())
    status, _, err = run(*learn, "--agent", "tests.vault_env:Stubborn", "--resume")
    assert status == 0, err
    (tmp_path / "longer.py").write_text(
        "import dataclasses\nfrom tests.vault_env import VAULT\nVAULT = dataclasses.replace(VAULT, step_limit=9)\n"
    )
    config.write_text(json.dumps({**older, "environment": "longer:VAULT"}))
    other = [*learn[:2], "longer:VAULT", *learn[3:], "--agent", "tests.vault_env:Stubborn", "--resume"]
    status, _, err = run(*other)
    assert (status, "declared.step_limit = 8, not 9" in err) == (2, True), err
    del older["player"], older["declared"]
    config.write_text(json.dumps(older))
    assert run(*learn, "--agent", "tests.vault_env:Stubborn", "--resume")[0] == 0


# ---------------------------------------------------------------- records of episodes


def test_hints_are_counted_for_the_source_whatever_the_file_was_called(run, tells, tmp_path):
    assert run(*EVALUATE, "--env", "tests.vault_env:VAULT", "--interface", "tells.py", "--compare")[0] == 0
    shutil.move(tells, tmp_path / "moved-placebo.py")
    status, out, err = run("interface", "show", "moved-placebo.py", "--env", "tests.vault_env:Vault", "--run", "run")
    assert status == 0, err
    row = next(line for line in out.splitlines() if line.startswith("you need to `unlock _` first."))
    assert row.split()[-5:] == ["4", "4", "4", "0", "0"], "of both variants with feedback, and not of the placebo"


def test_episodes_of_older_versions_are_known_by_their_labels():
    common = {"environment": "e", "split": "s", "task_id": "t", "agent": "a", "goal": "", "initial_observation": ""}
    old = Trajectory.model_validate({**common, "interface": "a/b@0123456789abcdef-rules-2-silenced-placebo"})
    assert (old.source, old.is_placebo) == ("0123456789abcdef", True)
    assert (Trajectory.model_validate(common).source, Trajectory.model_validate(common).is_placebo) == ("", False)


# ---------------------------------------------------------------- models, folders, pages


def config_of(model: str, weights: str) -> dict[str, object]:
    return {"command": "evaluate", "agent": "vanilla", "model": model,
            "agent_details": {"model.agent": model, "weights.agent": weights}}  # fmt: skip


def test_a_local_model_is_what_its_weights_are(tmp_path):
    (tmp_path / CONFIG).write_text(json.dumps(config_of("./m", "abc")))
    RunDir(tmp_path, config_of("/somewhere/m", "abc"), resume=True).check()
    with pytest.raises(UsageError, match="was started with agent_details"):
        RunDir(tmp_path, config_of("./m", "def"), resume=True).check()
    (tmp_path / CONFIG).write_text(json.dumps(config_of("gpt", "")))
    with pytest.raises(UsageError, match=r"was started with agent_details\.model\.agent = gpt, not other"):
        RunDir(tmp_path, config_of("other", ""), resume=True).check()


def test_two_environments_of_one_folder_are_not_taken_for_one(run, tmp_path, monkeypatch):
    shutil.copy(Path(vault_env.__file__), tmp_path / "vault.py")
    for known in ("_known", "_registered"):
        monkeypatch.setattr(ENVIRONMENTS, known, dict(getattr(ENVIRONMENTS, known)))
    register("vault-Vault", vault_env.Vault)
    study = "environments: [vault-Vault, 'vault:Vault']\nagents: ['tests.vault_env:Obedient']\ninterface: bare.py\n"
    (tmp_path / "study.yaml").write_text(study)
    (tmp_path / "bare.py").write_text(TELLS)
    status, _, err = run("study", "study.yaml", "--out", "run")
    assert (status, err.count("\n")) == (2, 1), err
    assert "vault-Vault and vault:Vault would share the folder vault-Vault" in err
    assert not Path("run").exists()


def test_a_copy_of_a_shipped_interface_has_its_rules_under_any_name_and_namesakes_are_told_apart(run, tmp_path):
    shipped = load_interface("alfworld/probe")
    played = ["evaluate", "--env", "alfworld", "--agent", "novice", "--tasks", "1"]
    save_interface(shipped.model_copy(update={"name": "copy"}), tmp_path, "copy")
    assert run(*played, "--interface", "copy.py", "--out", "run")[0] == 0
    episode = Trajectory.model_validate_json(Path("run/trajectories/full.jsonl").read_text())
    assert provenances([episode.interface], [])[episode.interface].rules == shipped.provenance.rules
    index = packing._Index()
    assert episode.played_under is not None
    other = episode.played_under.model_copy(update={"fingerprint": "0" * 16})
    namesake = episode.model_copy(update={"played_under": other})
    assert [index.label(each) for each in (episode, namesake, episode)] == [
        episode.interface, f"{episode.interface} (2)", episode.interface,
    ]  # fmt: skip
    assert provenances([f"{episode.interface} (2)"], [])
