"""Carry a plan out: find the nodes, start what runs there, hear it, end it."""
