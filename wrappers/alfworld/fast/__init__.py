"""Fast engine: a game is compiled once from its PDDL and grammar, then played with integers."""
