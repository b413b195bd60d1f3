"""The environment variables under which training gives the same bytes on every x86-64 processor with AVX2.

They must be set before numpy and torch are first imported: `nethack_pipe.stage` starts a stage again under them, and
tests start their subprocesses with them.
"""

import os
import platform
import sys

# One thread, since a sum over several threads depends on their number; the rest keeps hashing and forks repeatable.
ALWAYS = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

# Without them MKL, torch's own kernels, numpy and OpenBLAS each choose another order of summation by processor.
# (MKL_CBWR=AVX2 is honoured differently on AMD and on Intel.) Adam must be fused and torch.sqrt avoided besides.
PORTABLE_MATH = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
}


def environment(portable_math: bool) -> dict[str, str]:
    """The variables to set for ``base.portable_math``; PORTABLE_MATH only where the machine is an x86-64."""
    return ALWAYS | (PORTABLE_MATH if portable_math and platform.machine() == "x86_64" else {})


def restart_in(variables: dict[str, str]) -> None:
    """Start this very command again (same process id) if the environment differs from `variables`; else return."""
    if any(os.environ.get(name) != value for name, value in variables.items()):
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | variables)
