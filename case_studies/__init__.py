"""Case studies: one folder each, with a README that sets its numbers beside the paper's."""
