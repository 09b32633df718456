"""Faults on purpose: a table of cells, an engine that plays one, and a checker that knows nothing of mnrun."""
