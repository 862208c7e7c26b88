"""``embed serve``: the bundle's vectors over HTTP, on the loopback or a unix socket, as OpenAI's clients ask for them."""

import asyncio
import os
import signal
import socket
from argparse import Namespace
from collections.abc import Sequence

from ..base.errors import ListenError, RuntimeFailure
from ..base.open import open_bundle
from ..base.signals import answer_aborts
from ..base.streams import say
from ..model.embedder import Embedder
from .options import parse
from .service import Service

BACKLOG = 1024
OPEN_FILES = 65_536


def serve(arguments: Sequence[str], directory: str, *, program: str) -> int:
    """Serve until told to stop; the exit code."""
    options = parse(arguments, program)
    bundle = open_bundle(directory, require_signature=options.require_signature)
    answer_aborts()
    # Clients that go away are none of our end.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    allow_many_connections()
    with_socket = listening(options)
    try:
        embedder = Embedder(
            bundle,
            batch_size=options.batch_size,
            threads=options.threads,
            max_length=options.max_length,
            allow_cpu=options.allow_cpu,
        )
        say(embedder.model.at_start())
        asyncio.run(run(with_socket, Service(bundle, embedder, options), options))
        embedder.finish()
    finally:
        with_socket.close()
        if options.unix:
            remove(options.unix)
    return 0


def listening(options: Namespace) -> socket.socket:
    """A socket that listens where the options say. Raises ``ListenError``."""
    place = options.unix or f"{options.host} port {options.port}"
    try:
        if options.unix:
            return listening_unix(options.unix)
        # As bytes: a name as text would go through the codec for international ones, which is not frozen in.
        family, kind, protocol, _, address = socket.getaddrinfo(
            os.fsencode(options.host), options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
        return made
    except OSError as error:
        raise ListenError(
            f"cannot listen on {place}: {error.strerror or error}", "--port 0 takes any port that is free"
        ) from error


def listening_unix(path: str) -> socket.socket:
    """A unix socket that only its owner may use; one that nobody listens on any more is replaced."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if is_stale(path):
        remove(path)
    mask = os.umask(0o177)
    try:
        made.bind(path)
    finally:
        os.umask(mask)
    made.listen(BACKLOG)
    return made


def is_stale(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def remove(path: str) -> None:
    try:  # noqa: SIM105
        os.unlink(path)
    except OSError:
        pass


def allow_many_connections() -> None:
    """Each takes a file descriptor, of which a process gets 1024 unless it asks for more."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def run(listener: socket.socket, service: Service, options: Namespace) -> None:
    """Accept connections until SIGTERM or SIGINT, then answer what has been asked."""
    loop = asyncio.get_running_loop()
    # A connection that breaks off, or a moment without free descriptors, is no news.
    loop.set_exception_handler(lambda loop, context: None)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stopped.set)
    working = loop.create_task(service.batcher.run())
    start = asyncio.start_unix_server if options.unix else asyncio.start_server
    server = await start(service.connected, sock=listener, backlog=BACKLOG)
    say(f"listening on {address_of(listener)}\n")
    if options.check:
        await ask_itself(listener, options.token)
        stopped.set()
    await stopped.wait()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Once more, and it ends at once.
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
    server.close()
    await service.finish(options.grace)
    working.cancel()


async def ask_itself(listener: socket.socket, token: bytes) -> None:
    """Be a client once. Raises ``RuntimeFailure`` when the answer is not a vector."""
    name = listener.getsockname()
    opening = (
        asyncio.open_unix_connection(name) if isinstance(name, str) else asyncio.open_connection(*name[:2])
    )
    reader, writer = await opening
    body = b'{"input": "a"}'
    lines = (
        b"POST /v1/embeddings HTTP/1.1",
        b"Host: localhost",
        b"Connection: close",
        b"Authorization: Bearer " + token,
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
    )
    writer.write(b"\r\n".join([*lines, b"", body]))
    answer = await reader.read()
    writer.close()
    if not answer.startswith(b"HTTP/1.1 200 ") or b'"embedding":[' not in answer:
        said = answer[-200:].decode("utf-8", "replace")
        raise RuntimeFailure(f"the server does not answer itself: {said}")


def address_of(listener: socket.socket) -> str:
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"http://{host}:{name[1]}"
