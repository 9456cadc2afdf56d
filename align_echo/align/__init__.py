"""ALIGN: interfaces generated from failures, and the experiments that verify them."""
