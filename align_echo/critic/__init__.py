"""Critics: what they are asked, how their answers are read, and choosing actions by them. Left out: training them."""
