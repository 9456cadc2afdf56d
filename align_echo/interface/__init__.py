"""Interfaces: what they are, and the sandbox that runs their code."""

from align_echo.interface.contract import Interface, load_interface

__all__ = ["Interface", "load_interface"]
