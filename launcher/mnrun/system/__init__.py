"""This machine: processes, the terminal, the screen, keys and modules."""
