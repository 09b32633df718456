"""Write the kit that nodes get at the start of a job, and read the lines that they send."""
