"""A tiny vision critic on MiniWoB click pages: its accuracy on held-out seeds, and best-of-N with it.

    python -m benchmarks.miniwob_critic --out FOLDER [--pages NAMES] [--critics N] [--epochs N] [--explored N]
    python -m benchmarks.miniwob_critic --sample FOLDER

Records steps of the pages with the novice's candidates (seeds 10-109 to learn from, 0-9 to test on), trains one critic
a seed from nothing, and plays the test seeds: the novice alone, best of N by the critic on the screenshot, and by a
critic that never errs. Steps and critics that `--out` holds already are read, not made again. Prints a table, writes
summary.json, and one JSON object as the last line: `value` is the success of best of N by the critic, `baseline` the
novice's, within as many actions as the expert takes. `--sample` only writes a small step dataset, as tests read one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from align_echo.critic.calibration import LabelledVerdict
from align_echo.files import write_atomically
from align_echo.gui.learning import ScreenExample
from align_echo.gui.vision import VisionScorer
from align_echo.wrappers.miniwob.env import MiniWoBEnv
from align_echo.wrappers.miniwob.tasks import SEEDS
from benchmarks.miniwob_critic.learn import evened, examples_of, learn, shares, verdicts
from benchmarks.miniwob_critic.play import Played, critic_of, first, never_wrong, play
from benchmarks.miniwob_critic.record import record
from benchmarks.miniwob_critic.report import ALL, CRITIC, NOVICE, PASS, Seen, at_shares, page_of, seen, table, won

PAGES = ("click-test", "click-test-2", "click-dialog", "focus-text", "click-collapsible")
"""Pages whose instruction is fixed, or nearly."""

RECORDED, RECORDED_TURNS = 16, 3
TRAIN_DRAWS, TEST_DRAWS, PLAY_DRAWS = 10, 50, 100
"""Seeds of the novices: none is both learned from and tested on."""

ALONE, TOLD, EVENED = "as_they_come", "told_shares", "evened"
"""What verdicts are looked at: names of `judged`."""

SETTING = ("pages", "critics", "plays", "epochs", "candidates", "explored", "turns")
SAMPLE_SEEDS, SAMPLE_CANDIDATES = (10, 11), 4


def recorded(out: Path, pages: Sequence[str]) -> tuple[Path, Path]:
    """The folders to learn from and to test on."""
    folders = []
    for name, draws in (("train", TRAIN_DRAWS), ("test", TEST_DRAWS)):
        folder = out / name
        if not folder.exists():
            print(f"recording {folder}", flush=True)
            record(folder, pages, SEEDS[name], seed=draws, candidates=RECORDED, turns=RECORDED_TURNS)
        folders.append(folder)
    return folders[0], folders[1]


def played(scorers: Sequence[VisionScorer], asked: argparse.Namespace) -> list[Played]:
    """Every test task under every arm, so often as asked, the critics in turn; those in the file are not played again.
    """
    file = asked.out / f"episodes-{asked.critics}-{asked.candidates}-{asked.turns}.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    known = {(one.task, one.seed, one.arm): one for one in (Played(**json.loads(line)) for line in lines)}
    env = MiniWoBEnv("expert_test")
    found = []
    try:
        for draws in range(PLAY_DRAWS, PLAY_DRAWS + asked.plays):
            critic = critic_of(scorers[(draws - PLAY_DRAWS) % len(scorers)])
            for task in (f"{page}/{seed}" for page in asked.pages for seed in SEEDS["test"]):
                for arm, choose in ((NOVICE, first), (CRITIC, critic), (PASS, never_wrong)):
                    one = known.get((task, draws, arm)) or play(
                        env, task, arm, choose, seed=draws, candidates=asked.candidates, turns=asked.turns
                    )
                    found.append(one)
    finally:
        env.close()
        if found:
            write_atomically(file, "".join(json.dumps(dataclasses.asdict(one)) + "\n" for one in found))
    return found


def by_page(said: dict[int, list[LabelledVerdict]], pages: Sequence[str]) -> dict[str, Seen]:
    """The critics' figures, of all pages together first."""

    def of(page: str) -> Seen:
        return seen({seed: [row for row in rows if page_of(row.task) == page] for seed, rows in said.items()})

    return {ALL: seen(said)} | {page: of(page) for page in pages}


def main() -> None:
    """Record, learn, test, play, tell."""
    asked = _asked()
    if asked.sample:
        record(asked.sample, asked.pages, SAMPLE_SEEDS, seed=0, candidates=SAMPLE_CANDIDATES, turns=1)
        return
    train, test = recorded(asked.out, asked.pages)
    scorers, how = critics(train, asked)
    tested, share_of = examples_of(test), shares(examples_of(train))
    seen_of = {name: by_page(said, asked.pages) for name, said in judged(scorers, tested, share_of).items()}
    episodes = played(scorers, asked)
    won_of = {ALL: won(episodes)} | {
        page: won([episode for episode in episodes if page_of(episode.task) == page]) for page in asked.pages
    }
    print(table(seen_of[ALONE], seen_of[TOLD], seen_of[EVENED], won_of))
    whole = won_of[ALL]
    base = whole.at_once[NOVICE].value
    last: dict[str, Any] = {
        "name": f"MiniWoB clicks, best of {asked.candidates} by a tiny vision critic: success in the expert's actions",
        "value": whole.at_once[CRITIC].value,
        "unit": "%",
        "baseline": base,
        "ratio": whole.at_once[CRITIC].value / base if base else None,
        "n": whole.episodes,
        "gain": whole.gain_at_once.model_dump(mode="json"),
    }
    summary = last | {
        "setting": {name: getattr(asked, name) for name in SETTING},
        "critics": how,
        "shares": share_of,
        **{name: {page: one.model_dump(mode="json") for page, one in of.items()} for name, of in seen_of.items()},
        "won": {name: one.model_dump(mode="json") for name, one in won_of.items()},
    }
    write_atomically(asked.out / "summary.json", json.dumps(summary, indent=2) + "\n")
    print(json.dumps(last))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/miniwob-critic"))
    parser.add_argument("--sample", type=Path, help="only write a small step dataset to this folder")
    parser.add_argument("--pages", type=lambda text: tuple(text.split(",")), default=PAGES)
    parser.add_argument("--critics", type=int, default=3, help="how many, each of another seed")
    parser.add_argument("--plays", type=int, default=3, help="of each test task, with other draws of the novice")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--explored", type=int, default=12, help="clicks into the box, and anywhere, added to a step")
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--turns", type=int, default=4)
    return parser.parse_args()


def critics(train: Path, asked: argparse.Namespace) -> tuple[list[VisionScorer], list[dict[str, Any]]]:
    """One a seed, and how each came to be."""
    scorers, told = [], []
    for seed in range(asked.critics):
        scorer, how = learn(
            asked.out / f"critic-{seed}", train, seed=seed, epochs=asked.epochs, explore=asked.explored
        )
        print(f"critic {seed}: {how.actions} actions, {how.seconds:.0f} s", flush=True)
        scorers.append(scorer)
        told.append(how.model_dump(mode="json") | {"temperature": scorer.temperature})
    return scorers, told


def judged(
    scorers: Sequence[VisionScorer], tested: Sequence[ScreenExample], share_of: Mapping[str, float]
) -> dict[str, dict[int, list[LabelledVerdict]]]:
    """The verdicts of every critic on the actions as they come, alone and told how often a page's are right, and alone
    on as many right as wrong ones."""
    said = {seed: verdicts(scorer, tested) for seed, scorer in enumerate(scorers)}
    kept = {(example.step.id, example.action) for example in evened(tested, 0)}
    places = [index for index, one in enumerate(tested) if (one.step.id, one.action) in kept]
    return {
        ALONE: said,
        TOLD: {seed: at_shares(rows, scorers[seed].temperature, share_of) for seed, rows in said.items()},
        EVENED: {seed: [rows[place] for place in places] for seed, rows in said.items()},
    }


if __name__ == "__main__":
    main()
