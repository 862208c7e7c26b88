"""Two bundles beside each other, wholly: settings, bytes, money, vectors, the verdict."""

from pathlib import Path
from tempfile import mkdtemp

from edgepack.api import BuildContext, Bundle, BundleError
from edgepack.api.kit import PublicKey, open_bundle, unpack_bundle, word_of_bundle
from edgepack.bundles.archive import archive_of, pack, with_archive
from edgepack.bundles.manifest import digest
from edgepack.reports.cost import download_costs, prices_of
from edgepack.signing.signatures import require_signed_file
from edgepack_updates.compare import changes, measure_drift
from edgepack_updates.making import Made, make_delta
from edgepack_updates.show import Difference, PartChange
from edgepack_updates.verdict import judge


def opened(path: Path, name: str, *, context: BuildContext) -> Bundle:
    """The bundle in a folder or archive, its files checked; ``name`` is of the folder that an archive is unpacked to."""
    if path.is_file():
        made = open_bundle(unpack_bundle(path, context.work_dir / name))
        archive = path if path.name.endswith(".tar.zst") else None
    elif path.is_dir():
        return with_archive(open_bundle(path))
    else:
        raise BundleError(
            f"there is no {path}", hint="name a folder that edgepack bundle made, or its .tar.zst archive"
        )
    return Bundle(directory=made.directory, manifest=made.manifest, archive=archive)


def difference(
    old: Bundle,
    new: Bundle,
    *,
    run: bool,
    full: bool,
    prices: Path | None,
    key: PublicKey | None = None,
    context: BuildContext,
) -> Difference:
    """Everything that is said of two bundles. A program that was not made here is run only with ``run``.

    With ``key`` a bundle that was not made here has to be signed with it, and its word counts. Raises ``SignatureError``.
    """
    said_by = [
        word_of_bundle(each, key=key, outside=_is_signed(each, key), store=context.store)
        for each in (old, new)
    ]
    table = prices_of(prices, context)
    made = make_delta(
        old, new, Path(mkdtemp(dir=context.work_dir)) / "delta", thorough=False, context=context
    )
    settings = changes(old.manifest, new.manifest)
    comparable = all(
        old.manifest["model"].get(key) == new.manifest["model"].get(key)
        for key in ("dimension", "task", "labels")
    )
    drift = measure_drift(old, new, run=run, full=full, context=context) if comparable else None
    before, after = (_archive_bytes(each, name, context) for each, name in ((old, "old"), (new, "new")))
    return Difference(
        old=digest(old),
        new=digest(new),
        old_said_by=said_by[0],
        new_said_by=said_by[1],
        changes=settings,
        parts=tuple(_parts(old, new, made)),
        archive_before=before,
        archive_after=after,
        update=made.size,
        costs_whole=download_costs(after, table),
        costs_update=download_costs(min(made.size, after), table),
        drift=drift,
        verdict=judge(
            old.manifest, new.manifest, drift, {each.what: each for each in settings}, said_by=said_by
        ),
    )


def _is_signed(bundle: Bundle, key: PublicKey | None) -> bool:
    """Whether the archive that a bundle was unpacked from is signed beside it; what lies beside a folder says nothing of the folder."""
    if key is None or bundle.archive is None or archive_of(bundle.directory) == bundle.archive:
        return False
    return require_signed_file(bundle.archive, key)


def _parts(old: Bundle, new: Bundle, made: Made) -> list[PartChange]:
    """Each part of either, in the order of the manifests; ``manifest`` is the manifest and the signature."""
    sizes = [dict.fromkeys(("manifest",), _own(bundle)) for bundle in (old, new)]
    for found, bundle in zip(sizes, (old, new), strict=True):
        for file in bundle.manifest["files"]:
            found[file["part"]] = found.get(file["part"], 0) + int(file["size"])
    before, after = sizes
    names = [*(name for name in {**before, **after} if name != "manifest"), "manifest"]
    return [
        PartChange(
            name=name, before=before.get(name, 0), after=after.get(name, 0), update=made.parts.get(name, 0)
        )
        for name in names
    ]


def _own(bundle: Bundle) -> int:
    listed = sum(int(file["size"]) for file in bundle.manifest["files"])
    everything = sum(
        path.lstat().st_size for path in bundle.directory.rglob("*") if not path.is_dir() or path.is_symlink()
    )
    return everything - listed


def _archive_bytes(bundle: Bundle, name: str, context: BuildContext) -> int:
    """Size of the archive that sends the whole bundle: the one that is there, or one that is made to be weighed."""
    if bundle.archive is not None:
        return bundle.archive.stat().st_size
    place = context.work_dir / f"{name}.tar.zst"
    pack(bundle, place, context=context)
    size = place.stat().st_size
    place.unlink()
    return size
