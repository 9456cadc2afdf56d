"""How the embedded pocket model is made: its data from the environments, its tokenizer, its training."""
