"""Backends: the places where a run can execute. They know neither Ray nor FastAPI."""
