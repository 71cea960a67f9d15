"""What runs on a host that we reach over ssh: it says what the host has, and becomes the agent of one run.

Python 3.8 and the standard library alone; of this project it imports agent and job only. `entry` comes
inside the command that ssh starts, and brings the rest. All that is said goes to stdout, a JSON object a
line with one key each; all that is asked for comes from stdin.
"""
