"""Decide what a job will do, before anything is done: from settings to a plan, from a plan to commands or text."""
