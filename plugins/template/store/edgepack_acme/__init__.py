"""A store of an address scheme of its own, registered: ``edgepack build --store acme://FOLDER`` shares finished bundles in it."""

from collections.abc import Iterable
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from edgepack import api
from edgepack.api.axes import BlobStore


class AcmeStore:
    """Files by name; here in a folder. The host checks what comes back, and goes round a store whose methods raise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, name: str, destination: Path) -> bool:
        if not self.has(name):
            return False
        copyfile(self.folder / name, destination)
        return True

    def put(self, name: str, source: Path) -> None:
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: no reader sees half a file.
        with TemporaryDirectory(dir=place.parent) as work:
            copyfile(source, Path(work) / "file")
            (Path(work) / "file").replace(place)

    def has(self, name: str) -> bool:
        return (self.folder / name).is_file()


def open_store(url: str) -> BlobStore:
    """The store at ``acme://FOLDER``."""
    _, _, folder = url.partition("://")
    if not folder:
        raise api.UsageError(f"{url} names no folder", hint="acme:///srv/edgepack")
    return AcmeStore(Path(folder))


def make() -> object:
    return open_store


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [api.Spec(axis="store", name="acme", summary="our storage", make=make)]
