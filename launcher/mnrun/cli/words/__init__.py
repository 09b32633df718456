"""Read the words of a command line, and answer the words of other tools."""
