"""The sdist and the wheel built from it: complete, light, of use away from the checkout with the base install alone."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement

Done = subprocess.CompletedProcess[str]
ROOT = Path(__file__).parents[1]
SOURCES = {"align_echo": "align_echo", "wrappers": "align_echo/wrappers", "interfaces": "align_echo/interfaces"} | {
    "prompts": "align_echo/prompts"
}
"""Folder of the repository -> folder in the wheel."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, built once from a copy of what git would ship, and the wheel built from that sdist."""
    copy = tmp_path_factory.mktemp("source")
    names = (*SOURCES, "align_echo_command.py", "pyproject.toml", "README.md", "LICENSE")
    subprocess.run(["cp", "-a", *(str(ROOT / name) for name in names), str(copy)], check=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return copy / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    [wheel] = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel in a folder of its own, without its dependencies."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*command, str(wheel)], check=True, capture_output=True)
    return target


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of the base install, as its metadata ask for them, linked into a folder of their own."""
    folder = tmp_path_factory.mktemp("base")
    wanted, known = [(Requirement(line), "") for line in project()["dependencies"]], set()
    while wanted:
        requirement, extra = wanted.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        distribution = metadata.distribution(requirement.name)
        for inner in ("", *requirement.extras):
            if (requirement.name.lower(), inner) not in known:
                known.add((requirement.name.lower(), inner))
                wanted += [(Requirement(line), inner) for line in distribution.requires or ()]
        for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (folder / name).exists():
                (folder / name).symlink_to(Path(str(distribution.locate_file(name))))
    return folder


def project() -> dict[str, Any]:
    read: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return read


def with_the_base_install(installed: Path, base: Path, folder: Path, *arguments: str) -> Done:
    """The command line of the installed wheel, with the packages of the base install and no other."""
    [monty] = [str(file.locate()) for file in metadata.files("pydantic-monty-runtime") or () if file.stem == "monty"]
    code = (
        f"import sys; sys.path[:0] = [{str(installed)!r}, {str(base)!r}]\n"
        f"from align_echo.cli.main import main; sys.exit(main({list(arguments)!r}))"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PATH": "", "HOME": str(folder), "ALIGN_ECHO_CACHE": str(folder / "cache"), "MONTY_BIN": monty},
        check=False,
    )


def in_a_fresh_process(installed: Path, code: str, folder: Path) -> str:
    """Run code with the installed wheel in front of everything, outside the checkout."""
    prelude = f"import sys; sys.path.insert(0, {str(installed)!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", prelude + code], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.long
def test_every_file_of_the_library_is_in_the_wheel(contents):
    missing = [
        f"{folder}/{name}"
        for folder, inside in SOURCES.items()
        for file in sorted((ROOT / folder).rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts and not file.name.startswith(".")
        for name in [file.relative_to(ROOT / folder)]
        if f"{inside}/{name}" not in contents
    ]
    assert missing == []


@pytest.mark.long
def test_the_sdist_and_the_wheel_hold_the_same_files(built, contents):
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if not archive.getmember(name).isdir()}
    inside = {
        f"{SOURCES[folder]}/{rest}" if folder in SOURCES else folder
        for folder, _, rest in (name.partition("/") for name in names)
        if not folder.endswith(".egg-info")
    }
    about = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}
    assert inside - about == {name for name in contents if ".dist-info/" not in name}


def test_the_metadata_are_valid(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = Metadata.from_email(archive.read(name), validate=True)
    assert (told.name, told.description_content_type) == ("align-echo", "text/markdown")
    assert told.description == (ROOT / "README.md").read_text()
    assert told.license_expression == "Apache-2.0 AND MIT"
    assert set(told.license_files or ()) == {"LICENSE", "wrappers/alfworld/NOTICE"}


def test_nothing_but_the_library_is_in_the_wheel(contents):
    others = {name for name in contents if not name.startswith(("align_echo/", "align_echo-"))}
    assert others == {"align_echo_command.py"}


def test_the_license_and_the_command_are_in_the_wheel(wheel, contents):
    assert any(name.endswith("licenses/LICENSE") for name in contents)
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in contents if name.endswith("entry_points.txt"))
        assert "align-echo = align_echo_command:run" in archive.read(name).decode()


@pytest.mark.long
def test_it_imports_outside_the_checkout(installed, tmp_path):
    code = "import align_echo, align_echo.cli.main as m; print(align_echo.__file__); m.main(['envs'])"
    out = in_a_fresh_process(installed, code, tmp_path)
    assert out.startswith(str(installed))
    assert "alfworld" in out


def test_shipped_interfaces_and_tasks_are_read_from_the_wheel(installed, tmp_path):
    code = (
        "import align_echo, os; os.environ.pop('ALFWORLD_DATA', None)\n"
        "from align_echo.interface.contract import shipped_interfaces\n"
        "for name in shipped_interfaces(): print('interface', align_echo.load_interface(name).label)\n"
        "print(len(align_echo.tasks('alfworld', split='valid_unseen')))"
    )
    out = in_a_fresh_process(installed, code, tmp_path)
    shipped = [file for file in (ROOT / "interfaces").glob("*/*.py") if not file.name.startswith("_")]
    assert out.count("interface ") == len(shipped)
    assert out.splitlines()[-1] == "134"


@pytest.mark.long
def test_the_base_install_plays_alfworld_and_names_the_extra_of_what_it_lacks(installed, base, tmp_path):
    played = with_the_base_install(
        installed, base, tmp_path,
        *("evaluate", "--env", "alfworld", "--agent", "novice", "--interface", "probe", "--tasks", "2", "--out", "run"),
    )  # fmt: skip
    assert played.returncode == 0, played.stderr[-2000:]
    assert "agent novice" in played.stdout
    viewed = with_the_base_install(installed, base, tmp_path, "view", "run")
    assert viewed.returncode == 0, viewed.stderr[-2000:]
    looked = with_the_base_install(installed, base, tmp_path, "doctor")
    assert "alfworld tasks: 240 train" in looked.stdout
    for extra in set(project()["optional-dependencies"]) - {"dev"}:
        assert f"pip install '.[{extra}]' in a checkout" in looked.stdout
    lacking = ("--env", "webshop"), ("--env", "searchqa"), ("--env", "alfworld", "--agent", "expert")
    for options in lacking:
        refused = with_the_base_install(installed, base, tmp_path, "evaluate", *options, "--tasks", "1", "--out", "no")
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1), refused.stderr[-2000:]
        assert f"needs an extra: pip install '.[{options[1]}]' in a checkout" in refused.stderr
    assert not (tmp_path / "no").exists()


def test_importing_the_library_loads_no_engine_and_no_model_client():
    heavy = ["textworld", "alfworld", "fast_downward", "tatsu", "openai", "torch", "rich", "typer"]
    heavy += ["selenium", "miniwob", "PIL"]
    code = f"import sys, align_echo; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_base_install_stays_small(base):
    """Nothing heavy comes with it; all that it needs were 35 packages when this was written."""
    names = {file.name.partition("-")[0].lower().replace("_", "-") for file in base.glob("*.dist-info")}
    assert {Requirement(line).name for line in project()["dependencies"]} <= names
    engines = {"alfworld", "textworld", "fast-downward-textworld", "tatsu", "spacy", "bm25s", "nltk", "thefuzz"}
    assert names.isdisjoint(engines | {"torch", "transformers", "tokenizers", "vllm", "scipy", "pandas", "pillow"})
    assert len(names) <= 40


def test_the_command_line_starts_on_the_base_install(tmp_path):
    extras = ["torch", "transformers", "tokenizers", "trl", "peft", "accelerate", "sklearn", "matplotlib", "PIL"]
    extras += ["selenium", "miniwob", "inspect_ai", "openenv", "mcp", "vllm"]
    verbs = [f"align_echo.cli.{file.stem}" for file in (ROOT / "align_echo" / "cli").glob("[a-z]*.py")]
    code = f"import sys; sys.modules |= dict.fromkeys({extras}); import {', '.join(verbs)}; "
    code += "align_echo.cli.main.main(['envs'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert "alfworld" in done.stdout, done.stderr[-2000:]


def test_one_version_everywhere():
    import align_echo

    assert project()["version"] == align_echo.__version__
    assert f"## {align_echo.__version__}" in (ROOT / "CHANGELOG.md").read_text()
