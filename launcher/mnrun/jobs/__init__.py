"""Submitted jobs: their records, their state and their output."""
