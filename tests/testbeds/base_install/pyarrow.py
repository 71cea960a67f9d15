"""Stands where the tests' environment has a package that a base install lacks."""

raise ModuleNotFoundError("the base install has no pyarrow", name="pyarrow")
