"""The request for a job: the table of options, and the layers of files and variables that set them."""
