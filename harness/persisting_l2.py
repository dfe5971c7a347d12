"""The part of the L2 cache in which kernels can make lines stay, given back after every case.

A variant may set such a part aside and mark its lines as persisting. No flush by reading evicts them, and a part
that stays set aside is cache which the next variant lacks. PyTorch has no call for either, so this is the driver's
own library; where it or a function of it is missing, there is nothing to give back.
"""

from __future__ import annotations

import ctypes
import functools

CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6
SUCCESS = 0


def set_aside_bytes() -> int | None:
    """How much L2 the current CUDA context sets aside; None where the driver does not say."""
    found = ctypes.c_size_t()
    limit = ctypes.c_int(CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    return found.value if _call("cuCtxGetLimit", ctypes.byref(found), limit) else None


def set_aside(size: int) -> bool:
    """Set so many bytes aside; whether the driver did."""
    return _call("cuCtxSetLimit", ctypes.c_int(CU_LIMIT_PERSISTING_L2_CACHE_SIZE), ctypes.c_size_t(size))


def give_back(size: int | None) -> bool:
    """Make every persisting line normal again, and set aside what was; whether the driver did. Some 5 µs."""
    done = _call("cuCtxResetPersistingL2Cache")
    if size is not None and set_aside_bytes() != size:
        done = set_aside(size) and done
    return done


@functools.cache
def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _call(name: str, *arguments: object) -> bool:
    function = getattr(_driver(), name, None)
    return function is not None and function(*arguments) == SUCCESS
