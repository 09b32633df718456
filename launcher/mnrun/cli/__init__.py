"""The command line: one file for each verb. A verb reads words, calls the package that does the work, and prints."""
