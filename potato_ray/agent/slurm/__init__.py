"""Jobs that an agent on a login node gives to SLURM, and how it follows them."""
