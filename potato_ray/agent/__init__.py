"""The agent: asks a server for jobs from a machine that the server cannot reach, and runs them there.

Python 3.8 and the standard library alone; of this project it imports job and trainers only.
"""
