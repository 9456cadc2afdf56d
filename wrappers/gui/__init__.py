"""What every graphical environment and dataset shares: actions, recorded steps, and when an action is right."""
