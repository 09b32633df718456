"""Enter running jobs: choose a launch and its node, run a command there, and examine its ranks."""
