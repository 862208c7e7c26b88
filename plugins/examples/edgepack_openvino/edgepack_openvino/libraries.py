"""OpenVINO's libraries out of its wheel: those that run a model on a processor, with their licences."""

import sys
from pathlib import Path

from edgepack.api import BuildContext, RuntimeArtifact, TargetError
from edgepack.api.kit import RuntimeFolder, Wheel, closure_of, system_libraries, wheel_file, wheel_files

VERSION = "2026.4.1"
PINS = {
    "cp311": ("2d22b1da03f7caf74df30e9f6417d0ab2f637e4a38e08e1dcd294d2c37407aaf", 59_130_756),
    "cp312": ("6b4375c17ddcac83a5180349e2e2bb811185c261066e2a920659892d58ef0e3b", 59_144_434),
    "cp313": ("a9b637846c579d7b81b17b6585e0c7b1947574e8d13cf83d7307ce50cd2c352e", 59_142_703),
}
"""The wheels differ in their Python modules only; one of them converts the model, in the Python that builds."""
MAIN = "libopenvino_c.so*"
OPENED = ("libopenvino_intel_cpu_plugin.so", "libopenvino_ir_frontend.so*")
"""What OpenVINO opens by itself: nobody names these."""
HOST = ("libstdc++.so.6", "libgcc_s.so.1")
KEEP = (
    "openvino/*.py",
    "openvino/_pyopenvino.*.so",
    "openvino/libs/libopenvino.so*",
    "openvino/libs/libopenvino_onnx_frontend.so*",
    "openvino/libs/libtbb.so*",
    *(f"openvino/libs/{name}" for name in (MAIN, *OPENED)),
    "*/licenses/*",
)


def openvino_wheel(context: BuildContext) -> Path:
    """The folder with what is used of the wheel. Raises ``TargetError`` where there is none for this Python."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    if tag not in PINS:
        raise TargetError(
            f"no wheel of OpenVINO {VERSION} is pinned for {tag}", hint=f"pinned are {', '.join(PINS)}"
        )
    sha256, size = PINS[tag]
    wheel = Wheel(
        name="openvino",
        version=VERSION,
        sha256=sha256,
        size=size,
        python=tag,
        platform="manylinux_2_28_x86_64",
    )
    return wheel_files(wheel, keep=KEEP, context=context)


def openvino_runtime(context: BuildContext) -> RuntimeArtifact:
    """OpenVINO for the processor, as it is in its wheel."""
    wheel, made = openvino_wheel(context), RuntimeFolder(context.work_dir / "openvino-runtime")
    start = [wheel_file(wheel, name) for name in (MAIN, *OPENED)]
    among = sorted((wheel / "openvino" / "libs").iterdir())
    for name, file in closure_of(start, among=among, elsewhere=HOST).files.items():
        made.add(file, name=name)
    texts = sorted(
        path for path in (wheel / f"openvino-{VERSION}.dist-info").rglob("licenses/**/*") if path.is_file()
    )
    made.add_license("openvino", *texts)
    made.add_system(system_libraries(HOST, context=context))
    return made.artifact(
        library=MAIN,
        name="OpenVINO",
        version=VERSION,
        kind="wheel",
        toolchain=f"openvino {VERSION} from PyPI",
    )
