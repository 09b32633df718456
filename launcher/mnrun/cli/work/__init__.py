"""Do the work of verbs. A module is imported only when one of its verbs runs: a completion must be instant."""
