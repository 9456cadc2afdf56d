"""The `llm` backend: chat models analyse failures and write interfaces, and must prove both by experiment."""
