"""Balance violation and length generalisation, standard against contrastive training."""
