"""edgepack from Python: what the commands do, as functions that return what the commands print.

Importing this is light; what a function needs is imported when it is called. Whatever goes wrong is an
``edgepack.errors.EdgepackError``, with ``message``, ``hint`` and the command's ``exit_code``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepack.records.target import UNSAID, GateLevel, Reading

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from edgepack.models.inspection import ModelInspection
    from edgepack.plugins.context import HostContext
    from edgepack.project.build import Result
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
    """Its other forms, as ``packages`` asked for them."""
    manifest: Mapping[str, Any]
    report: Report

    @property
    def verification(self) -> Verification:
        """How near its vectors are to the full-precision model's."""
        return self.report.verification

    def embed(self, texts: Sequence[str]) -> NDArray[float32]:
        """Its program's vectors, float32 [len(texts), dimension]; raises ``CannotRunHere`` for another machine's bundle."""
        return _vectors(self.path, texts)


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """A model by a recipe, in a folder that every function takes as a model."""

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
    """Measured with the stock ONNX Runtime package; held to no limit."""


def bundle(
    model: str | Path | None = None,
    *,
    target: str | Path | None = None,
    output: str | Path = "dist",
    recipe: str | None = None,
    gate: GateLevel | None = None,
    settings: Mapping[str, Any] | None = None,
    packages: Sequence[str] = (),
    reading: Reading = UNSAID,
    prices: str | Path | None = None,
    key: str | Path | None = None,
    password: str | None = None,
    force: bool = False,
    offline: bool = False,
    progress: bool = False,
) -> Bundle:
    """Make a self-contained bundle, verify and measure it, as `edgepack bundle` does.

    ``model`` is what ``--model`` takes; ``None``: the catalogue's default. ``target`` is a name or a .toml file, ``None``: the
    smallest for this machine; ``settings`` change its keys: ``{"model.min_cosine": 0.99, "runtime": "full"}``. ``packages`` are forms beside the archive.
    ``key`` is a private key's file, and ``password`` its own: the bundle, its archive and its packages are signed with it.
    ``progress`` tells the story on stderr. The bundle is in ``output`` when all went well, or nothing is.
    """
    from edgepack import pipeline
    from edgepack.plugins.host import load_plugins
    from edgepack.targets import target_of_this_machine, with_reading

    host = load_plugins()
    said = {"model.recipe": recipe, "model.gate": gate, "package.formats": list(packages) or None}
    wanted = {**(settings or {}), **{key: value for key, value in said.items() if value is not None}}
    overrides = [f"{key}={json.dumps(value)}" for key, value in wanted.items()]
    with _context(offline=offline, progress=progress) as context:
        outcome = pipeline.build(
            with_reading(host.target(str(target or target_of_this_machine()), overrides), reading),
            model=None if model is None else str(model),
            output=Path(output),
            force=force,
            prices=None if prices is None else Path(prices),
            key=None if key is None else _private(key, password),
            host=host,
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
    dry_run: bool = False,
    force: bool = False,
    offline: bool = False,
    progress: bool = False,
) -> list[Result]:
    """Make of a project's bundles those whose inputs changed, as `edgepack build` does; one that fails stops no other.

    ``project`` is its file; ``None``: that of the current folder. ``only`` names models, targets or ``MODEL:TARGET``.
    """
    from edgepack.plugins.host import load_plugins
    from edgepack.project.build import build_cells, cells_of
    from edgepack.project.file import find_project

    cells = cells_of(find_project(None if project is None else Path(project)), only)
    with _context(offline=offline, progress=progress) as context:
        return list(build_cells(cells, host=load_plugins(), context=context, force=force, dry_run=dry_run))


def inspect(
    model: str | Path | None = None,
    *,
    reading: Reading = UNSAID,
    offline: bool = False,
    progress: bool = False,
) -> ModelInspection:
    """What a model is made of, how it is read, and which recipe fits it, as `edgepack inspect` says."""
    from edgepack.models.find.source import ingest
    from edgepack.models.inspection import inspect_model

    with _context(offline=offline, progress=progress) as context:
        source = ingest(None if model is None else str(model), reading=reading, context=context)
        return inspect_model(source, context=context)


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
    """A model by a recipe, with its tokenizer in a folder, and how near its vectors are, as `edgepack quantize` does."""
    from edgepack.bundles.place import require_free, require_writable
    from edgepack.models.find.source import ingest
    from edgepack.models.reference import embed_with_onnxruntime
    from edgepack.operators.config import required
    from edgepack.recipes.model_files import MADE_HERE, quantize_model
    from edgepack.recipes.registry import passes_of
    from edgepack.records.target import ModelOptions, Platform
    from edgepack.verifier.gate import verification_texts
    from edgepack.verifier.quality import measure_quality

    texts = None if calibration is None else Path(calibration)
    options = ModelOptions(recipe=recipe, format=format, calibration=texts)
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
    max_unpacked: int | None = None,
    key: str | Path | None = None,
    write_vectors: str | Path | None = None,
    other_vectors: str | Path | None = None,
    offline: bool = False,
    progress: bool = False,
) -> Verification:
    """Check a bundle's files, run it and compare its vectors, as `edgepack verify` does; ``status`` says what came of it.

    A bundle from elsewhere is run with ``run`` alone, and held to the limits of ``target`` and ``min_cosine``, or
    edgepack's own; an archive may unpack to ``max_unpacked`` bytes. With ``key``, the file of a public key, it has to be signed
    with that key, or ``SignatureError`` is raised. ``write_vectors`` and ``other_vectors`` are .npy files with
    the vectors of the 200 texts, for another machine and of another one. Raises ``VerificationError`` for one that fails, ``BundleError`` for one that is damaged.
    """
    from edgepack import verification
    from edgepack.plugins.host import load_plugins
    from edgepack.signing.keys import load_public

    limits = None if target is None else load_plugins().target(str(target)).model
    if min_cosine is not None:
        limits = replace(limits or verification.OWN_LIMITS, min_cosine=min_cosine)
    with _context(offline=offline, progress=progress) as context:
        return verification.verify_again(
            Path(path),
            model=None if model is None else str(model),
            reading=reading,
            limits=limits,
            gate=gate,
            write_vectors=None if write_vectors is None else Path(write_vectors),
            others=None if other_vectors is None else Path(other_vectors),
            run=run,
            most=max_unpacked,
            key=None if key is None else load_public(Path(key)),
            context=context,
        )


def check_signature(path: str | Path, *, key: str | Path, max_unpacked: int | None = None) -> Signed:
    """Whether a bundle, folder or archive, is whole and signed with a public key, as `edgepack verify --signature-only` says.

    Nothing of it is run. Raises ``SignatureError`` where it is not signed so, ``BundleError`` where it is damaged.
    """
    from edgepack import verification
    from edgepack.signing.keys import load_public

    with _context() as context:
        return verification.check_signature(
            Path(path), load_public(Path(key)), most=max_unpacked, context=context
        )


def sign(
    path: str | Path, *, key: str | Path, password: str | None = None, force: bool = False
) -> list[Path]:
    """Sign a bundle's folder and the archive beside it, or any file, as `edgepack sign` does; what was written."""
    from edgepack.signing.signatures import sign_path

    with _context() as context:
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
) -> Report:
    """A bundle's size by part and encoding, and what its downloads cost; ``html`` is written as a page, too.

    ``bench`` is what ``embed --bench --json`` wrote on a device: the page shows it.
    """
    from edgepack import verification

    with _context() as context:
        table = None if prices is None else Path(prices)
        result = verification.report_again(Path(path), prices=table, context=context)
        if html is not None:
            page = _page(Path(path), result, None if bench is None else Path(bench), context)
    if html is not None:
        from edgepack.files.store import written_beside

        with written_beside(Path(html)) as temporary:
            temporary.write_text(page, encoding="utf-8")
    return result


def _page(path: Path, report: Report, bench: Path | None, context: HostContext) -> str:
    from edgepack.bundles.manifest import open_bundle
    from edgepack.reports.page.facts import facts_of
    from edgepack.reports.page.html import render_html

    return render_html(report, facts_of(open_bundle(path), report, bench=bench, context=context))


@contextmanager
def _context(*, offline: bool = False, progress: bool = False) -> Iterator[HostContext]:
    from edgepack.console import Story
    from edgepack.plugins.context import host_context

    with host_context(story=Story(quiet=not progress), offline=offline) as context:
        yield context


def _vectors(path: Path, texts: Sequence[str]) -> NDArray[float32]:
    import numpy

    from edgepack.bundles.manifest import open_bundle
    from edgepack.verifier.run import BundleRunner

    if isinstance(texts, str):
        raise TypeError("embed takes a list of texts, not one text: embed([text])")
    with _context() as context:
        return numpy.asarray(
            BundleRunner(context=context).embed(open_bundle(path), texts), dtype=numpy.float32
        )
