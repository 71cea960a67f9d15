"""A Potato project on disk: items, schemes, annotations and their consensus. Read-only."""
