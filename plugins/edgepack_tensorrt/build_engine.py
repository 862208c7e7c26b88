"""Runs alone, in a process of its own: builds a TensorRT-RTX engine from an ONNX file on a machine without a GPU.

``python -I build_engine.py BINDINGS JOB OUTPUT``; JOB is JSON. Writes the engine, and what it is as JSON to standard
output; what TensorRT has to say goes to standard error, and the exit code is 3 when it refuses the model.
"""

import json
import sys
from pathlib import Path
from typing import Any

REFUSED = 3


def main(bindings: str, job_text: str, output: str) -> int:
    sys.path.insert(0, bindings)
    import tensorrt_rtx_bindings as trt  # type: ignore[import-not-found]

    job = json.loads(job_text)
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(job["model"]):
        reasons = [parser.get_error(index).desc() for index in range(parser.num_errors)]
        print("; ".join(reasons) or "the model cannot be read", file=sys.stderr)  # noqa: T201
        return REFUSED
    config = builder.create_builder_config()
    _set_capabilities(trt, config, job["capabilities"])
    _add_profile(builder, config, network, job["shapes"])
    engine = builder.build_serialized_network(network, config)
    if engine is None:
        print("TensorRT made no engine of the model", file=sys.stderr)  # noqa: T201
        return REFUSED
    Path(output).write_bytes(engine)
    print(json.dumps({"tensorrt": trt.__version__, "layers": network.num_layers}))  # noqa: T201
    return 0


def _set_capabilities(trt: Any, config: Any, capabilities: list[str]) -> None:
    config.num_compute_capabilities = len(capabilities)
    for index, capability in enumerate(capabilities):
        code = getattr(trt.ComputeCapability, "SM" + capability.replace(".", ""))
        config.set_compute_capability(code, index)


def _add_profile(builder: Any, config: Any, network: Any, shapes: list[list[int]]) -> None:
    profile = builder.create_optimization_profile()
    for index in range(network.num_inputs):
        profile.set_shape(network.get_input(index).name, *(tuple(shape) for shape in shapes))
    config.add_optimization_profile(profile)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
