"""`llm` backend: chat models analyse failures and write interfaces, and verify both by experiment."""
