"""What every room uses: files, locks, JSON lines, YAML, dice, the network, progress, and stopping."""
