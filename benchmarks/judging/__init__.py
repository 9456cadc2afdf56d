"""What a critic is worth to who follows docs/critic.md: `python -m benchmarks.judging ENV`."""
