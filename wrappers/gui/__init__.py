"""What every graphical environment and dataset shares: the actions."""
