"""Whether this device's GPU, its driver and its libraries are what the bundle was made for: asked before they are used.

The driver is asked itself (libcuda, https://docs.nvidia.com/cuda/cuda-driver-api/): what ONNX Runtime says of a GPU
that it cannot use is a number in a stack of C++ frames.
"""

import ctypes
import os
from collections.abc import Iterable, Iterator, Sequence

from ..base.errors import DeviceError

DRIVER = "libcuda.so.1"
ALLOW_CPU = "--allow-cpu computes on the processor instead"
NO_DEVICE, STUB, NOT_READY, MISMATCH, TOO_NEW_FOR_DEVICE = 100, 34, 802, 803, 804
MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR."""
DRIVERS = {"13": "580", "12": "525", "11": "450"}
"""CUDA's major version → the oldest branch of NVIDIA's Linux driver for it (CUDA's release notes, table 3)."""
OTHER_MAJORS = range(10, 16)


def require_device(*, cuda: str, capabilities: Sequence[str], remedy: str = "", index: int = 0) -> str:
    """Name and compute capability of the GPU that will be used. Raises ``DeviceError`` for one that cannot be.

    ``remedy`` is what to do about a capability that there is no code for.
    """
    driver = open_driver()
    require_version(driver, cuda)
    start_driver(driver, cuda)
    count = number(driver, "cuDeviceGetCount")
    if not index < count:
        raise DeviceError(
            f"there is no GPU number {index} here, but {count}" if count else "there is no NVIDIA GPU here",
            f"CUDA_VISIBLE_DEVICES and the container's settings decide which GPUs are visible; {ALLOW_CPU}",
        )
    device = number(driver, "cuDeviceGet", index)
    major, minor = (attribute(driver, which, device) for which in (MAJOR, MINOR))
    words = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(words, len(words), device)
    name = words.value.decode("utf-8", "replace") or "the GPU"
    if capabilities and not any(runs_on(code, major, minor) for code in capabilities):
        raise DeviceError(
            f"{name} has compute capability {major}.{minor}; the bundle has code for {', '.join(capabilities)} only",
            (remedy or "make the bundle for this GPU") + f"; {ALLOW_CPU}",
        )
    return f"{name}, compute capability {major}.{minor}"


def open_driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(DRIVER)
    except OSError as error:
        raise DeviceError(
            f"there is no NVIDIA driver here ({DRIVER} does not load)",
            f"install NVIDIA's driver, or start the container with its GPUs (--gpus all); {ALLOW_CPU}",
        ) from error


def require_version(driver: ctypes.CDLL, cuda: str) -> None:
    """The driver must know the CUDA version that the libraries are of."""
    if not cuda:
        return
    known = number(driver, "cuDriverGetVersion")
    wanted = [int(part) for part in cuda.split(".")]
    if [known // 1000, known % 1000 // 10] < wanted:
        branch = DRIVERS.get(cuda.split(".")[0])
        raise DeviceError(
            f"the NVIDIA driver here supports CUDA up to {known // 1000}.{known % 1000 // 10}, the bundle requires {cuda}",
            f"install driver {branch or 'of a newer branch'}{' or newer' if branch else ''}; {ALLOW_CPU}",
        )


def start_driver(driver: ctypes.CDLL, cuda: str) -> None:
    code = driver.cuInit(0)
    if code == NO_DEVICE:
        raise DeviceError(
            "there is no NVIDIA GPU here",
            f"CUDA_VISIBLE_DEVICES and the container's settings decide which GPUs are visible; {ALLOW_CPU}",
        )
    if code in (MISMATCH, TOO_NEW_FOR_DEVICE):
        raise DeviceError(
            f"the NVIDIA driver's library and its kernel module do not match (CUDA error {code})",
            f"restart after the driver's update, or mount the host's {DRIVER} into the container; {ALLOW_CPU}",
        )
    if code:
        what = {STUB: ": its library is a stub", NOT_READY: ": it is not ready yet"}.get(code, "")
        raise DeviceError(
            f"the NVIDIA driver failed to start (CUDA error {code}){what}",
            f"nvidia-smi says more about the driver; {ALLOW_CPU}",
        )


def number(driver: ctypes.CDLL, function: str, *arguments: int) -> int:
    """What a function of the driver writes into its first argument; 0 where it fails."""
    value = ctypes.c_int(0)
    getattr(driver, function)(ctypes.byref(value), *arguments)
    return value.value


def attribute(driver: ctypes.CDLL, which: int, device: int) -> int:
    return number(driver, "cuDeviceGetAttribute", which, device)


def runs_on(code: str, major: int, minor: int) -> bool:
    """Whether code for a compute capability runs on a device: ``8.6`` on 8.9 too, ``9.0a`` on 9.0 alone.

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
    """
    wanted = [int(part) for part in code.rstrip("af").split(".")]
    if code.endswith("a"):
        return wanted == [major, minor]
    return wanted[0] == major and wanted[1] <= minor


def load_libraries(names: Iterable[str], directory: str) -> None:
    """Load the libraries that the bundle expects on the device, or beside it in ``directory``.

    What is loaded already is not looked for again when the provider asks for it. Raises ``DeviceError``.
    """
    for name in names:
        if any(loads(place) for place in places(name, directory)):
            continue
        if os.path.exists(os.path.join(directory, name)):
            raise DeviceError(*broken(name, directory))
        raise DeviceError(*missing_library(name))


def places(name: str, directory: str) -> Iterator[str]:
    """Where CUDA's installers put a library, the bundle's own folder and the loader's choice first."""
    yield os.path.join(directory, name)
    yield name
    for root in (os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), *toolkits()):
        if root:
            yield os.path.join(root, "lib64", name)
            yield os.path.join(root, "targets", "x86_64-linux", "lib", name)


def toolkits() -> list[str]:
    """Folders of CUDA toolkits as NVIDIA's installers name them, the newest first."""
    try:
        found = [name for name in os.listdir("/usr/local") if name.startswith("cuda")]
    except OSError:
        return []
    return [os.path.join("/usr/local", name) for name in sorted(found, reverse=True)]


def loads(path: str) -> bool:
    return not complaint(path)


def complaint(path: str) -> str:
    """What the loader says against a library; nothing when it is loaded."""
    try:
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    return ""


def broken(name: str, directory: str) -> tuple[str, str]:
    """Message and hint for a library that the bundle has and that does not load."""
    return (
        f"{name} of this bundle does not load: {complaint(os.path.join(directory, name))}",
        f"embed --self-test says whether a file is damaged; {ALLOW_CPU}",
    )


def missing_library(name: str) -> tuple[str, str]:
    """Message and hint for a library that is not on the device: which version is wanted, and which is there."""
    base, _, wanted = name.partition(".so.")
    others = [str(major) for major in OTHER_MAJORS if str(major) != wanted and loads(f"{base}.so.{major}")]
    beside = f" (there is {base}.so.{others[-1]})" if others else ""
    what = f"cuDNN {wanted}" if base == "libcudnn" else f"CUDA {wanted} (its cuBLAS and cudart)"
    hint = f"install {what}, or name its folder in LD_LIBRARY_PATH or CUDA_HOME, "
    return (
        f"{name} is not on this device{beside}",
        f"{hint}or use a bundle made with --set layout=full; {ALLOW_CPU}",
    )
