"""The folder of a critic's training, whatever it reads: settings, checkpoints, the critic put in place.

    config.json      what was asked for, and which examples (by content); a resumed run must ask for the same
    checkpoints/     of `transformers`; warm/ those of a reasoning critic's warm start, signals.jsonl its steps
    critic/          the critic: weights, tokenizer, calibration.json; a model to be named by its folder; appears whole
    summary.json     written last

Left out: learning, of text (`intuitive.py`, `reasoning.py`) and of screens (`gui/fit.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from align_echo import __version__
from align_echo.errors import UsageError
from align_echo.files import clear
from align_echo.gaia.lessons import Lessons
from align_echo.locking import FolderLock
from align_echo.models.names import ModelName
from align_echo.prompts import prompt_hash
from align_echo.runs import (
    CHECKPOINTS,
    CONFIG,
    begin_run,
    check_room,
    check_run,
    drop_unfinished,
    of_verb,
    whole_checkpoints,
)
from align_echo.types import Frozen

COMMAND = "critic train"
CRITIC = "critic"
WARM = "warm"
SIGNALS = "signals.jsonl"
Settings = TypeVar("Settings", bound=Frozen)


def read_settings(
    kind: type[Settings], file: Path | None, changes: Mapping[str, object], *, base: Path | None = None
) -> Settings:
    """The settings of a YAML file with these changes, which are named as their options; what neither says is as in the
    file `base`, or else the default. Raises `UsageError` in one line that tells where what is wrong comes from.
    """
    from pydantic import ValidationError

    from align_echo.train.config import read_file

    given = {name: value for name, value in changes.items() if value is not None}
    try:
        return kind.model_validate({**(read_file(base) if base else {}), **(read_file(file) if file else {}), **given})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "settings"
        source = "--" if where in given else f"{file}: "
        raise UsageError(f"{source}{where}: {first['msg']}") from error


def asked_of(
    lessons: Lessons, model: ModelName, source: str, share: float, prompts: Sequence[str], settings: Frozen
) -> dict[str, Any]:
    """What `config.json` holds; `prompts` are those that the critic is asked and taught by, `source` is where the files
    of `model` are.
    """
    from align_echo.models.local.loading import content_hash

    return {
        "command": COMMAND,
        "align_echo": __version__,
        "examples": list(lessons.collections),
        "collections": [str(folder) for folder in lessons.collections.values()],
        "model": model.text,
        "weights": content_hash(Path(source)) if Path(source).is_dir() else "",
        "rule": lessons.rule,
        "held_out": share,
        "prompt": {name: prompt_hash(name) for name in prompts},
        "settings": settings.model_dump(mode="json"),
    }


def check_folder(path: Path, config: Mapping[str, Any], *, resume: bool) -> None:
    """Refuse a folder of something else, or that another process works in, without touching it. One without a
    checkpoint is begun anew. By what paths the collections and a model whose weights are on record are named is no
    matter. Raises `UsageError`.
    """
    check_run(path, config, resume=resume, unmade=_made_nothing, compared=_compared(config))


def check_disk(path: Path, source: str, weights: str) -> None:
    """Refuse a folder without room for what a training leaves: the critic, and of all weights two checkpoints with the
    optimizer's moments; adapters are left out as small. Raises `UsageError`.
    """
    from align_echo.train.estimate import BYTES, parameters_of

    models = 1 + (2 * 3 if weights == "full" else 0)
    check_room(path, models * BYTES * parameters_of(source))


def open_folder(path: Path, config: Mapping[str, Any], *, resume: bool) -> FolderLock:
    """Make the folder, and keep other processes out of it. Checkpoints that were not written to their end are dropped.

    Raises `UsageError` if another process works in it, or has begun to since it was checked.
    """
    lock = begin_run(path, config, resume=resume, unmade=_made_nothing, compared=_compared(config))
    for part in (CHECKPOINTS, WARM):
        drop_unfinished(path / part)
    return lock


def _compared(config: Mapping[str, Any]) -> Callable[[str], bool]:
    unlike = {"collections", "model"} if config.get("weights") else {"collections"}
    return lambda key: key not in unlike


def beside(path: Path) -> Path:
    """Where the critic is written before it is whole, empty."""
    folder = path / f".{CRITIC}.partial"
    clear(path, [folder.name])
    return folder


def merged(learner: Any, weights: str, folder: Path) -> Any:
    """The model with its adapter merged in, the adapter itself written to `folder`. Raises as `check_finite`."""
    if weights == "lora":
        learner.save_pretrained(str(folder / "adapter"))
        learner = learner.merge_and_unload()
    check_finite(learner)
    return learner


def check_finite(model: Any) -> None:
    """Raises `UsageError` if training broke the weights."""
    import torch

    if not all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters()):
        raise UsageError("the critic's weights are no numbers any more: train anew with a smaller --lr")


def put_in_place(folder: Path) -> None:
    """Let what was written `beside` appear whole."""
    clear(folder.parent, [CRITIC])
    folder.replace(folder.with_name(CRITIC))


def _made_nothing(path: Path) -> bool:
    """Whether nothing but a training that left no checkpoint is there."""
    ours = {CONFIG, CHECKPOINTS, WARM, SIGNALS}
    began = [folder for part in (CHECKPOINTS, WARM) for folder in whole_checkpoints(path / part)]
    return of_verb(path, COMMAND) and {entry.name for entry in path.iterdir()} <= ours and not began
