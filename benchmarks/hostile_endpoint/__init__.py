"""An endpoint on this machine with every fault that was met, and what a command does with each."""
