"""The fast engine: a game compiled once from its PDDL and its grammar, then played with integers."""
