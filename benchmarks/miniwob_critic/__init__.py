"""A tiny critic that learns to look at MiniWoB pages, and best-of-N with it beside the novice alone."""
