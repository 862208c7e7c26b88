"""Stores that many machines share, wherever fsspec reaches: a folder, S3 and its like, HTTP."""

from edgepack.api import Spec, hookimpl, lazy

SCHEMES = {
    "file": "a folder that all machines mount",
    "s3": "S3, and servers that answer like it",
    "gs": "Google Cloud Storage",
    "abfs": "Azure Blob Storage",
    "https": "a server that takes PUT, or one to read from only",
    "http": "the same without encryption",
    "sftp": "a folder over SSH",
    "memory": "this process alone, for tests",
}


@hookimpl
def edgepack_specs() -> list[Spec]:
    return [
        Spec(axis="store", name=scheme, summary=summary, make=lazy("edgepack_fsspec.blobs:opener"))
        for scheme, summary in SCHEMES.items()
    ]
