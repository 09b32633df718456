"""How a command gets to the nodes of a job, and its streams come back. Knows no scheduler."""
