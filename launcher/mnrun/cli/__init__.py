"""Read the command line, with one file for each verb. A verb calls the package that does the work, and prints."""
