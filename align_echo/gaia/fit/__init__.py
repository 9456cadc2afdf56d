"""Training of critics on collections: intuitive ones (`intuitive.py`), and reasoning ones (`reasoning.py`)."""
