"""Formats that are not yet on the engine: how their changes are assembled in spite of cuts anywhere."""
