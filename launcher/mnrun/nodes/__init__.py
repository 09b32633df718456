"""What nodes are sent at the start of a job, and what they say."""
