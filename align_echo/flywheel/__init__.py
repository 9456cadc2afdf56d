"""The data flywheel (GAIA, paper 3): proposed actions are labelled, critics learn of them and guide the next round."""
