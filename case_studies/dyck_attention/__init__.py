"""Attention patterns of Transformers that solve Dyck equally well."""
