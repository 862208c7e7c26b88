"""ONNX Runtime 1.21."""

from importlib import resources

from edgepack.foundry.release import Release
from edgepack.foundry.releases.ort_1_21.dispatch import DISPATCH_PATCH, DispatchTable
from edgepack.foundry.releases.ort_1_21.isa import isa_patch
from edgepack.foundry.releases.ort_1_21.levels import LEVELS
from edgepack.foundry.releases.ort_1_21.overlay import MESSAGES_PATCH, OVERLAY
from edgepack.foundry.releases.ort_1_21.planner import PLANNER_PATCH
from edgepack.foundry.releases.ort_1_21.registrations import (
    kernels_in,
    possible_operators,
    registration_patch,
)
from edgepack.foundry.releases.ort_1_21.typecontrol import TYPE_CONTROL_PATCH

ORT_1_21 = Release(
    version="1.21.0",
    data=(resources.files("edgepack.foundry.releases.ort_1_21") / "data",),
    overlay=OVERLAY,
    patches=(
        registration_patch("core/providers/cpu/cpu_execution_provider.cc"),
        registration_patch("contrib_ops/cpu/cpu_contrib_kernels.cc"),
        TYPE_CONTROL_PATCH,
        MESSAGES_PATCH,
        PLANNER_PATCH,
        # The table first: what is left of it is restricted.
        DISPATCH_PATCH,
        *(isa_patch(arch) for arch in LEVELS.levels),
    ),
    api_symbols="onnxruntime/core/providers/cpu/symbols.txt",
    possible=possible_operators,
    kernels=kernels_in,
    table=DispatchTable(),
    feature_levels=LEVELS,
)
