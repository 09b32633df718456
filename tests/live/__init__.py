"""The live tests: mnrun as alice runs it, on the rehearsal cluster. `pytest tests/live`, as root."""
