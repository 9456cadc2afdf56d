"""Where interface code runs: the interpreter's sessions, their worker processes, and the source made ready for them."""
