"""See a job run: what its nodes report at intervals."""
