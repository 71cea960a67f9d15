"""The bundle: one frozen, self-contained copy of the data that a run trains on."""
