"""Readers of what models, files and interface code say, given what nobody should say."""
