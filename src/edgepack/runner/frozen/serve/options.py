"""The command line of ``embed serve``."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ..base.errors import InputError, UsageError
from ..base.streams import say
from ..program.options import Help, Parser, add_number, positive

MAX_TOKEN = 4096
MAX_BODIES = 64_000_000

DESCRIPTION = """\
Serves OpenAI-compatible embeddings over HTTP, on the loopback or a unix socket, until SIGTERM or Ctrl-C.

  POST /v1/embeddings   {"input": text, texts, token ids or lists of them, "encoding_format":
                        "float" or "base64", "dimensions": N, "prefix": "query" or "passage"}
  POST /api/embed       as Ollama; and /api/embeddings
  POST /embed           as Text Embeddings Inference
  GET  /v1/models, /api/tags, /health, /info, /metrics (Prometheus)

Without --token-file, the token is in EMBED_TOKEN, or in the file that EMBED_TOKEN_FILE names."""
EPILOG = """\
examples:
  embed serve --port 8080
  embed serve --unix /run/embed.sock
  curl http://127.0.0.1:8080/v1/embeddings --json '{"input": "a sentence"}'
"""


def parse(arguments: Sequence[str], program: str) -> Namespace:
    """The options of ``embed serve``. Raises ``UsageError``, or ``InputError`` for a token file that is none."""
    options = parser(program).parse_args(arguments)
    options.max_bodies = options.max_bodies or max(MAX_BODIES, options.max_body)
    if options.max_bodies < options.max_body:
        raise UsageError(f"--max-bodies {options.max_bodies} is less than one request's --max-body")
    options.token = token_of(options)
    if not options.unix and options.host not in ("127.0.0.1", "::1", "localhost") and not options.token:
        raise UsageError(
            f"{options.host} is not a loopback address: anyone who can reach it could use this server",
            "require a token (--token-file, EMBED_TOKEN_FILE), or use --host 127.0.0.1",
        )
    return options


def parser(program: str) -> ArgumentParser:
    made = Parser(
        program,
        usage=f"{program.replace('%', '%%')} [OPTIONS]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=Help,
        allow_abbrev=False,
    )
    where = made.add_argument_group("listening")
    where.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="default: 127.0.0.1")
    add_number(where, "--port", "default: 8080; 0: any free port", 8080, kind=port)
    where.add_argument(
        "--unix", metavar="PATH", help="listen on a unix socket instead, accessible to its owner only"
    )
    where.add_argument(
        "--token-file", metavar="FILE", help="require the bearer token in this file, except for /health"
    )
    where.add_argument(
        "--require-signature",
        metavar="KEY",
        help="first require that the bundle is signed with this public key",
    )
    where.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another host name to accept in requests, besides localhost and IP addresses",
    )
    where.add_argument(
        "--cors",
        metavar="ORIGIN",
        action="append",
        type=origin,
        default=[],
        help="let web pages of this origin use the server, e.g. https://app.example; *: any page",
    )
    where.add_argument("--check", action="store_true", help="send itself one request, then stop")
    working = made.add_argument_group("working")
    working.add_argument(
        "--prefix", choices=("query", "passage"), help="prefix for requests that name none (default: none)"
    )
    add_number(working, "--max-length", "truncate texts to N tokens")
    add_number(working, "--batch-size", "as for embed")
    add_number(working, "--threads", "as for embed")
    working.add_argument("--allow-cpu", action="store_true", help="as for embed")
    together = "most texts taken from the queue at once, across requests (default: 16)"
    add_number(working, "--window", together, 16)
    waits = "longest wait for other requests to fill a batch (default: 2)"
    add_number(working, "--wait", waits, 2.0, kind=milliseconds, metavar="MS")
    limits = made.add_argument_group("limits")
    add_number(limits, "--queue", "most waiting texts; beyond that, 429 (default: 2048)", 2048)
    body = "largest request body (default: 4000000)"
    add_number(limits, "--max-body", body, 4_000_000, kind=size, metavar="BYTES")
    bodies = f"all request bodies together; beyond that, 503 (default: {MAX_BODIES})"
    add_number(limits, "--max-bodies", bodies, kind=size, metavar="BYTES")
    add_number(limits, "--max-tokens", "most tokens per request (default: 300000)", 300_000, kind=size)
    add_number(limits, "--max-connections", "most connections; beyond that, 503 (default: 2048)", 2048)
    patience = "seconds to receive a request, and to send its answer (default: 30)"
    add_number(limits, "--timeout", patience, 30, metavar="S")
    grace = "seconds to finish pending requests on shutdown (default: 10)"
    add_number(limits, "--grace", grace, 10, metavar="S")
    return made


def port(word: str) -> int:
    return 0 if word == "0" else positive(word)


def size(word: str) -> int:
    from argparse import ArgumentTypeError

    if not word.isascii() or not word.isdigit() or not 0 < int(word) <= 1 << 30:
        raise ArgumentTypeError(f"{word!r} is not a number from 1 to {1 << 30}")
    return int(word)


def milliseconds(word: str) -> float:
    from argparse import ArgumentTypeError

    try:
        value = float(word)
    except ValueError:
        value = -1
    if not 0 <= value <= 1000:
        raise ArgumentTypeError(f"{word!r} is not a number of milliseconds from 0 to 1000")
    return value


def origin(word: str) -> str:
    """As browsers write one: no path, no capital letters."""
    from argparse import ArgumentTypeError

    scheme, _, rest = word.partition("://")
    sound = scheme.isalnum() and rest and not set(rest) & set("/?#@*, \t") and word == word.lower()
    if word != "*" and not sound:
        raise ArgumentTypeError(f"{word!r} is not an origin, such as https://app.example")
    return word


def token_of(options: Namespace) -> bytes:
    """From the file that is named, or the environment; empty: none. Raises ``InputError`` and ``UsageError``."""
    path, plain = os.environ.get("EMBED_TOKEN_FILE"), os.environ.get("EMBED_TOKEN")
    if options.token_file is not None:
        return read_token(options.token_file)
    if path is not None and plain is not None:
        raise UsageError("EMBED_TOKEN and EMBED_TOKEN_FILE are both set")
    if path is not None:
        return read_token(path)
    # One that is set to nothing is a mistake, which must not open the server.
    return b"" if plain is None else sound_token(os.fsencode(plain), "EMBED_TOKEN")


def read_token(path: str) -> bytes:
    """The token in a file, without the line's end. Raises ``InputError`` where it is none, or others may set it."""
    try:
        with open(path, "rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            content = stream.read(MAX_TOKEN + 2)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    token = sound_token(content, path)
    if mode & 0o022:
        raise InputError(f"{path} is writable by others (mode {mode & 0o777:o})", f"chmod 600 {path}")
    if mode & 0o004:
        say(f"warning: {path} is readable by every user of this device (mode {mode & 0o777:o})\n")
    return token


def sound_token(content: bytes, source: str) -> bytes:
    token = content.strip() if len(content) < MAX_TOKEN + 2 else b""
    if not 0 < len(token) <= MAX_TOKEN or any(not 0x21 <= byte <= 0x7E for byte in token):
        raise InputError(
            f"{source} holds no token: 1 to {MAX_TOKEN} printable ASCII characters without spaces"
        )
    return token
