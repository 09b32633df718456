"""Many jobs at once, one after the other, and on many nodes: a table of stories, an engine that plays one, a judge."""
