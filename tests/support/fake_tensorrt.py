"""TensorRT's wheels on a small scale: libraries that need each other as the real ones do, and a builder in Python.

The builder takes ONNX files as the real one does and makes "engines" that hold their weights, so that everything around
it is what is tested; the real one is tried with ``pytest --gpu-wheels``.
"""

import shutil
from pathlib import Path

from edgepack.runner.freeze.sample_bundle import stock_library
from tests.support.fake_cuda import compile_library

BINDINGS = """
import json
import onnx
from onnx import numpy_helper

__version__ = "1.7.1.116"


class Logger:
    ERROR = 1

    def __init__(self, level):
        pass


class ComputeCapability:
    SM86, SM89, SM120, SM121 = "86", "89", "120", "121"


class Error:
    def __init__(self, text):
        self.text = text

    def desc(self):
        return self.text


class OnnxParser:
    def __init__(self, network, logger):
        self.network, self.errors = network, []

    def parse_from_file(self, path):
        model = onnx.load(path)
        for index, node in enumerate(model.graph.node):
            if node.op_type == "CumSum":
                print(f'[TRT] [E] While parsing node number {index} [CumSum -> "{node.output[0]}"]:', flush=True,
                      file=__import__("sys").stderr)
                self.errors.append(Error("Invalid Node - " + node.name))
                return False
            if node.op_type == "HardSwish":
                __import__("os").abort()
        self.network.model = model
        self.network.num_layers = len(model.graph.node)
        self.network.num_inputs = len(model.graph.input)
        return True

    @property
    def num_errors(self):
        return len(self.errors)

    def get_error(self, index):
        return self.errors[index]


class Network:
    def get_input(self, index):
        return self.model.graph.input[index]


class Config:
    num_compute_capabilities = 0

    def __init__(self):
        self.capabilities = []

    def set_compute_capability(self, code, index):
        assert index < self.num_compute_capabilities
        self.capabilities.append(code)

    def add_optimization_profile(self, profile):
        self.profile = profile


class Profile(dict):
    def set_shape(self, name, low, usual, high):
        assert low <= usual <= high
        self[name] = [low, usual, high]


class Builder:
    def __init__(self, logger):
        pass

    def create_network(self, flags):
        return Network()

    def create_builder_config(self):
        return Config()

    def create_optimization_profile(self):
        return Profile()

    def build_serialized_network(self, network, config):
        if len(network.model.graph.initializer) == 0:
            return None
        head = json.dumps({"capabilities": config.capabilities, "profile": config.profile}).encode()
        weights = [numpy_helper.to_array(each).tobytes() for each in network.model.graph.initializer]
        return b"ENGINE" + head + b"\\0" * 64 + b"".join(reversed(weights))
"""


def fake_wheels(folder: Path) -> dict[str, Path]:
    """What is in the wheels, unpacked, by their names."""
    return {
        "onnxruntime-ep-nv-tensorrt-rtx-cu13": _provider(folder / "provider"),
        "onnxruntime": _onnxruntime(folder / "onnxruntime"),
        "tensorrt-rtx-cu13-bindings": _bindings(folder / "bindings"),
    }


def _provider(folder: Path) -> Path:
    package = folder / "onnxruntime_ep_nv_tensorrt_rtx"
    rtx = _library(package / "libtensorrt_rtx.so.1.7.1", "libtensorrt_rtx.so.1")
    parser = _library(package / "libtensorrt_onnxparser_rtx.so.1.7.1", "libtensorrt_onnxparser_rtx.so.1")
    cudart = _library(package / "libcudart.so.13.4.36", "libcudart.so.13")
    outside = [
        _library(folder.parent / "driver" / name, name) for name in ("libcuda.so.1", "libnvidia-ml.so.1")
    ]
    wanted: list[str | Path] = ["-Wl,--no-as-needed", rtx, parser, cudart, *outside]
    _library(
        package / "libonnxruntime_providers_nv_tensorrt_rtx.so",
        "libonnxruntime_providers_nv_tensorrt_rtx.so",
        *wanted,
    )
    _library(package / "libtensorrt_plugins.so", "libtensorrt_plugins.so", *wanted)
    (package / "Acknowledgements.txt").write_text("Abseil, Apache-2.0\n")
    info = folder / "onnxruntime_ep_nv_tensorrt_rtx_cu13-0.5.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("License-Expression: Apache-2.0\n")
    return folder


def _onnxruntime(folder: Path) -> Path:
    """The stock library that is installed: old, and real."""
    (folder / "onnxruntime/capi").mkdir(parents=True)
    library = stock_library()
    shutil.copyfile(library, folder / "onnxruntime/capi" / library.name)
    _notices(folder / "onnxruntime")
    return folder


def _notices(package: Path) -> None:
    (package / "LICENSE").write_text("MIT License\n")
    (package / "ThirdPartyNotices.txt").write_text("many\n")


def _bindings(folder: Path) -> Path:
    package = folder / "tensorrt_rtx_bindings"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(BINDINGS)
    licenses = folder / "tensorrt_rtx_cu13_bindings-1.7.1.116.dist-info/licenses"
    licenses.mkdir(parents=True)
    (licenses / "LICENSE.txt").write_text("NVIDIA TensorRT RTX license\n")
    return folder


def _library(path: Path, soname: str, *options: str | Path) -> Path:
    symbol = "".join(letter if letter.isalnum() else "_" for letter in soname)
    return compile_library(path, f"int {symbol}(void) {{ return 1; }}\n", f"-Wl,-soname,{soname}", *options)
