"""The time of a launch on more nodes than there are: guards that are only played, and a model of measured parts."""
