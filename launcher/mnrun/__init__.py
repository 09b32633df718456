"""mnrun: one command that runs a multi-node job in containers."""

__version__ = "0.1.0"
