"""Signatures of bundles, in the form of OpenSSF model-signing and of cosign."""
