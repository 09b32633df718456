"""What a job is asked to be: the table of options, and the layers of files and variables that set them."""
