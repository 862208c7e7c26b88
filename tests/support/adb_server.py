"""A server of ours that speaks as adb's own does to its client (protocol of version 41): one device, which is this machine's shell."""

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

VERSION = "0029"
SERIAL = "BOARD0"
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)


@contextmanager
def adb_server(environment: dict[str, str]) -> Iterator[str]:
    """Its address for ``ADB_SERVER_SOCKET``; the shell runs in that environment."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        threading.Thread(target=_serve, args=(server, environment), daemon=True).start()
        yield f"tcp:127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, environment: dict[str, str]) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_talk, args=(client, environment), daemon=True).start()


def _talk(client: socket.socket, environment: dict[str, str]) -> None:
    with client:
        while True:
            try:
                request = _exactly(client, int(_exactly(client, 4), 16)).decode()
            except (EOFError, ValueError, OSError):
                return
            if request == "host:version":
                client.sendall(f"OKAY0004{VERSION}".encode())
            elif request.endswith(":features"):
                client.sendall(_with_length("shell_v2,cmd"))
            elif request == f"host:tport:serial:{SERIAL}":
                client.sendall(b"OKAY" + struct.pack("<Q", 1))
                continue
            elif request.startswith("host:transport:") and request.endswith(SERIAL):
                client.sendall(b"OKAY")
                continue
            elif request.startswith("shell,v2") and ":" in request:
                client.sendall(b"OKAY")
                _shell(client, request.partition(":")[2], environment)
            else:
                message = f"device '{request.rpartition(':')[2]}' not found"
                client.sendall(b"FAIL" + _with_length(message)[4:])
            return


def _with_length(text: str) -> bytes:
    return f"OKAY{len(text):04x}{text}".encode()


def _shell(client: socket.socket, command: str, environment: dict[str, str]) -> None:
    lock = threading.Lock()

    def forward(kind: int, stream: int) -> None:
        while piece := os.read(stream, 1 << 15):
            with lock:
                client.sendall(struct.pack("<BI", kind, len(piece)) + piece)

    pipe = subprocess.PIPE
    with subprocess.Popen(
        ["sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe, env=environment
    ) as started:
        assert started.stdin and started.stdout and started.stderr
        streams = ((STDOUT, started.stdout.fileno()), (STDERR, started.stderr.fileno()))
        readers = [threading.Thread(target=forward, args=each, daemon=True) for each in streams]
        feeder = threading.Thread(target=_feed, args=(client, started), daemon=True)
        for thread in (*readers, feeder):
            thread.start()
        for reader in readers:
            reader.join()
        with lock:
            client.sendall(struct.pack("<BI", EXIT, 1) + bytes([started.wait() & 255]))
        # The feeder still reads: closing alone would tell the client nothing.
        client.shutdown(socket.SHUT_RDWR)
        feeder.join()


def _feed(client: socket.socket, started: "subprocess.Popen[bytes]") -> None:
    assert started.stdin
    try:
        while True:
            kind, length = struct.unpack("<BI", _exactly(client, 5))
            piece = _exactly(client, length)
            if kind == STDIN:
                started.stdin.write(piece)
                started.stdin.flush()
            elif kind == CLOSE_STDIN:
                started.stdin.close()
    except (EOFError, OSError, ValueError):
        return


def _exactly(client: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        piece = client.recv(size - len(content))
        if not piece:
            raise EOFError
        content += piece
    return content
