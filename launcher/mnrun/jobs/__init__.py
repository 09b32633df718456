"""Submitted jobs, as people follow them."""
