"""ONNX Runtime's threads sleep while they have nothing to do: by themselves they wait busily, each on a core that other tests need."""

from typing import Any

import onnxruntime


def let_threads_rest() -> None:
    """Of every session that this process makes from now on; what they compute is the same."""
    make = onnxruntime.InferenceSession.__init__

    def make_resting(self: Any, model: Any, sess_options: Any = None, *given: Any, **named: Any) -> None:
        options = sess_options or onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        make(self, model, options, *given, **named)

    onnxruntime.InferenceSession.__init__ = make_resting
