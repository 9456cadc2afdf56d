"""The Analyzer: from failed episodes to misalignments that stood its own experiments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from align_echo.align.experiments import Outcome, Simulator, trajectory_text
from align_echo.align.llm.dialogue import Dialogue
from align_echo.align.llm.replies import (
    ExperimentRequest,
    Findings,
    parse_analyzer_move,
    parse_choice,
    parse_findings,
)
from align_echo.align.llm.settings import LlmSettings
from align_echo.align.llm.tags import KINDS
from align_echo.align.llm.text import gold_text, interface_values, misalignments_text
from align_echo.align.llm.verification import verify
from align_echo.errors import EngineError, MissingExtraError, ModelError, NoAnswerError
from align_echo.interface import Interface
from align_echo.prompts import render
from align_echo.types import ChatModel, Misalignment, Trajectory

PROMPTS = ("analyzer/system", "analyzer/propose", "analyzer/verify", "analyzer/rerank")


class Analyzer:
    """`new_simulator` gives a simulator under an interface; `gold` plays a task as an expert; `note` tells the run."""

    def __init__(
        self,
        model: ChatModel,
        settings: LlmSettings,
        *,
        action_format: str,
        new_simulator: Callable[[Interface], Simulator],
        gold: Callable[[str], Sequence[tuple[str, str]]],
        note: Callable[[str], None],
    ) -> None:
        self._model = model
        self._settings = settings
        self._action_format = action_format
        self._new_simulator = new_simulator
        self._gold = gold
        self._note = note

    def analyze(
        self, failed: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """New misalignments, a few episodes at a time.

        Raises `ModelError` at the first analysis that breaks: what it would have found is not known.
        """
        misalignments: list[Misalignment] = []
        size = self._settings.episodes_per_analysis
        for start in range(0, len(failed), size):
            episodes = failed[start : start + size]
            last = f" to {start + len(episodes)}" if len(episodes) > 1 else ""
            self._note(
                f"analysing failed episodes {start + 1}{last} of {len(failed)}; {len(misalignments)} found so far"
            )
            try:
                fresh = self._analyze(episodes, [*known, *misalignments], interface)
            except ModelError as error:
                names = ", ".join(episode.task_id for episode in episodes)
                raise type(error)(f"the analysis of {names} broke: {error}") from error
            claims = {misalignment.claim for misalignment in (*known, *misalignments)}
            misalignments += [misalignment for misalignment in fresh if misalignment.claim not in claims]
        return misalignments

    def _analyze(
        self, episodes: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> Sequence[Misalignment]:
        system = render("analyzer/system", interface_values(interface, self._action_format))
        prompt = self._proposal_prompt(episodes, known, interface.provenance.unresolved)
        tasks = {episode.task_id for episode in episodes}
        if self._settings.verify:
            return self._verified(system, prompt, tasks, interface)
        return self._chosen(system, prompt, tasks)

    def _proposal_prompt(
        self, episodes: Sequence[Trajectory], known: Sequence[Misalignment], unresolved: Sequence[str]
    ) -> str:
        limit = self._settings.episode_characters
        shown = [
            {
                "task_id": episode.task_id,
                "goal": episode.goal,
                "log": trajectory_text(episode, limit),
                "gold": gold_text(self._expert(episode.task_id), limit // 2),
            }
            for episode in episodes
        ]
        values = {
            "episodes": shown,
            "known": misalignments_text(known),
            "unresolved": "\n".join(f"- {rule}" for rule in unresolved),
            "kinds": KINDS,
        }
        return render("analyzer/propose", values)

    def _expert(self, task_id: str) -> Sequence[tuple[str, str]]:
        try:
            return self._gold(task_id)
        except (EngineError, MissingExtraError) as error:
            self._note(f"no expert play of {task_id}: {error}")
            return ()

    # ------------------------------------------------------------ with experiments

    def _verified(
        self, system: str, prompt: str, tasks: Collection[str], interface: Interface
    ) -> Sequence[Misalignment]:
        settings = self._settings
        dialogue = Dialogue(
            self._model, system, temperature=settings.analyzer_temperature, max_tokens=settings.max_tokens
        )
        proposed = dialogue.ask(prompt, lambda reply: parse_findings(reply, tasks), tries=settings.format_tries)
        self._tell_dropped(proposed)
        if not proposed.misalignments:
            return ()
        opening = render("analyzer/verify", {"turns": settings.operations, "kinds": KINDS})
        simulator = self._new_simulator(interface)
        try:
            verified = verify(dialogue, simulator, opening, partial(_move, tasks), settings)
        finally:
            simulator.close()
        self._tell_dropped(verified)
        misalignments = verified.misalignments
        self._note(
            f"{len(proposed.misalignments)} misalignments proposed, {len(misalignments)} kept "
            f"after {len(simulator.outcomes)} experiments of its own"
        )
        return misalignments

    def _tell_dropped(self, findings: Findings) -> None:
        for reason in findings.dropped:
            self._note(f"a finding was left out, since it could not be read in any try: {reason}")

    # ------------------------------------------------------------ without experiments

    def _chosen(self, system: str, prompt: str, tasks: Collection[str]) -> Sequence[Misalignment]:
        settings = self._settings
        candidates = []
        for sample in range(settings.samples):
            dialogue = Dialogue(
                self._model,
                system,
                temperature=settings.sample_temperature,
                max_tokens=settings.max_tokens,
                sample=sample,
            )
            try:
                candidates.append(
                    dialogue.ask(prompt, lambda reply: parse_findings(reply, tasks), tries=settings.format_tries)
                )
            except NoAnswerError as error:
                self._note(f"analysis {sample + 1} of {settings.samples} gave nothing: {error}")
        if not candidates:
            raise NoAnswerError(f"none of {settings.samples} sampled analyses could be used")
        if not any(candidate.misalignments for candidate in candidates):
            return ()
        judge = Dialogue(self._model, system, temperature=settings.sample_temperature, max_tokens=settings.max_tokens)
        texts = [misalignments_text(candidate.misalignments) for candidate in candidates]
        question = f"{prompt}\n\n{render('analyzer/rerank', {'candidates': texts})}"
        choice = judge.ask(question, lambda reply: parse_choice(reply, len(candidates)), tries=settings.format_tries)
        return candidates[choice].misalignments


def _move(
    tasks: Collection[str], reply: str, outcomes: Sequence[Outcome], may_request: bool
) -> ExperimentRequest | Findings:
    return parse_analyzer_move(reply, tasks, outcomes, may_request)
