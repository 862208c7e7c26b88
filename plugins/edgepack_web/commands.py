"""``edgepack serve-web`` shows a web bundle on this machine; ``edgepack web toolchain`` sets up what compiles for browsers."""

from pathlib import Path

import click

from edgepack.api.kit import common_options, print_json
from edgepack.cli.options import offline_option


@click.command("serve-web", epilog="\b\nExample:\n  edgepack serve-web dist/all-MiniLM-L6-v2-web-wasm")
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."
)
@click.option(
    "--port", default=8000, show_default=True, metavar="PORT", help="Port to listen on; 0: any free port."
)
def serve_web(path: Path, host: str, port: int) -> None:
    """Serve a web bundle on this machine until Ctrl-C.

    It sends the headers that a production host should send: content types, permanent caching of content-addressed files,
    compressed copies, and for a runtime with threads the cross-origin isolation that they require.
    """
    from edgepack_web.serve import open_server

    with open_server(path, host=host, port=port) as server:
        address = f"[{host}]" if ":" in host else host
        click.echo(f"http://{address}:{server.server_address[1]}/  (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)


@click.group(epilog="\b\nExample:\n  edgepack web toolchain")
def web() -> None:
    """Set up the toolchain for browser bundles."""


@web.command(epilog="\b\nExample:\n  edgepack web toolchain")
@offline_option
@common_options
def toolchain(offline: bool, as_json: bool) -> None:
    """Download Emscripten and binaryen into the cache.

    They compile runtimes for browsers; root is not needed. The command first prints what it downloads and where to. A
    build downloads them itself if they are missing.
    """
    from edgepack.api.kit import host_context
    from edgepack_web.foundry.emscripten import emscripten, installation_plan

    with host_context(offline=offline) as context:
        plan = installation_plan(context)
        if not as_json:
            for line in plan.lines():
                click.echo(line, err=True)
        made = emscripten(context=context)
    if as_json:
        print_json(
            {
                "folder": str(made.root),
                "emscripten": made.version,
                "zig": made.zig_version,
                "fetched": plan.download,
                "packages": list(plan.missing),
            }
        )
    else:
        click.echo(made.root)
