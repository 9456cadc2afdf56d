"""Folder of a critic's training, whatever its input: settings, checkpoints, the published critic.

    config.json      the settings and the examples (by content); a resumed run must have the same
    checkpoints/     of `transformers`; warm/ those of a reasoning critic's warm start, signals.jsonl its steps
    critic/          the critic: weights, tokenizer, calibration.json; a model by its folder name; appears complete
    summary.json     written last

Not here: training on text (`intuitive.py`, `reasoning.py`) and on screens (`gui/fit.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field

from align_echo.base.files import clear
from align_echo.base.plain_yaml import first_wrong
from align_echo.errors import UsageError
from align_echo.gaia.verdicts import TrainingData
from align_echo.models.choosing import ModelName
from align_echo.prompts import prompt_hash
from align_echo.run_dir import (
    CHECKPOINTS,
    CONFIG,
    RunDir,
    check_room,
    drop_unfinished,
    is_run_by,
    whole_checkpoints,
)
from align_echo.types import Frozen
from align_echo.version import __version__

COMMAND = "critic train"
CRITIC = "critic"
WARM = "warm"
SIGNALS = "signals.jsonl"
Settings = TypeVar("Settings", bound=Frozen)


WeightsName = Annotated[str | None, Field(description="lora or full; default: the preset's.")]
LearningRate = Annotated[float | None, Field(description="Learning rate; default: the preset's.")]
Epochs = Annotated[int | None, Field(ge=1, description="Epochs; default: the preset's.")]
SettingsFile = Annotated[
    Path | None,
    Field(description="YAML of settings, or small or paper-gaia; default: by the model's size."),
]


def read_settings(
    kind: type[Settings], file: Path | None, changes: Mapping[str, object], *, base: Path | None = None
) -> Settings:
    """Read settings from a YAML file with `changes`, named like their options; missing values come from the file
    `base`, or else the defaults.

    Raises `UsageError` in one line naming the source of the wrong value.
    """
    from pydantic import ValidationError

    from align_echo.train.config import read_file

    overrides = {name: value for name, value in changes.items() if value is not None}
    try:
        values = {**(read_file(base) if base else {}), **(read_file(file) if file else {})}
        return kind.model_validate(values | overrides)
    except ValidationError as error:
        source = "--" if error.errors()[0]["loc"][:1] in [(name,) for name in overrides] else f"{file}: "
        raise UsageError(f"{source}{first_wrong(error, of_settings=True)}") from error


def training_config(
    lessons: TrainingData, model: ModelName, source: str, share: float, prompts: Sequence[str], settings: Frozen
) -> dict[str, Any]:
    """Return the content of `config.json`. `prompts` are those of questions and training targets, `source` is the
    location of the `model` files.
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


class CriticDir(RunDir):
    """Folder of a critic's training. Without a checkpoint it starts again.

    The paths of collections, and of a model with recorded weights, may differ in a resumed run.
    """

    def __init__(self, path: Path, config: Mapping[str, Any], *, resume: bool = False) -> None:
        unlike = {"collections", "model"} if config.get("weights") else {"collections"}
        super().__init__(
            path, config, resume=resume, has_output=_has_checkpoint, compared=lambda key: key not in unlike
        )

    def begin(self) -> Self:
        """Begin as every run, and drop incomplete checkpoints."""
        super().begin()
        for part in (CHECKPOINTS, WARM):
            drop_unfinished(self.path / part)
        return self


def check_disk(path: Path, source: str, weights: str) -> None:
    """Refuse a folder without room for a training's output: the critic, and for full weights two checkpoints with
    optimizer moments; adapters are small and not counted. Raises `UsageError`.
    """
    from align_echo.train.obstacles import BYTES, count_parameters

    models = 1 + (2 * 3 if weights == "full" else 0)
    check_room(path, models * BYTES * count_parameters(source))


def partial_folder(path: Path) -> Path:
    """Return the empty folder where the critic is written before it is complete."""
    folder = path / f".{CRITIC}.partial"
    clear(path, [folder.name])
    return folder


def merge_adapter(learner: Any, weights: str, folder: Path) -> Any:
    """Merge the model's adapter, after writing the adapter itself to `folder`. Raises as `check_finite`."""
    if weights == "lora":
        learner.save_pretrained(str(folder / "adapter"))
        learner = learner.merge_and_unload()
    check_finite(learner)
    return learner


def check_finite(model: Any) -> None:
    """Raise `UsageError` if training broke the weights."""
    import torch

    if not all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters()):
        raise UsageError("the critic's weights are no numbers any more: train anew with a smaller --lr")


def publish_critic(folder: Path) -> None:
    """Move the finished critic to its place atomically."""
    clear(folder.parent, [CRITIC])
    folder.replace(folder.with_name(CRITIC))


def _has_checkpoint(path: Path) -> bool:
    """Return False for a folder that holds nothing but a training without a checkpoint."""
    ours = {CONFIG, CHECKPOINTS, WARM, SIGNALS}
    checkpoints = [folder for part in (CHECKPOINTS, WARM) for folder in whole_checkpoints(path / part)]
    return not is_run_by(path, COMMAND) or not {entry.name for entry in path.iterdir()} <= ours or bool(checkpoints)
