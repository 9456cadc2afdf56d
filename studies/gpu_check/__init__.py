"""What the engine and the trainer do on one GPU, in minutes: `make gpu-check`."""
