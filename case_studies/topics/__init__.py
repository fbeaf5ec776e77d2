"""`topics`: how one attention layer learns topics, on synthetic documents."""
