"""The configuration: models, loading with line numbers, checks."""
