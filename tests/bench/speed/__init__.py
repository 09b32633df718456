"""How fast a program runs, beside the same one without a container. `scripts/bench --speed --help`."""
