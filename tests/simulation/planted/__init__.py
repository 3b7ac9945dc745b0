"""Ways to get it wrong on purpose, which the checks of the simulation must find."""
