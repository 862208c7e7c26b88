"""in-toto's own library, on what is said of a bundle's making."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from tests.unit.bundles.test_provenance import ARCHIVE, Make

from edgepack.bundles.provenance import BUILD_TYPE, BUILDER, dependencies_of, statement
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.records.runtime import RuntimeArtifact, SourceFile
from edgepack.records.target import Target

pytestmark = pytest.mark.tools("gcc")


@pytest.fixture
def made(
    bundle: Bundle, target: Target, source: ModelSource, runtime: RuntimeArtifact, tmp_path: Path
) -> Make:
    (tmp_path / ARCHIVE).write_bytes(b"packed")
    eigen = SourceFile(component="eigen", version="5.0.1", file="eigen.tar.bz2", sha256="1" * 64)

    def make(*settings: str) -> dict[str, Any]:
        return statement(
            bundle,
            replace(target, settings=settings),
            subjects={ARCHIVE: tmp_path / ARCHIVE},
            dependencies=dependencies_of(source, replace(runtime, source_files=(eigen,))),
        )

    return make


def test_in_toto_s_own_library_finds_it_valid(made: Make) -> None:
    said = made()
    Statement.copy_from_pb(json_format.ParseDict(said, statement_pb2.Statement())).validate()
    predicate = json_format.ParseDict(said["predicate"], provenance_pb2.Provenance())
    assert predicate.build_definition.build_type == BUILD_TYPE
    assert predicate.run_details.builder.id == BUILDER
    # The judges can say no.
    with pytest.raises(json_format.ParseError):
        json_format.ParseDict({**said["predicate"], "colour": "red"}, provenance_pb2.Provenance())
