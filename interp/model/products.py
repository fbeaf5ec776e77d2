"""Matrix products whose bits do not depend on where in a stack of seeds a model lies."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

NARROW = 16


def times(x: Float[Tensor, "*batch pos d_in"], w: Float[Tensor, "*batch d_in d_out"]) -> Tensor:
    """x @ w, with fewer than `NARROW` columns (or 4 rows) padded with zeros during the product.

    MKL rounds narrow products differently as their memory happens to be aligned, so a model's bits
    would depend on where in a stack of seeds it lies.
    """
    rows, width = w.shape[-2:]
    if rows < 4:
        x, w = F.pad(x, (0, 4 - rows)), F.pad(w, (0, 0, 0, 4 - rows))
    if width >= NARROW:
        return x @ w
    return (x @ F.pad(w, (0, NARROW - width)))[..., :width]
