"""Stands where the tests' environment has a package that a base install lacks."""

raise ImportError("the base install has no pandas")
