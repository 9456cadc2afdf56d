"""The data flywheel over several seeds: steps and episodes under its critics, beside one draw and pass@N."""
