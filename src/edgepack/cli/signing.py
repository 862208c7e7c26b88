"""The commands that make keys and sign."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgepack.cli.help import Listed, example
from edgepack.cli.options import common_options, file_option
from edgepack.cli.output import print_json, say
from edgepack.errors import UsageError

if TYPE_CHECKING:
    from edgepack.signing.keys import PrivateKey

PASSWORD = "EDGEPACK_KEY_PASSWORD"
_password_env = click.option(
    "--key-password-env",
    "variable",
    metavar="NAME",
    default=PASSWORD,
    show_default=True,
    help="Environment variable with the password of the key; if it is not set, the terminal prompts for it.",
)


@click.group(cls=Listed, epilog=example("edgepack keys new team"))
def keys() -> None:
    """Create keys for signing bundles."""


@keys.command(epilog=example("edgepack keys new team"))
@click.argument("name", type=click.Path(path_type=Path))
@click.option("--password", "sealed", is_flag=True, help="Encrypt the private key with a password.")
@_password_env
@common_options
def new(name: Path, sealed: bool, variable: str, as_json: bool) -> None:
    """Create a key pair: NAME.key signs, NAME.pub checks.

    Existing files are never replaced. The keys are ECDSA P-256 in PEM; openssl, model_signing and cosign read them.
    """
    from edgepack.signing.keys import load_public, new_keys

    password = _password(variable, confirm=True) if sealed or variable in os.environ else None
    private, public = new_keys(name, password=password)
    hint = load_public(public).hint
    if as_json:
        print_json({"private": str(private), "public": str(public), "key": hint})
    else:
        say(f"{private}: sign with it, and keep it to yourself\n{public}: hand it out; it is {hint}")


@click.command(epilog=example("edgepack sign dist/all-MiniLM-L6-v2-linux-x86-min --key team.key"))
@click.argument("path", metavar="BUNDLE", type=click.Path(path_type=Path, exists=True))
@file_option("--key", "The private key, ECDSA P-256 in PEM.", exists=True)
@_password_env
@click.option("-f", "--force", is_flag=True, help="Replace an existing signature.")
@common_options
def sign(path: Path, key: Path | None, variable: str, force: bool, as_json: bool) -> None:
    """Sign a bundle so that others can verify its origin and integrity.

    BUNDLE is the folder of a bundle, or a file. The folder gets a signature of OpenSSF model-signing; the archive beside it is
    packed again with the signature inside. An archive or other file gets a signature of cosign beside it. `edgepack verify
    --key`, model_signing and cosign check them.
    """
    from edgepack.plugins.context import host_context
    from edgepack.project.state_file import signing
    from edgepack.signing.signatures import sign_path

    if key is None:
        raise click.UsageError("--key FILE is missing; `edgepack keys new NAME` makes one")
    private = private_key(key, variable)
    with host_context() as context, signing(path, context=context):
        made = sign_path(path, private, force=force, context=context)
    if as_json:
        print_json({"written": [str(each) for each in made], "key": private.public.hint})
    else:
        for each in made:
            say(f"written: {each}")


def private_key(path: Path, variable: str = PASSWORD) -> PrivateKey:
    """The key in a file; its password is of the environment, or is asked for at a terminal."""
    from edgepack.signing.keys import load_private

    password = password_of(path, variable)
    return load_private(path, password=None if password is None else password.encode())


def password_of(path: Path, variable: str = PASSWORD) -> str | None:
    """Password of the key in a file, from the environment or a terminal; ``None`` for one that has none."""
    from edgepack.signing.keys import is_sealed

    sealed = path.stat().st_size < 1 << 16 and is_sealed(path.read_bytes())
    return _password(variable).decode() if sealed else None


def _password(variable: str, *, confirm: bool = False) -> bytes:
    """Raises ``UsageError`` where there is neither the variable nor a terminal."""
    if found := os.environ.get(variable):
        return found.encode()
    if not sys.stdin.isatty():
        raise UsageError(
            "the key's password is not known, and there is no terminal to ask at",
            hint=f"put it into {variable}",
        )
    return str(click.prompt("password", hide_input=True, confirmation_prompt=confirm, err=True)).encode()
