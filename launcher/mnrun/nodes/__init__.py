"""The kit that nodes get at the start of a job, and the lines that they send."""
