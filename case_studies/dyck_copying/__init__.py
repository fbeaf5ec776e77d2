"""Attention patterns of Transformers that copy: what they look like, and whether they are used."""
