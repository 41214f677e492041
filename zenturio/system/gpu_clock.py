"""
The clock of this machine's GPUs, read in some microseconds: from sysfs, or by NVIDIA's library.

Hosts get this file, too: only the standard library of Python 3.9 is used here.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable
from contextlib import suppress

from zenturio.system.capabilities import PROC, SYS

NVML = "libnvidia-ml.so.1"
_DRIVER = "driver/nvidia"
"""The folder below /proc that NVIDIA's driver makes."""
_SM_CLOCK = 1
_HERTZ = ("drm/card[0-9]*/device/hwmon/hwmon*/freq1_input",)
"""Of amdgpu."""
_MEGAHERTZ = (
    "drm/card[0-9]*/gt/gt0/rps_act_freq_mhz",  # i915
    "drm/card[0-9]*/device/tile0/gt0/freq0/act_freq",  # xe
)
SHARE = 0.01
"""The share of the time that readings may take."""


class GpuClock:
    """Reads the frequency of the fastest GPU, where one tells it."""

    def __init__(self, proc: str = PROC, sys: str = SYS, library: str = NVML) -> None:
        """*library*: what asks NVIDIA's driver; it takes a while to load. None if it is empty."""
        folder = f"{sys}/class"
        self._files = [
            (path, scale)
            for patterns, scale in ((_HERTZ, 1e-6), (_MEGAHERTZ, 1.0))
            for pattern in patterns
            for path in glob.glob(f"{folder}/{pattern}")  # noqa: PTH207 - pathlib is slower to load
        ]
        self.missing = "" if self._files else f"no GPU in {folder}/drm tells it"
        self._next = 0.0
        self._nvml: Callable[[], list[float]] | None = None
        if os.path.isdir(f"{proc}/{_DRIVER}"):  # noqa: PTH112 - as above
            self.missing = f"{NVML} takes too long to load for each run"
            if library:
                self._ask_nvidia(library)

    def _ask_nvidia(self, library: str) -> None:
        try:
            self._nvml = _nvml_reader(library)
            self.missing = ""
        except (OSError, AttributeError) as error:
            self.missing = f"{NVML}: {error}"

    def read(self) -> float | None:
        """Return MHz; None where no GPU tells it, or where asking would take too long now."""
        if self.missing:
            return None
        begun = time.monotonic()
        if begun < self._next:
            return None
        clocks = self._nvml() if self._nvml is not None else []
        for path, scale in self._files:
            with suppress(OSError, ValueError), open(path, "rb") as file:  # noqa: PTH123
                clocks.append(int(file.read(64)) * scale)
        ended = time.monotonic()
        self._next = ended + (ended - begun) / SHARE
        return max(clocks, default=None)


def _nvml_reader(library: str) -> Callable[[], list[float]]:
    """Return what reads the clocks of all GPUs; OSError where the library cannot."""
    import ctypes  # noqa: PLC0415 - few machines have such a GPU

    nvml = ctypes.CDLL(library)
    status = nvml.nvmlInit_v2()
    if status:
        raise OSError(f"nvmlInit_v2 answers {status}")
    count = ctypes.c_uint()
    status = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    if status or not count.value:
        raise OSError(f"nvmlDeviceGetCount_v2 answers {status}, and {count.value} GPUs")
    devices = []
    for number in range(count.value):
        device = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device)) == 0:
            devices.append(device)

    def read() -> list[float]:
        clock = ctypes.c_uint()
        return [
            float(clock.value)
            for device in devices
            if nvml.nvmlDeviceGetClockInfo(device, _SM_CLOCK, ctypes.byref(clock)) == 0
        ]

    return read
