"""Generated interfaces that come with the package: `<environment>/<name>.py` with its record `<name>.json` beside it.

They are data, not modules: `align_echo.load_interface("<environment>/<name>")` reads them, the sandbox runs them.
"""
