"""Episodes of any registered environment inside other people's loops, one file each; none of them is imported unless it
is asked for."""
