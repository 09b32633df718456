"""Read a job's settings: the table of options, and the layers of files and variables that set them."""
