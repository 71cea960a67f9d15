"""What goes to other machines, packed: a run's bundle, the trainers' code, the agent as one file.

The same files make the same bytes wherever and whenever they are packed, so a digest names a content.
"""
