"""The Python client: start runs on a server and read what became of them."""
