"""Topics in a pretrained encoder's attention and embeddings, on Wikipedia."""
