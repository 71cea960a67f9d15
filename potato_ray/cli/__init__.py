"""The command line, `potato-ray`."""
