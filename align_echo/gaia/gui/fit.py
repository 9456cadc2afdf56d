"""Train a critic on screens: takes predictions on a step dataset, returns a calibrated critic.

The folder is laid out like a text critic's (`gaia/fit/folder.py`), with the image processor beside the tokenizer;
`summary.json` is `ScreenFitResult`. Episodes are held out like tasks there. Not here: training (`learning.py`), and
its effect on selection (`trial.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from align_echo.base.files import read_bytes
from align_echo.base.progress import SILENT, Progress
from align_echo.critic.calibration import CriticReport, LabelledVerdict
from align_echo.errors import MissingDataError, UsageError
from align_echo.gaia.examples import LEAST_ACTIONS, check_enough, describe_left_out, is_held_out
from align_echo.gaia.fit.folder import COMMAND, CriticDir
from align_echo.gaia.gui.screens import PREDICTIONS, ProposedStep, read_predictions
from align_echo.models.choosing import ModelName, read_name
from align_echo.models.local import POCKET
from align_echo.prompts import prompt_hash
from align_echo.train.needs import require_pictures, require_training
from align_echo.types import Frozen
from align_echo.version import __version__
from align_echo.wrappers.gui.actions import action_type, parse
from align_echo.wrappers.gui.steps import hash_content, read_steps

if TYPE_CHECKING:
    from align_echo.gaia.gui.learning import ScreenExample, VisionSettings
    from align_echo.gaia.gui.vision import ScreenEncoder

TINY = "tiny-vl"


class ScreenFitResult(Frozen):
    """Summary of a trained critic on screens: how many actions of how many `episodes` it learned from, and its
    results.

    `unparsed` candidates were not actions and are in neither part. `held_out` is the report on held-out episodes, None
    without any. Held-out actions are balanced like the training actions, and the temperature was fitted on them.
    """

    learned_from: int
    episodes: int
    unparsed: int
    temperature: float
    held_out: CriticReport | None


def fit_screens(
    folder: Path,
    path: Path,
    *,
    predictions: Sequence[Path] = (),
    model: str | ModelName = TINY,
    settings: VisionSettings | None = None,
    share: float = 0.1,
    least: int = LEAST_ACTIONS,
    resume: bool = False,
    progress: Progress = SILENT,
) -> ScreenFitResult:
    """Train and calibrate a critic on the steps of `folder`; with `share` 0 it stays uncalibrated.

    `predictions` default to the folder's own file. Raises `UsageError` or `MissingDataError` for unusable data, and
    for fewer than `least` actions; `path` is then left unchanged.
    """
    require_training()
    require_pictures()
    from align_echo.gaia.gui.learning import VisionSettings

    name, settings = read_name(model), settings or VisionSettings()
    steps = read_steps(folder)
    files = _contents(predictions or [folder / PREDICTIONS])
    proposed = [step for file in files.values() for step in read_predictions(file, steps, every=False)]
    record = {
        "command": COMMAND,
        "align_echo": __version__,
        **hash_content(folder, steps),
        "predictions": list(files),
        "collections": [str(folder), *map(str, files.values())],
        "model": name.text,
        "held_out": share,
        "prompt": prompt_hash("critic/screen_verdict"),
        "settings": settings.model_dump(mode="json"),
    }
    run_dir = CriticDir(path, record, resume=resume)
    run_dir.check()
    learned, tested = _divided(folder, proposed, share, settings.seed)
    left_out = _left_out(proposed, len(learned) + len(tested))
    check_enough(len(learned), least, left_out)
    learner, encoder = _begin(name, settings.seed)
    with run_dir:
        progress.say(f"learning from {len(learned):,} actions; {len(tested):,} held out; {describe_left_out(left_out)}")
        held_out = _train(path, learner, encoder, learned, tested, settings, progress)
        fitted = ScreenFitResult(
            learned_from=len(learned),
            episodes=len({example.step.episode for example in learned}),
            unparsed=sum(step.actions.count(None) for step in proposed),
            temperature=held_out.temperature if held_out else 1.0,
            held_out=held_out,
        )
        run_dir.finish(fitted)
    return fitted


def _train(
    path: Path,
    model: Any,
    encoder: ScreenEncoder,
    learned: Sequence[ScreenExample],
    tested: Sequence[ScreenExample],
    settings: VisionSettings,
    progress: Progress,
) -> CriticReport | None:
    """Train the model and save it as a critic. Return the report on the held-out examples, None without any."""
    from align_echo.gaia.fit.trainer import fit_calibrated
    from align_echo.gaia.gui.learning import learn_on_screens, verdicts_on

    def learn(checkpoints: Path, resume: bool) -> Any:
        return learn_on_screens(model, encoder, learned, settings, checkpoints, resume=resume, progress=progress)

    def verdicts(critic: Any) -> list[LabelledVerdict]:
        verdicts = verdicts_on(critic, encoder, tested, at_once=settings.at_once)
        return [
            LabelledVerdict(
                example.step.episode, action_type(parse(example.action)), example.label, verdict.label, verdict.logit
            )
            for example, verdict in zip(tested, verdicts, strict=True)
        ]

    def save(critic: Any, folder: Path) -> None:
        critic.save_pretrained(str(folder))
        encoder.save(folder)

    held_out, _ = fit_calibrated(path, settings, learn=learn, verdicts=verdicts, save=save)
    return held_out


def _divided(
    folder: Path, proposed: Sequence[ProposedStep], share: float, seed: int
) -> tuple[list[ScreenExample], list[ScreenExample]]:
    """Split into (training, held-out) examples, each balanced. Raises `UsageError` for a side without right or wrong
    actions.
    """
    from align_echo.gaia.gui.learning import balanced, screen_examples

    if not 0 <= share < 1:
        raise UsageError(f"the share of episodes that are held out is at least 0 and below 1, not {share}")
    distinct = {(example.step.id, example.action): example for example in screen_examples(folder, proposed)}
    examples = list(distinct.values())
    balanced(examples, seed=seed)
    tested = [example for example in examples if is_held_out(example.step.episode, share, seed=seed)]
    learned = [example for example in examples if not is_held_out(example.step.episode, share, seed=seed)]
    try:
        return balanced(learned, seed=seed), balanced(tested, seed=seed) if share else []
    except UsageError as error:
        advice = "add predictions, choose another --held-out, or 0 to learn from all and leave the critic uncalibrated"
        raise UsageError(f"the episodes are too few to hold {share} of them out: {advice}") from error


def _left_out(proposed: Sequence[ProposedStep], used: int) -> dict[str, int]:
    """Count the unused candidates by reason, in words. `used` is the number of used ones."""
    actions = [(step.step.id, text) for step in proposed for text in step.texts]
    parsed = [(step, text) for step, text in actions if text is not None]
    return {
        "that are no actions": len(actions) - len(parsed),
        "duplicates": len(parsed) - len({*parsed}),
        "so that as many are right as wrong": len({*parsed}) - used,
    }


def _begin(name: ModelName, seed: int) -> tuple[Any, Any]:
    """Load the model to train and its encoder. Raises `UsageError` or `MissingDataError` for an unusable model."""
    import torch

    from align_echo.gaia.gui.vision import read_vision

    learner, encoder = tiny_vision(seed) if name.text == TINY else read_vision(_source(name))
    return learner.to("cuda" if torch.cuda.is_available() else "cpu"), encoder


def _source(name: ModelName) -> str:
    """Return the model's source. Raises `UsageError` as `find_source`, and for the pocket model, which cannot see."""
    from align_echo.train.role_models import find_source

    if name.kind == POCKET:
        raise UsageError(f"the pocket model sees no screens: name {TINY}, a Qwen2.5-VL's folder, or transformers:HUB")
    return find_source(name, small=TINY)


def _contents(files: Sequence[Path]) -> dict[str, Path]:
    """Index the files by SHA-256, so a repeated file counts once. Raises `MissingDataError` for a missing file."""
    by_hash: dict[str, Path] = {}
    for file in files:
        if not file.is_file():
            raise MissingDataError(f"there is no {file}")
        by_hash.setdefault(hashlib.sha256(read_bytes(file)).hexdigest(), file)
    return by_hash


# ---------------------------------------------------------------- vision tiny

CONTEXT = 2048
PICTURE_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
PATCH = 14
LEAST_PIXELS, MOST_PIXELS = 56 * 56, 336 * 448


VISION_WIDTH, VISION_DEPTH = 32, 2
WIDTH, DEPTH, HEADS = 64, 2, 4
"""Sizes of the language part; the two above belong to the vision part."""


def tiny_vision(seed: int = 0, *, vision_width: int = VISION_WIDTH) -> tuple[Any, ScreenEncoder]:
    """Build the model and its encoder. Weights are scaled by fan-in, because the usual 0.02 suits far wider models.

    Raises `MissingDataError` without the pocket model.
    """
    import torch
    from tokenizers import Tokenizer
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    from align_echo.gaia.gui.vision import ScreenEncoder
    from align_echo.models.local.encoding import chatml_tokenizer
    from align_echo.models.local.loading import pocket_folder

    backend = Tokenizer.from_file(str(pocket_folder() / "tokenizer.json"))
    start, end, image, video = range(backend.get_vocab_size(), backend.get_vocab_size() + len(PICTURE_TOKENS))
    backend.add_special_tokens(list(PICTURE_TOKENS))
    tokenizer = chatml_tokenizer(backend)
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": WIDTH,
            "intermediate_size": 3 * WIDTH,
            "num_hidden_layers": DEPTH,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "max_position_embeddings": CONTEXT,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": _sections()},
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "depth": VISION_DEPTH,
            "hidden_size": vision_width,
            "intermediate_size": 3 * vision_width,
            "num_heads": HEADS,
            "patch_size": PATCH,
            "out_hidden_size": WIDTH,
            "fullatt_block_indexes": [VISION_DEPTH - 1],
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(config)
    for module in model.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Conv3d | torch.nn.Embedding):
            width = module.weight.shape[1:].numel()
            torch.nn.init.normal_(module.weight, std=width**-0.5)
    size = {"shortest_edge": LEAST_PIXELS, "longest_edge": MOST_PIXELS}
    return model, ScreenEncoder(tokenizer, Qwen2VLImageProcessorPil(size=size, patch_size=PATCH), config)


def _sections() -> list[int]:
    """Split a head's frequencies between time, height and width: a quarter and twice three eighths."""
    half = WIDTH // HEADS // 2
    return [half - 2 * (3 * half // 8), 3 * half // 8, 3 * half // 8]
