"""Held-out scores by kind of answer, and what they are compared with."""
