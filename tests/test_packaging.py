"""The built wheel: complete, light, and importable away from the checkout."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {"align_echo": "align_echo", "wrappers": "align_echo/wrappers", "interfaces": "align_echo/interfaces"} | {
    "prompts": "align_echo/prompts"
}
"""Folder of the repository -> folder in the wheel."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built once from a copy of what git would ship."""
    copy = tmp_path_factory.mktemp("source")
    names = (*SOURCES, "align_echo_command.py", "pyproject.toml", "README.md", "LICENSE")
    subprocess.run(["cp", "-a", *(str(ROOT / name) for name in names), str(copy)], check=True)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return next((copy / "dist").glob("*.whl"))


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


def in_a_fresh_process(installed: Path, code: str, folder: Path) -> str:
    """Run code with the installed wheel in front of everything, outside the checkout."""
    prelude = f"import sys; sys.path.insert(0, {str(installed)!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", prelude + code], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


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


def test_nothing_but_the_library_is_in_the_wheel(contents):
    others = {name for name in contents if not name.startswith(("align_echo/", "align_echo-"))}
    assert others == {"align_echo_command.py"}


def test_the_license_and_the_command_are_in_the_wheel(wheel, contents):
    assert any(name.endswith("licenses/LICENSE") for name in contents)
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in contents if name.endswith("entry_points.txt"))
        assert "align-echo = align_echo_command:run" in archive.read(name).decode()


def test_it_imports_outside_the_checkout(installed, tmp_path):
    code = "import align_echo, align_echo.cli.main as m; print(align_echo.__file__); m.main(['envs'])"
    out = in_a_fresh_process(installed, code, tmp_path)
    assert out.startswith(str(installed))
    assert "alfworld" in out


def test_shipped_interfaces_and_tasks_are_read_from_the_wheel(installed, tmp_path):
    code = (
        "import align_echo, os; os.environ.pop('ALFWORLD_DATA', None)\n"
        "from align_echo.interface import shipped_interfaces\n"
        "for name in shipped_interfaces(): print('interface', align_echo.load_interface(name).label)\n"
        "print(len(align_echo.tasks('alfworld', split='valid_unseen')))"
    )
    out = in_a_fresh_process(installed, code, tmp_path)
    shipped = [file for file in (ROOT / "interfaces").glob("*/*.py") if not file.name.startswith("_")]
    assert out.count("interface ") == len(shipped)
    assert out.splitlines()[-1] == "134"


def test_importing_the_library_loads_no_engine_and_no_model_client():
    heavy = ["textworld", "alfworld", "fast_downward", "tatsu", "openai", "torch", "rich", "typer"]
    heavy += ["selenium", "miniwob", "PIL"]
    code = f"import sys, align_echo; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_starts_on_the_base_install(tmp_path):
    extras = ["torch", "transformers", "tokenizers", "trl", "peft", "accelerate", "sklearn", "matplotlib", "PIL"]
    extras += ["selenium", "miniwob", "inspect_ai", "openenv", "mcp", "vllm"]
    code = f"import sys; sys.modules |= dict.fromkeys({extras}); import align_echo.cli.main as m; m.main(['envs'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert "alfworld" in done.stdout, done.stderr[-2000:]


def test_the_base_install_asks_for_no_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower() for requirement in project["dependencies"]}
    assert names.isdisjoint({"torch", "transformers", "vllm", "trl", "accelerate", "tensorflow", "jax"})
    assert len(names) == len(project["dependencies"])


def test_one_version_everywhere():
    import align_echo

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == align_echo.__version__
    assert f"## {align_echo.__version__}" in (ROOT / "CHANGELOG.md").read_text()
