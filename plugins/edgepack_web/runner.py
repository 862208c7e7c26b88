"""The runner of a web bundle: the folder, and the program by which the host runs it in Node."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack import api
from edgepack.api import BuildContext, ModelSource, PreparedModel, RunnerArtifact, RuntimeArtifact
from edgepack_web.node import NODE_PROGRAM, require_same_tokens, write_node_program
from edgepack_web.npm.node import has_node
from edgepack_web.packages import TOKENIZERS_VERSION, tokenizers_library
from edgepack_web.page import Folder, OwnEngine, write_page
from edgepack_web.webgpu import OnGpu


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Options of the folder, whatever computes in it."""

    asset_cap: int
    copies: bool = True


def make_page(
    model: PreparedModel,
    *,
    runtimes: Sequence[tuple[str, RuntimeArtifact]] = (),
    engine: OwnEngine | None = None,
    gpu: OnGpu | None = None,
    licenses: Sequence[Path] = (),
    options: PageOptions,
    outputs: tuple[str, ...] = (),
    exact: str = "",
    context: BuildContext,
) -> RunnerArtifact:
    """Raises ``TargetError`` for a file that is too large, and ``ProofError`` for a tokenizer that differs. The rest as ``write_page`` has it."""
    tables = api.tokenizer_tables(model.source)
    library = tokenizers_library(context) if tables.wordpiece is None and tables.unigram is None else None
    root = context.work_dir / "web"
    root.mkdir()
    folder = Folder(root=root, cap=options.asset_cap)
    placement = write_page(
        folder,
        model=model,
        runtimes=runtimes,
        engine=engine,
        tables=tables,
        library=library,
        gpu=gpu,
        copies=options.copies,
        context=context,
    )
    write_node_program(root)
    _compare_tokens(root, model.source, context)
    return RunnerArtifact(
        directory=root,
        program="embed.mjs",
        kind="web",
        versions={"@huggingface/tokenizers": TOKENIZERS_VERSION} if library else {},
        licenses=(*licenses, *_license_of(library, context)),
        parts=folder.parts,
        placement=placement,
        outputs=outputs,
        exact=exact,
        command=("node", NODE_PROGRAM),
    )


def _license_of(tokenizers: Path | None, context: BuildContext) -> tuple[Path, ...]:
    if tokenizers is None:
        return ()
    # Named after its file in a bundle: the package's own name has a slash.
    text = context.work_dir / f"huggingface-tokenizers-{TOKENIZERS_VERSION}.txt"
    return (Path(shutil.copyfile(tokenizers / "LICENSE", text)),)


def _compare_tokens(root: Path, source: ModelSource, context: BuildContext) -> None:
    if not has_node():
        context.note("tokenizer not compared: no Node")
        return
    compared = require_same_tokens(root, source, context=context)
    context.note(f"tokenizer identical on {compared:,} texts")
