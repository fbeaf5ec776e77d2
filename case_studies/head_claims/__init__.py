"""What the literature says of attention heads, audited over populations, copying models and a real encoder."""
