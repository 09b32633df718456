"""The instrument that judges changes of a launch: its cost beside the least there is. `scripts/bench --help`."""
