"""Recipes: from queries to rows, a file each. None knows a trainer; a new method is one more file."""
