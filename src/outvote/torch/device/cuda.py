"""Compile CUDA C when it is first needed, and launch it, through NVRTC and the driver, which come with torch."""

# Nothing here runs without a CUDA device; tests/torch/test_gpu.py runs it on one.

from __future__ import annotations

import ctypes
import functools
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

#: The driver's name for the attribute of a function that allows it more than 48 KB of shared memory.
_SHARED_MEMORY = 8


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:  # pragma: no cover
    """Return NVRTC and the driver."""
    major = str(torch.version.cuda).partition(".")[0]
    if sys.platform == "win32":
        return ctypes.CDLL(f"nvrtc64_{major}0_0.dll"), ctypes.CDLL("nvcuda.dll")
    return ctypes.CDLL(f"libnvrtc.so.{major}"), ctypes.CDLL("libcuda.so.1")


def _check(code: int, what: str) -> None:  # pragma: no cover
    if code:
        raise RuntimeError(f"{what} failed with code {code}")


def _compiled(source: str, options: Sequence[str]) -> bytes:  # pragma: no cover
    """Return the machine code of a source."""
    nvrtc, _ = _libraries()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    _check(
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"outvote.cu", 0, None, None),
        "nvrtcCreateProgram",
    )
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), given):
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(log.value.decode(errors="replace"))
        _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)), "nvrtcGetCUBINSize")
        code = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetCUBIN(program, code), "nvrtcGetCUBIN")
        return code.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


class CudaFunction:  # pragma: no cover
    """A function in CUDA C, compiled for the current device.

    Parameters
    ----------
    source : str
        What is compiled; it includes nothing.
    name : str
        The function, which is `extern "C"`.
    constants : mapping
        Names in the source, and the values that they stand for.
    shared : int
        Bytes of shared memory that each block of threads has.
    """

    def __init__(self, source: str, name: str, constants: Mapping[str, object], shared: int):
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        options = [f"--gpu-architecture=sm_{properties.major}{properties.minor}", "--std=c++17"]
        code = _compiled(source, [*options, *(f"-D{key}={value}" for key, value in constants.items())])
        _, driver = _libraries()
        self._module, self._function, self._shared = ctypes.c_void_p(), ctypes.c_void_p(), shared
        _check(driver.cuModuleLoadData(ctypes.byref(self._module), code), "cuModuleLoadData")
        _check(
            driver.cuModuleGetFunction(ctypes.byref(self._function), self._module, name.encode()),
            "cuModuleGetFunction",
        )
        _check(driver.cuFuncSetAttribute(self._function, _SHARED_MEMORY, shared), "cuFuncSetAttribute")

    def __call__(self, blocks: tuple[int, int], threads: int, *arguments: torch.Tensor | int) -> None:
        """Launch it on the current stream; tensors become pointers, and whole numbers 64-bit ones."""
        values: list[Any] = [
            ctypes.c_longlong(one) if isinstance(one, int) else ctypes.c_void_p(one.data_ptr()) for one in arguments
        ]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(one) for one in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _, driver = _libraries()
        _check(
            driver.cuLaunchKernel(
                self._function, *blocks, 1, threads, 1, 1, self._shared, stream, pointers, None
            ),
            "cuLaunchKernel",
        )  # fmt: skip


def function_or_none(
    source: str, name: str, constants: Mapping[str, object], shared: int
) -> CudaFunction | None:  # pragma: no cover
    """Compile a function; where that fails, say so once and return None."""
    try:
        return CudaFunction(source, name, constants, shared)
    except (OSError, RuntimeError) as error:
        warnings.warn(f"torch does what could not be compiled, and takes longer: {error}", stacklevel=2)
        return None
