"""Files of the Hugging Face hub by the hub's own library: its cache, the token of `hf auth login`, Xet."""

import os
from pathlib import Path

from edgepack.errors import UsageError


def token_of_login() -> str | None:
    """The token that `hf auth login` has kept, where there is one."""
    import huggingface_hub

    token: str | None = huggingface_hub.get_token()
    return token


def in_hub_cache(repository: str, name: str, commit: str) -> Path | None:
    """The file of that commit in the user's cache of the hub; ``None`` where it is not there. Nothing is asked of the network."""
    import huggingface_hub

    try:
        found = huggingface_hub.try_to_load_from_cache(repository, name, revision=commit)
    except ValueError:  # names that are none to the library
        return None
    return Path(found) if isinstance(found, str) and Path(found).is_file() else None


def require_download(repository: str, name: str) -> None:
    """Raise ``UsageError`` where the user has told the hub's library to download nothing."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise UsageError(
            f"{name} of {repository} is not in the hub's cache, and HF_HUB_OFFLINE is set",
            hint="unset HF_HUB_OFFLINE, or fetch the model before",
        )


def by_hub_library(
    repository: str, name: str, commit: str, *, endpoint: str, token: str | None
) -> Path | None:
    """The file, downloaded into the user's cache of the hub; ``None`` where the library cannot: a server that says too little of a
    file, a proxy that it does not know, a cache that cannot be written.
    """
    import huggingface_hub
    import huggingface_hub.constants
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()  # The story on stderr has its own.
    # It would say what else is installed, and ask huggingface.co for names of programs, whatever the endpoint is.
    huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True
    try:
        made = huggingface_hub.hf_hub_download(
            repository, name, revision=commit, endpoint=endpoint, token=token or False
        )
    except Exception:  # of whatever client its release uses; what is wrong, our own download says
        return None
    return Path(made)
