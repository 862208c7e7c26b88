"""edgepack from Python: the commands as functions, which return what the commands print.

Importing this is fast, because each function imports what it needs when it is called. A failure raises an
``edgepack.errors.EdgepackError``, with ``message``, ``hint`` and the command's ``exit_code``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepack.records.target import UNSAID, GateLevel, Reading

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from edgepack.finished_bundle import VerifyOptions
    from edgepack.models.inspection import ModelInspection
    from edgepack.plugins.context import HostContext
    from edgepack.project.jobs import Result
    from edgepack.records.device import DeviceProof, DeviceResult, OnDevices
    from edgepack.records.report import Report, Verification
    from edgepack.signing.keys import PrivateKey
    from edgepack.signing.signatures import Signed


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle that was made, verified and measured."""

    path: Path
    """Its folder."""
    archive: Path
    packages: tuple[Path, ...]
    """Files of the package forms that the target and ``packages`` name."""
    manifest: Mapping[str, Any]
    report: Report

    @property
    def verification(self) -> Verification:
        """Comparison of its vectors with the full-precision model's."""
        return self.report.verification

    def embed(self, texts: Sequence[str]) -> NDArray[float32]:
        """Vectors by the bundle's own program, float32 [len(texts), dimension]; raises ``CannotRunHere`` if this machine cannot run it."""
        return _vectors(self.path, texts)


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """A quantized model, in a folder that every function takes as ``model``."""

    path: Path
    file: Path
    size: int
    """Bytes of the file."""
    recipe: str
    """The passes, in words."""
    precision: str
    operators: int
    """Kernels that it requires of ONNX Runtime."""
    batch_dependent: bool
    """Whether a text's vector depends on the texts beside it."""
    warnings: tuple[str, ...]
    verification: Verification
    """Measured with the stock ONNX Runtime package; no limit applies."""


def bundle(
    model: str | Path | None = None,
    *,
    target: str | Path | None = None,
    output: str | Path = "dist",
    recipe: str | None = None,
    gate: GateLevel | None = None,
    budget: int | None = None,
    settings: Mapping[str, Any] | None = None,
    packages: Sequence[str] = (),
    reading: Reading = UNSAID,
    prices: str | Path | None = None,
    key: str | Path | None = None,
    password: str | None = None,
    force: bool = False,
    bench: bool = False,
    offline: bool = False,
    progress: bool = False,
) -> Bundle:
    """Make a self-contained bundle, verify and measure it, as `edgepack bundle` does.

    ``model`` is what ``--model`` takes; ``None``: the catalogue's default. ``target`` is a name or a .toml file; ``None``: the best
    for this machine that takes the model. ``settings`` change keys of the target: ``{"model.min_cosine": 0.99, "runtime": "full"}``.
    ``budget``, in bytes to download, asks for the recipe nearest to full precision that keeps it. ``packages`` are package forms to make
    beside the archive. ``key`` is the file of a private key, and ``password`` the password of this key; the bundle, its archive and its
    packages are signed with it. ``bench`` measures the program's speed on this machine for the report. ``progress`` prints the steps on
    stderr. A build that fails writes no bundle to ``output``.
    """
    from edgepack import pipeline
    from edgepack.targets import overrides_of

    overrides = overrides_of(settings or {}, recipe=recipe, gate=gate, packages=packages)
    with _context(offline=offline, progress=progress) as context:
        place = None if model is None else str(model)
        named = None if target is None else str(target)
        outcome = pipeline.build_chosen(
            named,
            overrides,
            reading,
            model=place,
            budget=budget,
            output=Path(output),
            force=force,
            bench=bench,
            prices=_path(prices),
            key=None if key is None else _private(key, password),
            context=context,
        )
    made = outcome.bundle
    return Bundle(
        path=made.directory,
        archive=made.archive or made.directory,
        packages=tuple(made.directory.with_name(each.file) for each in outcome.report.packages),
        manifest=made.manifest,
        report=outcome.report,
    )


def build(
    project: str | Path | None = None,
    *,
    only: Sequence[str] = (),
    shard: str | None = None,
    jobs: int | None = None,
    executor: str | None = None,
    scheduler: str | None = None,
    store: str | Path | None = None,
    dry_run: bool = False,
    force: bool = False,
    key: str | Path | None = None,
    password: str | None = None,
    offline: bool = False,
    progress: bool = False,
) -> list[Result]:
    """Build the bundles of a project whose inputs changed, as `edgepack build` does; a failure does not stop the other bundles.

    ``project`` is the project file; ``None``: that of the current folder. ``only`` names models, targets or ``MODEL:TARGET``. ``shard`` is
    one part of several, ``"3/8"``. ``jobs`` is the number of bundles at once, in processes of their own: a script that says more than 1 has its
    calls below ``if __name__ == "__main__":``. ``executor`` and ``scheduler`` name a plugin's workers, ``store`` the store to share with them. ``key`` is the file of a
    private key, ``password`` its password: bundles are signed with it, and archives, packages and reports beside them.
    """
    from edgepack.project.build import Workforce, build_cells
    from edgepack.project.file import find_project
    from edgepack.project.matrix import cells_of
    from edgepack.project.stores import address_of

    found = find_project(_path(project))
    cells = cells_of(found, only, shard=shard)
    address = address_of(None if store is None else str(store), found.store)
    private = None if key is None else _private(key, password)
    by = Workforce(jobs=jobs, executor=executor, scheduler=scheduler, store=address)
    with _context(offline=offline, progress=progress) as context:
        made = build_cells(cells, context=context, by=by, force=force, dry_run=dry_run, key=private)
        return [result for _, result in sorted(made, key=lambda each: each[0])]


def prove(
    results: Sequence[Result],
    *,
    project: str | Path | None = None,
    force: bool = False,
    key: str | Path | None = None,
    password: str | None = None,
    offline: bool = False,
    progress: bool = False,
) -> list[DeviceProof]:
    """Prove what ``build`` returned on the project's ``[devices]``, as `edgepack build --on` does: each bundle on those with its system and
    processor that answer.

    What a device's record says of this very bundle is not measured again, unless with ``force``. ``key`` is the file of a private key, and ``password`` its
    password; records are signed with it.
    """
    from edgepack.device.session import parse_address
    from edgepack.finished_bundle import Built, prove_built
    from edgepack.project.file import find_project
    from edgepack.project.matrix import cells_of

    found = find_project(_path(project))
    devices = [parse_address(f"{name}={address}") for name, address in found.devices.items()]
    private = None if key is None else _private(key, password)
    models = {cell.label: cell.wanted.model for cell in cells_of(found)}
    bundles = [
        Built(label=each.label, path=each.path, model=models.get(each.label))
        for each in results
        if each.path is not None and each.error is None
    ]
    with _context(offline=offline, progress=progress) as context:
        return prove_built(bundles, devices, force=force, sign=private, context=context)


def inspect(
    model: str | Path | None = None,
    *,
    reading: Reading = UNSAID,
    offline: bool = False,
    progress: bool = False,
) -> ModelInspection:
    """The parts of a model, how it is read, and the recommended recipe, as `edgepack inspect` shows."""
    from edgepack.models.find.source import ingest
    from edgepack.models.inspection import inspect_model
    from edgepack.suitability.rows import recommended, suitability

    with _context(offline=offline, progress=progress) as context:
        source = ingest(None if model is None else str(model), reading=reading, context=context)
        found = inspect_model(source, context=context)
        with context.story.step("targets"):
            rows = suitability(source, context=context)
            return replace(found, targets=rows, recommended=recommended(source, rows, context=context))


def quantize(
    model: str | Path | None = None,
    *,
    recipe: str = "int8",
    output: str | Path = "quantized",
    format: str = "ort",
    calibration: str | Path | None = None,
    isa: Sequence[str] = (),
    reading: Reading = UNSAID,
    offline: bool = False,
    progress: bool = False,
) -> Quantized:
    """Quantize a model into a folder with its tokenizer, and compare its vectors, as `edgepack quantize` does."""
    from edgepack.bundles.place import require_free, require_writable
    from edgepack.models.find.source import ingest
    from edgepack.models.reference import embed_with_onnxruntime
    from edgepack.operators.config import required
    from edgepack.recipes.model_files import MADE_HERE, quantize_model
    from edgepack.recipes.registry import passes_of
    from edgepack.records.target import ModelOptions, Platform
    from edgepack.verifier.gate import verification_texts
    from edgepack.verifier.vector_quality import measure_quality

    options = ModelOptions(recipe=recipe, format=format, calibration=_path(calibration))
    platform = Platform(os="linux", arch="x86_64", isa=tuple(isa))
    with _context(offline=offline, progress=progress) as context:
        passes_of(recipe, context)
        require_free(Path(output), force=True, kind=MADE_HERE)
        require_writable(Path(output).parent)
        with context.story.step("model"):
            source = ingest(None if model is None else str(model), reading=reading, context=context)
        with context.story.step("quantize"):
            made, file = quantize_model(
                source, Path(output), options=options, platform=platform, context=context
            )
        with context.story.step("verify"):
            found = measure_quality(
                lambda texts: embed_with_onnxruntime(made.file, made.source, texts),
                source,
                verification_texts(),
                together=lambda texts: embed_with_onnxruntime(
                    made.file, made.source, texts, batch_size=len(texts)
                ),
                context=context,
            )
    return Quantized(
        path=Path(output),
        file=file,
        size=file.stat().st_size,
        recipe=made.recipe,
        precision=made.precision,
        operators=len(required(made.needs)),
        batch_dependent=made.batch_dependent,
        warnings=made.source.warnings,
        verification=found,
    )


def verify(
    path: str | Path,
    *,
    model: str | Path | None = None,
    target: str | Path | None = None,
    min_cosine: float | None = None,
    gate: GateLevel | None = None,
    reading: Reading = UNSAID,
    run: bool = False,
    seed: int | None = None,
    max_unpacked: int | None = None,
    key: str | Path | None = None,
    min_version: str | None = None,
    write_vectors: str | Path | None = None,
    other_vectors: str | Path | None = None,
    offline: bool = False,
    progress: bool = False,
) -> Verification:
    """Check a bundle's files, run it and compare its vectors, as `edgepack verify` does; the result is in ``status``.

    A bundle that was made elsewhere is run only with ``run=True``, also on texts drawn by ``seed`` (``None``: by a new one). The limits of ``target`` and ``min_cosine`` then apply, or
    edgepack's own. An archive may unpack to at most ``max_unpacked`` bytes. ``key`` is the file of a public key; a bundle that is not signed
    with this key, or is older than ``min_version``, raises ``SignatureError``. ``write_vectors`` is a .npy file to write the vectors of the 200 texts to, for another machine;
    ``other_vectors`` is such a file from another machine, to compare with. Raises ``VerificationError`` for a bundle that fails and
    ``BundleError`` for a damaged one.
    """
    from edgepack.finished_bundle import verify_again

    asked = _asked(
        target,
        min_cosine,
        model=model,
        gate=gate,
        reading=reading,
        run=run,
        seed=seed,
        most=max_unpacked,
        key=key,
        least_version=min_version,
    )
    vectors, others = _path(write_vectors), _path(other_vectors)
    with _context(offline=offline, progress=progress) as context:
        return verify_again(Path(path), asked, write_vectors=vectors, others=others, context=context)


def verify_on(
    path: str | Path,
    devices: Sequence[str],
    *,
    model: str | Path | None = None,
    target: str | Path | None = None,
    min_cosine: float | None = None,
    gate: GateLevel | None = None,
    reading: Reading = UNSAID,
    run: bool = False,
    seed: int | None = None,
    max_unpacked: int | None = None,
    key: str | Path | None = None,
    min_version: str | None = None,
    bench: bool = False,
    record: str | Path | None = None,
    sign: str | Path | None = None,
    password: str | None = None,
    offline: bool = False,
    progress: bool = False,
) -> OnDevices:
    """Run a bundle on devices and compare its vectors here, as `edgepack verify --on` does; one device's failure does not stop the others.

    ``devices`` are what ``--on`` takes. What they measured is written to ``record`` (``None``: beside the bundle) and signed with ``sign``, the
    file of a private key with ``password``. The rest is as for ``verify``.
    """
    from edgepack.device.session import parse_address
    from edgepack.errors import UsageError
    from edgepack.finished_bundle import verify_on_devices

    if not devices:
        raise UsageError("no device is named", hint="name one as --on does, e.g. ssh://pi@kitchen")
    addresses = [parse_address(each) for each in devices]
    asked = _asked(
        target,
        min_cosine,
        model=model,
        gate=gate,
        reading=reading,
        run=run,
        seed=seed,
        most=max_unpacked,
        key=key,
        least_version=min_version,
    )
    private = None if sign is None else _private(sign, password)
    with _context(offline=offline, progress=progress) as context:
        return verify_on_devices(
            Path(path), addresses, asked, bench=bench, record=_path(record), sign=private, context=context
        )


def check_device(
    path: str | Path,
    device: str,
    *,
    key: str | Path | None = None,
    record: str | Path | None = None,
    target: str | Path | None = None,
    min_cosine: float | None = None,
    max_unpacked: int | None = None,
) -> DeviceResult:
    """Result of a device for this very bundle, by its record, as `edgepack verify --require-device` asks for it; nothing is run.

    ``device`` is an id of the record or a processor. Raises ``DeviceError`` if it did not pass there by the limits of ``target`` and
    ``min_cosine``, or if the record was neither written on this machine nor signed with ``key``, the file of a public key.
    """
    from edgepack import finished_bundle

    asked = _asked(target, min_cosine, most=max_unpacked, key=key)
    with _context() as context:
        return finished_bundle.check_device(Path(path), device, asked, record=_path(record), context=context)


def _asked(
    target: str | Path | None = None,
    min_cosine: float | None = None,
    *,
    model: str | Path | None = None,
    gate: GateLevel | None = None,
    key: str | Path | None = None,
    **others: Any,
) -> VerifyOptions:
    """How a bundle is verified: by the limits, and with the module, of a target that the caller names."""
    from edgepack.finished_bundle import VerifyOptions
    from edgepack.plugins.host import plugins_of_process
    from edgepack.signing.keys import load_public
    from edgepack.targets import read_limits
    from edgepack.verifier.facts import OWN_LIMITS

    read_limits(min_cosine=min_cosine, gate=gate)
    named = None if target is None else plugins_of_process().target(str(target))
    limits = None if named is None else named.model
    if min_cosine is not None:
        limits = replace(limits or OWN_LIMITS, min_cosine=min_cosine)
    return VerifyOptions(
        model=None if model is None else str(model),
        limits=limits,
        gate=gate,
        module=None if named is None else named.module,
        key=None if key is None else load_public(Path(key)),
        **others,
    )


def _path(named: str | Path | None) -> Path | None:
    return None if named is None else Path(named)


def check_signature(
    path: str | Path, *, key: str | Path, min_version: str | None = None, max_unpacked: int | None = None
) -> Signed:
    """Check that a bundle (folder or archive) is complete and signed with a public key, as `edgepack verify --signature-only` does.

    This runs nothing. Raises ``SignatureError`` if the bundle is not signed with the key or is older than ``min_version``, ``BundleError``
    if it is damaged.
    """
    from edgepack import finished_bundle

    asked = _asked(key=key, least_version=min_version, most=max_unpacked)
    with _context() as context:
        return finished_bundle.check_signature(Path(path), asked, context=context)


def sign(
    path: str | Path, *, key: str | Path, password: str | None = None, force: bool = False
) -> list[Path]:
    """Sign a bundle's folder and the archive beside it, or any file, as `edgepack sign` does; returns the files that it wrote."""
    from edgepack.project.state_file import signing
    from edgepack.signing.signatures import sign_path

    with _context() as context, signing(Path(path), context=context):
        return sign_path(Path(path), _private(key, password), force=force, context=context)


def _private(key: str | Path, password: str | None) -> PrivateKey:
    from edgepack.signing.keys import load_private

    return load_private(Path(key), password=password.encode() if password else None)


def report(
    path: str | Path,
    *,
    prices: str | Path | None = None,
    html: str | Path | None = None,
    bench: str | Path | None = None,
    key: str | Path | None = None,
) -> Report:
    """A bundle's size by part and encoding, and the cost of its downloads; also writes a page to ``html``.

    ``bench`` is a file that ``embed --bench --json`` wrote on a device; the page shows its figures. What was recorded of a bundle that
    was not made here is what its maker says (``said_by``), unless its report is signed with ``key``, the file of a public key; a bundle that is
    neither made here nor signed with it raises ``SignatureError``.
    """
    from edgepack.files.folder import PAGE, require_kind, require_outside
    from edgepack.recorded.measured_again import report_again
    from edgepack.signing.keys import load_public

    require_outside(_path(html), Path(path))
    require_kind(_path(html), PAGE)
    with _context() as context:
        public = None if key is None else load_public(Path(key))
        result = report_again(Path(path), prices=_path(prices), key=public, context=context)
        if html is not None:
            page = _page(Path(path), result, _path(bench), context)
    if html is not None:
        from edgepack.files.store import written_beside

        with written_beside(Path(html)) as temporary:
            temporary.write_text(page, encoding="utf-8")
    return result


def _page(path: Path, report: Report, bench: Path | None, context: HostContext) -> str:
    from edgepack.bundles.manifest import open_bundle
    from edgepack.reports.page.facts import facts_of
    from edgepack.reports.page.html import render_html
    from edgepack.suitability.measured import measured

    bundle = open_bundle(path)
    target = context.plugins().target_files.get(report.target)
    recipes = tuple(
        (each.recipe, each.download, each.mean_cosine)
        for each in (measured(target.file) if target else ())
        if each.model == bundle.manifest["model"]["name"]
    )
    return render_html(report, facts_of(bundle, report, bench=bench, recipes=recipes, context=context))


@contextmanager
def _context(*, offline: bool = False, progress: bool = False) -> Iterator[HostContext]:
    from edgepack.console import Story
    from edgepack.plugins.context import host_context
    from edgepack.plugins.host import plugins_of_process

    with host_context(story=Story(quiet=not progress), offline=offline, host=plugins_of_process()) as context:
        yield context


def _vectors(path: Path, texts: Sequence[str]) -> NDArray[float32]:
    import numpy

    from edgepack.bundles.manifest import open_bundle
    from edgepack.verifier.trusted_bundles import runner_for

    if isinstance(texts, str):
        raise TypeError("embed takes a list of texts, not one text: embed([text])")
    with _context() as context:
        bundle = open_bundle(path)
        rows = runner_for(bundle, context).embed(bundle, texts)
        # Of no text, too.
        return numpy.asarray(rows, dtype=numpy.float32).reshape(-1, bundle.manifest["model"]["dimension"])
