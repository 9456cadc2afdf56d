"""Colours of pictures, for a light and a dark system. Not here: the page's own colours (its style sheet)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ColourPalette:
    """Colours of one theme. `series` distinguish methods and rules; `faint` is a light shade of the first. The others
    have fixed meanings.
    """

    back: str
    ink: str
    quiet: str
    line: str
    faint: str
    good: str
    bad: str
    series: tuple[str, ...]

    def colour(self, number: int) -> str:
        """Return the colour of a series by its number."""
        return self.series[number % len(self.series)]


LIGHT = ColourPalette(
    back="#ffffff",
    ink="#1c2128",
    quiet="#6b7480",
    line="#d9dde3",
    faint="#b9cdf3",
    good="#1a7f4b",
    bad="#b3261e",
    series=("#1556c0", "#c25700", "#1a7f4b", "#8a3ffc", "#b3261e", "#00727a", "#7a5200", "#5f6875"),
)
DARK = ColourPalette(
    back="#15181d",
    ink="#dfe3e9",
    quiet="#98a2b0",
    line="#323842",
    faint="#34538a",
    good="#74d79b",
    bad="#ff9b92",
    series=("#86b3ff", "#ffb27a", "#74d79b", "#c9a6ff", "#ff9b92", "#5fd3dc", "#e6c27a", "#98a2b0"),
)
