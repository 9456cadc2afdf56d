"""What Algorithm 1 asks of a backend: find misalignments in failures, and write the interface that resolves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from align_echo.interface import Interface
from align_echo.types import Described, Misalignment, Trajectory


class Backend(Described, Protocol):
    """The Analyzer and the Optimizer.

    A backend carries nothing from one call to the next but what is in the arguments (a misalignment's `detail`, the
    interface's source): a resumed run calls `optimize` without the `analyze` before it. A call that finds nothing
    returns an empty list or the interface it was given. One that breaks, so that it cannot know, raises: `ModelError`
    and `EngineError` end the run, to be resumed there.
    """

    @property
    def name(self) -> str: ...

    def analyze(
        self, played: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Misalignments of the episodes that were lost (`rollout.failed`) that are not among `known` and stood the
        experiments. `played` are all episodes of an iteration, one of them lost at least: those that were won show
        what works."""
        ...

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """An interface that resolves `new`; `interface` itself if none could be written.

        Its provenance names in `unresolved` the texts of those that it does not resolve.
        """
        ...
