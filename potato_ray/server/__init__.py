"""The server: web pages, the admin API, the agent routes. Only this package imports FastAPI."""
