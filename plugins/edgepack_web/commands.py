"""``edgepack serve-web``: a web bundle, shown on this machine."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("serve-web")
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", default=8000, show_default=True, metavar="PORT", help="0 takes any free port.")
def serve_web(path: Path, host: str, port: int) -> None:
    """Serve a web bundle on this machine, with the headers that a host should send, until Ctrl-C.

    Types, caching for ever of what is named by its content, compressed copies, and the isolation that threads ask for.
    """
    from edgepack_web.serve import open_server

    with open_server(path, host=host, port=port) as server:
        address = f"[{host}]" if ":" in host else host
        click.echo(f"http://{address}:{server.server_address[1]}/  (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
