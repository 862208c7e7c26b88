"""When, where and with what settings a bundle was made, for its report; and the command that makes it again."""

import os
import platform
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgepack.models.find.catalogue import CATALOGUE_PREFIX
from edgepack.records.report import BuildInfo
from edgepack.records.target import Target


def made_now(target: Target) -> BuildInfo:
    return BuildInfo(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=this_machine(),
        settings=target.settings,
        budget=target.download_budget,
    )


def this_machine() -> str:
    """Processor, threads and system, as reports and measurements name them."""
    return f"{_processor()}, {os.cpu_count()} threads, {platform.system()} {platform.machine()}"


def command_of(manifest: Mapping[str, Any], made: BuildInfo | None) -> str:
    """The command that makes a bundle like this one, as far as its manifest and report know."""
    model = str(manifest["model"]["origin"]).removeprefix(CATALOGUE_PREFIX)
    words = ["edgepack", "bundle", "--target", str(manifest["target"]["name"])]
    said = manifest["model"].get("set", {})
    words += ["--pooling", said["pooling"]] if said.get("pooling") else []
    if (normalize := said.get("normalize")) is not None:
        words.append("--normalize" if normalize else "--no-normalize")
    for purpose, text in said.get("prompts", {}).items():
        words += ["--prompt", f"{purpose}={text}"]
    words += ["--treat-as-embedding"] if said.get("treat_as_embedding") else []
    words += ["--route", said["route"]] if said.get("route") else []
    for setting in made.settings if made else ():
        words += ["--set", setting]
    return shlex.join([*words, model])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
