"""The execution provider that a bundle was made for: appended to a session, and asked whether it really runs."""

from __future__ import annotations

import ctypes
import os
import re
from ctypes import byref, c_char_p, c_size_t, c_void_p

from ..base.errors import BundleError, DeviceError
from ..base.streams import say
from .device import ALLOW_CPU, load_libraries, require_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..base.bundle import Bundle
    from ..model.ort import Api

API_VERSION = 24
"""Of ONNX Runtime's C API: the first that tells which provider got which node."""

SLOTS: dict[str, tuple[int, str]] = {
    "SetSessionGraphOptimizationLevel": (23, "pi"),
    "SessionOptionsAppendExecutionProvider_TensorRT_V2": (170, "pp"),
    "CreateTensorRTProviderOptions": (171, "p"),
    "UpdateTensorRTProviderOptions": (172, "pppz"),
    "SessionOptionsAppendExecutionProvider_CUDA_V2": (204, "pp"),
    "CreateCUDAProviderOptions": (205, "p"),
    "UpdateCUDAProviderOptions": (206, "pppz"),
    "RegisterExecutionProviderLibrary": (301, "pss"),
    "GetEpDevices": (303, "ppp"),
    "SessionOptionsAppendExecutionProvider_V2": (304, "pppzppz"),
    "Session_GetEpGraphAssignmentInfo": (407, "ppp"),
    "EpAssignedSubgraph_GetEpName": (408, "pp"),
    "EpAssignedSubgraph_GetNodes": (409, "ppp"),
}
RELEASE = {"TensorRTProviderOptions": 174, "CUDAProviderOptions": 208}
EP_DEVICE_NAME = 312
"""``EpDevice_EpName``, which answers with the name itself."""
LEVELS = {"none": 0, "basic": 1, "extended": 2, "all": 99}
"""https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html"""
CACHE = "{cache}"
CACHE_VARIABLE = "EMBED_CACHE"
CACHE_HINT = f"name a folder that can be written in {CACHE_VARIABLE}"
NO_DEVICE_HINT = (
    "ONNX Runtime looks for GPUs in /sys/class/drm and /sys/bus/pci/devices, which a container must see; "
    f"{ALLOW_CPU}"
)
BUILT_IN = {"cuda": "CUDA", "tensorrt": "TensorRT"}

SAID: tuple[tuple[str, str, str], ...] = (
    (
        r"could not deserialize engine|failed to deserialize engine",
        "TensorRT does not take the engine of this bundle: it is damaged, or of another version of TensorRT",
        f"embed --self-test says whether a file is damaged; if none is, make the bundle again; {ALLOW_CPU}",
    ),
    (
        r"can't find engine cache: (?:\S*/)?(?P<name>[^/\s]+?)\. ",
        "the engine {name} is missing from the bundle",
        f"copy the whole bundle folder again, or unpack its archive again; {ALLOW_CPU}",
    ),
    (
        r"out of memory|OutOfMemory|failure 2\b|Failed to allocate (device )?memory|ALLOC_FAILED",
        "the GPU is out of memory",
        "a smaller --batch-size or --max-length needs less; nvidia-smi says who else uses the GPU",
    ),
    (
        r"could not build execution context|createRuntimeConfig returned null",
        "TensorRT cannot set up the engine on this GPU, most often for want of GPU memory",
        f"nvidia-smi says who else uses the GPU; {ALLOW_CPU}",
    ),
    (
        r"no kernel image is available|invalid device function|named symbol not found|failure (209|98|500)\b",
        "the model asks for a kernel that was pruned from this bundle's provider",
        "make the bundle with --set units=all, and please report which model it was",
    ),
    (
        r"driver version is insufficient|not supported in the installed CUDA driver|failure 3[56]\b",
        "the NVIDIA driver here is too old for the CUDA version of the bundle",
        f"install a newer driver; {ALLOW_CPU}",
    ),
    (
        r"no CUDA-capable device|failure 100\b",
        "there is no NVIDIA GPU here",
        f"CUDA_VISIBLE_DEVICES and the container's settings decide which GPUs are visible; {ALLOW_CPU}",
    ),
    (
        r"(?P<name>lib[\w.+-]+\.so[\w.]*): cannot open shared object file",
        "the provider needs {name}, which is not on this device",
        f"install what brings it, or use a bundle made with --set layout=full; {ALLOW_CPU}",
    ),
)
"""What ONNX Runtime says when a GPU fails (a regular expression), the sentence for it, and what to do."""


class Provider:
    """``runtime.provider`` of the manifest. ``device`` says, once the provider was appended, which GPU it is.

    Raises ``BundleError`` for a manifest that names one wrongly.
    """

    api_version = API_VERSION
    slots = SLOTS
    releases = RELEASE

    def __init__(self, bundle: Bundle, said: Mapping[str, Any]) -> None:
        try:
            self.name = str(said["name"])
            self.append_as = str(said["append"])
            self.options = {str(key): str(value) for key, value in dict(said["options"]).items()}
            self.session = {str(key): str(value) for key, value in dict(said["session"]).items()}
            self.level = LEVELS[said["optimization"]]
            self.capabilities = [str(each) for each in said["capabilities"]]
            self.libraries = [str(each) for each in said["libraries"]]
            self.cuda = str(said["cuda"])
            self.remedy = str(said.get("remedy", ""))
            self.batch_size = int(said["batch_size"])
            self.largest_batch = int(said.get("largest_batch", 0))
            self.library = os.path.join(bundle.directory, said["library"]) if said["library"] else ""
            if self.append_as != "plugin" and self.append_as not in BUILT_IN:
                raise ValueError(f"no provider is appended as {self.append_as!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(f"manifest.json is damaged: runtime.provider: {error}") from error
        self.directory = os.path.dirname(bundle.library)
        self.device = ""
        self.cache: list[str] = []

    def require(self) -> None:
        """Raises ``DeviceError`` when this device's GPU, driver or libraries will not do."""
        index = int(self.options.get("device_id", "0"))
        self.device = require_device(
            cuda=self.cuda, capabilities=self.capabilities, remedy=self.remedy, index=index
        )
        load_libraries(self.libraries, self.directory)

    def append(self, api: Api, env: c_void_p, options: c_void_p) -> None:
        """Put the provider first in a session's options. Raises ``OrtError``."""
        api.call("SetSessionGraphOptimizationLevel", options, self.level)
        entries = {"session.record_ep_graph_assignment_info": "1", **self.session}
        for key, value in entries.items():
            api.call("AddSessionConfigEntry", options, key.encode(), value.encode())
        if self.append_as == "plugin":
            append_plugin(api, env, options, self.name, self.library, self._settled())
        else:
            append_built_in(api, options, BUILT_IN[self.append_as], self._settled())

    def _settled(self) -> dict[str, str]:
        """The options with a real folder for ``{cache}``; where none can be made, without what is kept there."""
        if not any(CACHE in value for value in self.options.values()):
            return self.options
        try:
            return self._with_cache(cache_folder())
        except DeviceError as error:
            if os.environ.get(CACHE_VARIABLE):
                raise
            say(
                f"warning: {error.message}; what the GPU needs is made anew at each start\nhint: {error.hint}\n"
            )
            self.cache = []
            return {
                key: "0" if key.endswith("_cache_enable") else value
                for key, value in self.options.items()
                if CACHE not in value
            }

    def _with_cache(self, folder: str) -> dict[str, str]:
        for value in self.options.values():
            if CACHE in value and (place := value.replace(CACHE, folder)) not in self.cache:
                self.cache.append(make_folder(place))
        return {key: value.replace(CACHE, folder) for key, value in self.options.items()}


def append_built_in(api: Api, options: c_void_p, kind: str, settings: Mapping[str, str]) -> None:
    made = api.make(f"Create{kind}ProviderOptions")
    try:
        if settings:
            keys, values = strings(settings)
            api.call(f"Update{kind}ProviderOptions", made, keys, values, len(settings))
        api.call(f"SessionOptionsAppendExecutionProvider_{kind}_V2", options, made)
    finally:
        api.release(f"{kind}ProviderOptions", made)


def append_plugin(
    api: Api, env: c_void_p, options: c_void_p, name: str, library: str, settings: Mapping[str, str]
) -> None:
    """Register a plugin's library and append what it offers under ``name``. Raises ``DeviceError`` for no device of it."""
    api.call("RegisterExecutionProviderLibrary", env, name.encode(), os.fsencode(library))
    found, count = c_void_p(), c_size_t()
    api.call("GetEpDevices", env, byref(found), byref(count))
    # Keeping addressof and not ctypes.cast in mind: nothing here outlives the environment.
    offered = (c_void_p * count.value).from_address(found.value or 0) if count.value else ()
    chosen = [each for each in offered if device_name(api, each) == name]
    if not chosen:
        raise DeviceError(f"{name} finds no device here that it can use", NO_DEVICE_HINT)
    keys, values = strings(settings)
    first = (c_void_p * 1)(chosen[0])
    api.call("SessionOptionsAppendExecutionProvider_V2", options, env, first, 1, keys, values, len(settings))


def device_name(api: Api, device: int | None) -> str:
    name = ctypes.CFUNCTYPE(c_char_p, c_void_p)(api.slot(EP_DEVICE_NAME))(device)
    return name.decode() if name else ""


def strings(settings: Mapping[str, str]) -> tuple[ctypes.Array[c_char_p], ctypes.Array[c_char_p]]:
    """Keys and values as C has them."""
    kind = c_char_p * len(settings)
    return kind(*(key.encode() for key in settings)), kind(*(value.encode() for value in settings.values()))


def assignment(api: Api, session: c_void_p) -> dict[str, int]:
    """Nodes of a session's graph by the name of the provider that runs them."""
    counts: dict[str, int] = {}
    found, count = c_void_p(), c_size_t()
    api.call("Session_GetEpGraphAssignmentInfo", session, byref(found), byref(count))
    for graph in (c_void_p * count.value).from_address(found.value or 0) if count.value else ():
        name = ctypes.string_at(api.make("EpAssignedSubgraph_GetEpName", graph)).decode()
        nodes, many = c_void_p(), c_size_t()
        api.call("EpAssignedSubgraph_GetNodes", graph, byref(nodes), byref(many))
        counts[name] = counts.get(name, 0) + many.value
    return counts


def why_not_run(said: str) -> tuple[str, str] | None:
    """Message and hint for what ONNX Runtime said of a GPU; None for what is no known failure of one."""
    for pattern, message, hint in SAID:
        found = re.search(pattern, said)
        if found:
            return message.format(**found.groupdict()), hint
    return None


def cache_folder() -> str:
    """A folder of the user's that may be written to, made when there is none. Raises ``DeviceError``."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return make_folder(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(home):
        raise DeviceError("this user has no home folder for the provider's cache", CACHE_HINT)
    return make_folder(os.path.join(home, "edgepack"))


def make_folder(folder: str) -> str:
    try:
        os.makedirs(folder, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise DeviceError(
            f"the provider's cache {folder} cannot be made: {error.strerror}", CACHE_HINT
        ) from error
    return folder
