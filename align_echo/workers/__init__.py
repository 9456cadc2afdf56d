"""Workers that play a batch of episodes: threads of this process, or Ray actors on one or many machines."""
