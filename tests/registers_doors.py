"""A module that registers an environment with gymnasium, as packages of environments do."""

import gymnasium

gymnasium.register(id="Doors-v7", entry_point="tests.doors:Doors")
