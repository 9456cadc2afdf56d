"""Rules of an interface as data, and their runtime: actions as trees, canonical answers, rules, advice."""
