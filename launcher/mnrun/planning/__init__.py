"""Decide the course of a job before anything is done: from settings to a plan, from a plan to commands or text."""
