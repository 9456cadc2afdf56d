"""Backend protocol for Algorithm 1: find misalignments in failed episodes and write an interface for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from align_echo.interface.contract import Interface
from align_echo.types import Described, Misalignment, Trajectory


class Backend(Described, Protocol):
    """What a run needs of its backend: find misalignments, and write the next interface.

    A backend keeps no state between calls except in the arguments (a misalignment's `detail`, the interface's source),
    because a resumed run may call `optimize` without `analyze`. Without a result, calls return an empty list or the
    interface unchanged. Failures raise `ModelError` or `EngineError`; the run ends and can be resumed.
    """

    @property
    def name(self) -> str: ...

    def analyze(
        self, played: Sequence[Trajectory], known: Sequence[Misalignment], interface: Interface
    ) -> list[Misalignment]:
        """Find and verify new misalignments in lost episodes (`rollout.batches.failed`), excluding `known`.

        `played` holds all episodes of the iteration, at least one of them lost; the won ones show working actions.
        """
        ...

    def optimize(self, new: Sequence[Misalignment], interface: Interface) -> Interface:
        """Write an interface for `new`; return `interface` itself if impossible.

        Texts of unresolved misalignments go into `unresolved` of its provenance.
        """
        ...
