"""How a critic is trained on what was collected: of one word (`intuitive.py`), or one that reasons (`reasoning.py`)."""
