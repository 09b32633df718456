"""The command line: one file for each verb. Reads words, calls what does the work, prints."""
