"""The library's layers: a file imports only from its own layer and those below it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    *("version", "types", "errors", "registry", "base", "tokens", "intervals"),
    *("interface", "wrappers", "prompts", "models", "run_dir"),
    *("agents", "rollout", "workers"),
    *("critic", "train", "align", "evaluate", "gaia"),
    *("loops", "report", "installation", "cli"),
)
"""From the bottom to the top."""

FACADE = {"__version__"}
"""What a file may take from `align_echo` itself."""


def library_files() -> list[Path]:
    """Every module of the library, by its installed path (the symlinked folders too)."""
    library = ROOT / "align_echo"
    folders = [library, *(library / name for name in ("wrappers", "prompts"))]
    files = {file for folder in folders for file in folder.rglob("*.py")}
    return sorted(file for file in files if file.parent != library / "interfaces" and file != library / "__init__.py")


def layer_of(file: Path) -> str:
    return file.relative_to(ROOT / "align_echo").parts[0].removesuffix(".py")


def imported_layers(source: str) -> list[tuple[int, str]]:
    """(line, layer) of every import of the library; a name taken from the package itself counts as its layer."""
    imports = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == "align_echo":
                names = [f"align_echo.{alias.name}" for alias in node.names if alias.name not in FACADE]
        parts = [name.split(".") for name in names]
        imports += [
            (getattr(node, "lineno", 0), part[1]) for part in parts if part[0] == "align_echo" and len(part) > 1
        ]
    return imports


def upward_imports(layer: str, source: str) -> list[str]:
    """What a file of a layer imports from above it, or from nowhere in the list."""
    rank = LAYERS.index(layer)
    wrong = []
    for line, target in imported_layers(source):
        if target not in LAYERS:
            wrong.append(f"line {line}: {target} is in no layer")
        elif LAYERS.index(target) > rank:
            wrong.append(f"line {line}: {layer} must not import {target}, which is above it")
    return wrong


@pytest.mark.parametrize("file", library_files(), ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_imports_only_from_its_layer_and_below(file):
    assert upward_imports(layer_of(file), file.read_text()) == []


def test_the_check_sees_what_it_should():
    below = "from align_echo.types import Step\nimport align_echo.interface.sandbox.pool"
    assert upward_imports("wrappers", below) == []
    assert upward_imports("rollout", "def f():\n    from align_echo.align.loop import generate") == [
        "line 2: rollout must not import align, which is above it"
    ]
    assert upward_imports("types", "from align_echo import interface, __version__") == [
        "line 1: types must not import interface, which is above it"
    ]
    assert upward_imports("cli", "from align_echo import make") == ["line 1: make is in no layer"]


def test_the_files_are_found():
    names = {layer_of(file) for file in library_files()}
    assert {"types", "wrappers", "prompts", "evaluate", "cli"} <= names


# ---------------------------------------------------------------- circles


def modules() -> dict[str, Path]:
    """Every module by its name, packages by their own."""
    files = {}
    for file in [*library_files(), ROOT / "align_echo" / "__init__.py"]:
        parts = ["align_echo", *file.relative_to(ROOT / "align_echo").with_suffix("").parts]
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return files


def imports_of(source: str, known: Collection[str]) -> set[str]:
    """The modules that a file imports, wherever in it: lazily and for the type checker alone too."""
    wanted = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            wanted |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            wanted |= {
                name if (name := f"{node.module}.{alias.name}") in known else node.module for alias in node.names
            }
    return wanted & {*known}


def circles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Groups of modules that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, ahead = set(), list(graph[start])
        while ahead:
            module = ahead.pop()
            if module not in seen:
                seen.add(module)
                ahead += graph.get(module, ())
        reached[start] = seen
    groups = {tuple(sorted(b for b in reached[a] if a in reached.get(b, ()))) for a in graph}
    return sorted(map(list, groups - {()}))


def test_no_module_imports_itself_by_way_of_others():
    known = modules()
    assert circles({name: imports_of(file.read_text(), known) - {name} for name, file in known.items()}) == []


def test_a_circle_is_seen_however_it_is_hidden():
    sources = {
        "a": "def f():\n    import b",
        "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from c import X",
        "c": "from a import f",
        "d": "import a",
    }
    assert circles({name: imports_of(source, sources) for name, source in sources.items()}) == [["a", "b", "c"]]


# ---------------------------------------------------------------- names


def classes_by_name(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Where each class is defined, by its name."""
    homes: dict[str, list[str]] = {}
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    return homes


def test_no_two_classes_have_one_name():
    defined = classes_by_name({name: file.read_text() for name, file in modules().items()})
    assert {name: where for name, where in defined.items() if len(where) > 1} == {}


def test_a_name_that_is_there_twice_is_seen():
    sources = {"a": "class Page: ...", "b": "def f():\n    class Page: ...", "c": "class Goal: ..."}
    assert classes_by_name(sources) == {"Page": ["a", "b"], "Goal": ["c"]}


def test_the_command_line_is_thin():
    lines = sum(len(file.read_text().splitlines()) for file in (ROOT / "align_echo" / "cli").glob("*.py"))
    assert lines <= 1800, "what a verb does belongs below the command line"


# ---------------------------------------------------------------- models' names

NAMES = "align_echo.models.choosing"
DOORS = {
    *("align_echo.agents.players", "align_echo.evaluate.plan", "align_echo.evaluate.grid"),
    *("align_echo.align.generation", "align_echo.train.role_models", "align_echo.cli.critic"),
    *("align_echo.installation", "align_echo.gaia.trial", "align_echo.gaia.flywheel", "align_echo.gaia.fit.intuitive"),
    *("align_echo.gaia.fit.reasoning", "align_echo.gaia.gui.fit"),
}
"""Where users, or a folder that was just written, name models. What is behind a door is handed a `ModelName`."""


def reads_names(source: str) -> bool:
    """Whether a module makes a `ModelName` of a string."""
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id in ("read_name", "ModelName") for called in calls)


def parsed_prefixes(source: str) -> list[int]:
    """The lines at which a module asks whether a string has a prefix of a model's name, or takes it off."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call):
            parts = node.args
        elif isinstance(node, ast.Assign):
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        values = {part.value for part in parts if isinstance(part, ast.Constant)}
        if values & {"transformers:", "vllm:", "vllm-server:"}:
            lines.append(getattr(node, "lineno", 0))
    return lines


def test_names_of_models_are_read_at_the_doors_and_parsed_in_one_module():
    sources = {name: file.read_text() for name, file in modules().items()}
    assert {name for name, source in sources.items() if reads_names(source)} == {*DOORS, NAMES}
    assert {name: lines for name, source in sources.items() if (lines := parsed_prefixes(source))} == {}


def test_a_module_that_parses_a_name_is_seen():
    assert reads_names("def f(text):\n    return read_name(text).folder")
    assert not reads_names("def f(name: ModelName):\n    return name.folder")
    assert parsed_prefixes('SERVER = "vllm-server:"') == [1]
    assert parsed_prefixes('A, B = "vllm:", 1') == [1]
    assert parsed_prefixes('def f(name):\n    return name.removeprefix("transformers:")') == [2]
    assert parsed_prefixes('def f(source):\n    return f"vllm:{source}"') == []
