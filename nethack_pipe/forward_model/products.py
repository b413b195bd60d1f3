"""Matrix products by numpy's OpenBLAS inside torch, where portable math asks for the same bytes on every processor.

MKL gives these only on its oldest code path (``MKL_CBWR=COMPATIBLE``, about 10 GFLOP/s a core where this was measured).
OpenBLAS told to take its Haswell kernels (``OPENBLAS_CORETYPE``, set by `nethack_pipe.portable`) is as repeatable and
three to four times as fast.
"""

import os
import warnings

import numpy as np
import torch

from nethack_pipe.portable import PORTABLE_MATH

_library = torch.library.Library("aten", "IMPL")
_replaced = False


def use_portable_products() -> None:
    """From now on multiply CPU matrices by OpenBLAS in this process, if its environment is that of portable math."""
    global _replaced
    if _replaced or any(os.environ.get(name) != value for name, value in PORTABLE_MATH.items()):
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Warning only once for all operators")
        _library.impl("mm", _mm, "CPU", allow_override=True)
    _replaced = True


def _mm(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """(n, k) @ (k, m), below autograd: torch derives the gradients, which are products again."""
    return torch.from_numpy(np.matmul(left.detach().numpy(), right.detach().numpy()))
