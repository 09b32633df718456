"""Serve the launcher on this machine: processes, the terminal, the screen, keys and modules."""
