"""Which translation units of a provider's library a model needs; all of them where that is not known."""

from collections.abc import Callable, Collection

from edgepack.api import BundleError
from edgepack_cuda.image import read_image
from edgepack_cuda.kernels import kernels_of
from edgepack_cuda.lists import known_versions, lists_for
from edgepack_cuda.prune import device_code

Note = Callable[[str], None]


def select_units(
    content: bytes,
    name: str,
    version: str | None,
    operators: Collection[str] | None,
    *,
    architectures: Collection[str],
    note: Note,
) -> frozenset[int] | None:
    """Indices of the units for a model's operators (``None``: for all that the lists know) on some architectures.

    ``None`` where there are no lists for the version, the library is not the one that they are of, or an operator is not
    in them: then only architectures can be pruned, and ``note`` says why.
    """
    lists = lists_for(version or "")
    if lists is None:
        known = ", ".join(known_versions())
        note(f"no lists for ONNX Runtime {version or '(no version given)'}, but for {known}: all units stay")
        return None
    _, code, fatbins = device_code(read_image(content, name), name)
    try:
        kernels = [kernels_of(code, fatbin) for fatbin in fatbins]
    except BundleError as error:
        note(f"the kernels' names cannot be read ({error.message}): all units stay")
        return None
    absent = lists.absent(kernels)
    if len(fatbins) != lists.units or absent:
        what = f"{len(fatbins)} units instead of {lists.units}" if not absent else f"no {absent[0]}"
        note(f"{name} is not the build that the lists for {lists.version} are of ({what}): all units stay")
        return None
    wanted = lists.operators if operators is None else operators
    if unknown := lists.unknown(wanted):
        note(f"the lists for {lists.version} do not know {', '.join(unknown)}: all units stay")
        return None
    return lists.units_for(wanted, kernels, architectures)
