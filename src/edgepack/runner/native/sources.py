"""The C++ sources of the native program, as they are compiled: those that come with edgepack, and what is generated.

Folders of ``csrc``: ``base``, ``tokenizer``, ``ort`` (the runtime) and ``embedder`` are in everything that embeds; ``program``
is the command line, ``serve`` its server with ``llhttp`` (Node.js' parser of HTTP, as it was released), ``libembed``, ``libtokens`` and ``libsignature`` are what is offered as a library. Includes name their folder.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from edgepack.foundry.link.program import LANGUAGES
from edgepack.runner.frozen.program.options import parser
from edgepack.runner.frozen.search.options import parser as search_parser
from edgepack.runner.frozen.serve.options import parser as serve_parser

LOADED = "ort/ort_loaded.cc"
"""For a runtime in a shared library of its own."""
LINKED = "ort/ort_linked.cc"
"""For a runtime in the same file."""
EXPORTS = (
    *("embed_close", "embed_dimension", "embed_free_rows", "embed_label", "embed_open"),
    *("embed_outputs", "embed_scores", "embed_texts"),
)
"""What embed.h declares."""
TOKENIZER_EXPORTS = ("tokens_encode", "tokens_encode_pair", "tokens_facts", "tokens_open")
"""What tokens_library.cc offers."""
SIGNATURE_EXPORTS = ("signature_check",)
"""What signature_library.cc offers."""
UNSIGNED, CHECKED, CHECKED_HEADER = "signature/unsigned.cc", "signature/signature.cc", "signature/signature.h"
"""For a program that checks no signatures, and for one that does."""
EMBEDS, SCORING_HEADER = "scoring/embeds.cc", "scoring/scoring.h"
"""For a program whose model makes embeddings."""
HEAD, HEAD_HEADER = "scoring/head.cc", "scoring/head.h"
"""The last layer of a reranker or a classifier."""
VECTORS_ONLY, SCORES = "libembed/vectors_only.cc", "libembed/scores.cc"
"""For libembed of an embedding model, and of a reranker or a classifier."""
PAIRS = ("tokenizer/pair.cc", "embedder/pairs.cc")
"""For a program whose model takes pairs of texts."""
OUTPUTS = ("outputs/given.h", "outputs/given.cc", "outputs/session_tokens.cc")
"""For a model that gives more than one vector a text."""
GIVES, GIVES_HEADER, GIVES_NONE = "outputs/give.cc", "outputs/give.h", "outputs/gives_none.cc"
NPZ = ("outputs/npz.h", "outputs/npz.cc")
"""For the program of such a model, and of others."""
LIBRARY_OUTPUTS, NO_LIBRARY_OUTPUTS = "outputs/library.cc", "outputs/no_library.cc"
"""The same for libembed."""
SERVER_HEADER, NO_SERVER_SOURCE = "serve/server.h", "serve/no_server.cc"
"""For a program without a server; one with it has the rest of their folder, and ``llhttp``."""
RANKED, NOT_RANKED = "serve/scores.cc", "serve/no_scores.cc"
"""For the server of a reranker, and of other models."""
LLHTTP = "llhttp/llhttp.c"
HEADERS = (".h", ".hh", ".hpp", ".inc")
"""What is taken of others' folders with headers."""
NO_SERVER = 'This program was built without a server: it has no "embed serve".\n'


def source_files(*folders: str) -> dict[str, str]:
    """Place below ``csrc`` → text of the sources and headers in these folders."""
    csrc = files("edgepack.runner.native") / "csrc"
    found = {
        f"{folder.name}/{file.name}": file.read_text(encoding="utf-8")
        for folder in csrc.iterdir()
        if folder.name in folders
        for file in folder.iterdir()
        if file.name.endswith((".h", *LANGUAGES))
    }
    return dict(sorted(found.items()))


@dataclass(frozen=True, kw_only=True)
class Signatures:
    """What a program makes of signatures."""

    checked: bool = False
    """Whether it can check them at all."""
    key: str = ""
    """A public key in PEM, which every bundle has to be signed with; empty: where the user asks for it."""

    def sources(self) -> dict[str, str]:
        """Place below ``csrc`` → text."""
        found = source_files("signature")
        if not (self.checked or self.key):
            return {name: found[name] for name in (UNSIGNED, CHECKED_HEADER)}
        del found[UNSIGNED]
        literal = json.dumps(self.key) if self.key else "nullptr"
        text = f'#include "signature/signature.h"\nnamespace embed {{\nconst char *const BUILT_FOR = {literal};\n}}\n'
        return {**found, "signature/built_for.cc": text}


NONE = Signatures()


def scoring_sources(scored: bool) -> dict[str, str]:
    """What ranks and classifies, or says that the model does not; place below ``csrc`` → text."""
    found = source_files("scoring")
    if not scored:
        return {name: found[name] for name in (EMBEDS, SCORING_HEADER)}
    del found[EMBEDS]
    return {**found, **_pair_sources()}


def _pair_sources() -> dict[str, str]:
    found = source_files("tokenizer", "embedder")
    return {name: found[name] for name in PAIRS}


def output_sources(given: bool) -> dict[str, str]:
    """What gives sparse vectors and vectors of tokens, or says that the model does not; place below ``csrc`` → text."""
    found = source_files("outputs")
    names = (*OUTPUTS, *NPZ, GIVES, GIVES_HEADER) if given else (GIVES_NONE, GIVES_HEADER)
    return {name: found[name] for name in names}


def server_sources(served: bool, *, scored: bool) -> dict[str, str]:
    """``embed serve``, or what says that there is none; place below ``csrc`` → text."""
    found = source_files("serve")
    if not served:
        return {name: found[name] for name in (NO_SERVER_SOURCE, SERVER_HEADER)}
    del found[NO_SERVER_SOURCE], found[NOT_RANKED if scored else RANKED]
    text = serve_parser("embed serve").format_help()
    return {**found, **source_files("llhttp"), "serve/help.h": constants({"SERVE_HELP": text})}


def embedding_sources(*folders: str, linked: bool, signatures: Signatures = NONE) -> dict[str, str]:
    """What embeds, with the runtime linked in or loading the library that the manifest names, and ``folders``."""
    found = _without_pairs("base", "tokenizer", "ort", "embedder", *folders) | signatures.sources()
    del found[LOADED if linked else LINKED]
    return found


def _without_pairs(*folders: str) -> dict[str, str]:
    return {name: text for name, text in source_files(*folders).items() if name not in PAIRS}


def program_sources(
    *,
    linked: bool = True,
    signatures: Signatures = NONE,
    scored: bool = False,
    given: bool = False,
    served: bool = False,
) -> dict[str, str]:
    """The program ``embed``; ``scored``: for a reranker or a classifier, ``given``: for a model of several outputs, ``served``:
    with its server.
    """
    sources = embedding_sources("program", linked=linked, signatures=signatures)
    sources |= scoring_sources(scored) | output_sources(given) | server_sources(served, scored=scored)
    return {**sources, "program/help.h": help_header(served)}


def program_with_encoder(
    encoder: Mapping[str, str], includes: Sequence[Path] = (), *, served: bool = False
) -> dict[str, str]:
    """The program ``embed`` with another encoder than ONNX Runtime: its sources take the place of the folder ``ort``.

    Their ``session.h`` declares what edgepack's own does: ``Batch``, and a ``Session`` with its constants, ``open`` and ``run``.
    The headers of ``includes`` lie in ``include``; of two with the same place the first is taken.
    """
    found = _without_pairs("base", "tokenizer", "embedder", "program") | NONE.sources()
    found |= scoring_sources(False) | output_sources(False) | server_sources(served, scored=False)
    own = {f"ort/{name}": text for name, text in encoder.items()}
    headers = {
        f"include/{path.relative_to(folder).as_posix()}": path.read_text(encoding="utf-8", errors="replace")
        for folder in reversed(includes)
        for path in sorted(folder.rglob("*"))
        if path.suffix in HEADERS and path.is_file()
    }
    return {**found, **headers, **own, "program/help.h": help_header(served)}


def library_sources(
    *, linked: bool = True, key: str = "", scored: bool = False, given: bool = False
) -> dict[str, str]:
    """libembed, which can check signatures; ``scored``: for a reranker or a classifier, ``given``: for a model of several outputs."""
    found = embedding_sources("libembed", linked=linked, signatures=Signatures(checked=True, key=key))
    del found[VECTORS_ONLY if scored else SCORES]
    outputs, head = source_files("outputs"), source_files("scoring")
    names = (*OUTPUTS, LIBRARY_OUTPUTS) if given else (NO_LIBRARY_OUTPUTS,)
    found |= {name: outputs[name] for name in names}
    if not scored:
        return {**found, HEAD_HEADER: head[HEAD_HEADER]}
    return {**found, HEAD: head[HEAD], HEAD_HEADER: head[HEAD_HEADER], **_pair_sources()}


def tokens_library_sources() -> dict[str, str]:
    """libtokens, the tokenizer as a library for the program in Python."""
    found = source_files("base", "tokenizer", "libtokens")
    return {name: text for name, text in found.items() if not name.startswith("base/") or name.endswith(".h")}


def signature_library_sources() -> dict[str, str]:
    """libsignature, the check of signatures as a library for the program in Python."""
    found = source_files("base", "signature", "libsignature")
    for name in (UNSIGNED, CHECKED, CHECKED_HEADER):
        del found[name]
    return found


def help_header(served: bool) -> str:
    """The frozen program's own help, so that there is one command line and one text about it."""
    return constants(
        {"HELP": native_help(served), "SEARCH_HELP": search_parser("embed search").format_help()}
    )


def constants(texts: Mapping[str, str]) -> str:
    """A header with these texts by their names."""
    lines = "".join(
        f"inline constexpr const char *{name} =\n{literal(text)};\n" for name, text in texts.items()
    )
    return f"// Generated.\nnamespace embed {{\n{lines}}}\n"


def literal(text: str) -> str:
    """A string of C++; a compiler need not take one of more than 64 kB, and takes adjacent ones as one."""
    return "\n".join(json.dumps(line, ensure_ascii=True) for line in text.splitlines(keepends=True))


def native_help(served: bool) -> str:
    """The frozen program's help; without its server, where the native program has none."""
    text = parser("embed").format_help()
    if served:
        return text
    shown = (line for line in text.splitlines(keepends=True) if "server" not in line)
    return "".join(NO_SERVER if '"embed serve" answers' in line else line for line in shown)
