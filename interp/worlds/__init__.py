"""Worlds, one folder each: what models are trained on, and what is true there (`interp.world`, `interp.registry`)."""
