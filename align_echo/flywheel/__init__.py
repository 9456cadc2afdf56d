"""The data flywheel (GAIA, paper 3): what agents propose is labelled, critics learn of it, and guide what is collected next."""
