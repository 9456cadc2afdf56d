"""The making of the beginner: an adapter for SmolLM2 that plays ALFWorld, heeds feedback and writes critiques."""
