"""A bundle's model, loaded: on the GPU that the bundle was made for, or on the processor where that is allowed aloud."""

from __future__ import annotations

from ..base.errors import DeviceError, EmbedError, RuntimeFailure
from ..base.load_errors import TRY_SELF_TEST, why_not_loaded
from ..base.streams import say
from .ort import OrtError, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..base.bundle import Bundle
    from ..gpu.provider import Provider

CPU = "CPUExecutionProvider"


class LoadedModel:
    """A session, and what runs it. Raises ``DeviceError`` or ``RuntimeFailure``.

    ``provider`` is the name of the execution provider that really runs, ``nodes`` says how many nodes each one has where
    more than the processor was asked for, ``device`` which GPU it is, ``instead`` why it is not the one that the bundle
    is for, ``cache`` where the provider keeps what it made.
    """

    def __init__(self, bundle: Bundle, threads: int, *, allow_cpu: bool = False) -> None:
        self._bundle, self._threads = bundle, threads
        self.provider, self.device, self.instead = CPU, "", ""
        self.nodes: dict[str, int] = {}
        self.batch_size: int | None = None
        self.largest_batch = 0
        self.cache: list[str] = []
        # What older bundles and those for processors do not have; the module is not even imported for them.
        said = bundle.value("runtime").get("provider")
        if not said:
            self.session = self._opened(None)
            return
        from ..gpu.provider import Provider

        wanted = Provider(bundle, said)
        try:
            self.session = self._on_device(wanted)
        except DeviceError as error:
            if not allow_cpu:
                raise
            self.instead = error.message
            say(f"warning: {error.message}; computing on the processor\n")
            self.session = self._opened(None)

    def _on_device(self, wanted: Provider) -> Session:
        from ..gpu.provider import assignment

        wanted.require()
        session = self._opened(wanted)
        self.nodes = session.ask(assignment)
        if not self.nodes.get(wanted.name):
            session.close()
            raise DeviceError(
                f"ONNX Runtime gave {wanted.name} not one node of the model", "please report it with --info"
            )
        self.provider, self.device, self.batch_size = wanted.name, wanted.device, wanted.batch_size
        self.largest_batch, self.cache = wanted.largest_batch, wanted.cache
        return session

    def _opened(self, provider: Provider | None) -> Session:
        bundle = self._bundle
        model = bundle.model if provider else bundle.cpu_model
        try:
            return Session(bundle.library, model, self._threads, provider)
        except OrtError as error:
            if provider:
                raise self._of_device(error) from error
            raise RuntimeFailure(*why_not_loaded(bundle.library, str(error))) from error

    def _of_device(self, error: OrtError) -> EmbedError:
        from ..gpu.provider import why_not_run

        return DeviceError(
            *(why_not_run(str(error)) or (f"the GPU does not run the model: {error}", TRY_SELF_TEST))
        )

    def failure(self, error: OrtError) -> EmbedError:
        """What to say when a run failed."""
        if self.provider != CPU:
            return self._of_device(error)
        return RuntimeFailure(f"the model does not run: {error}", TRY_SELF_TEST)

    def about(self) -> dict[str, object]:
        """Which provider really runs; empty for bundles that are for the processor alone."""
        if not (self.nodes or self.instead):
            return {}
        said: dict[str, object] = {"provider": self.provider}
        if self.device:
            said |= {"device": self.device, "nodes": dict(sorted(self.nodes.items()))}
        return said | ({"instead": self.instead} if self.instead else {})

    def at_start(self) -> str:
        """A line that says what computes, where a GPU does; that it is the processor instead was said before.

        E.g. ``computing on CUDAExecutionProvider (NVIDIA A10, compute capability 8.6), 61 of 61 nodes``.
        """
        if not self.nodes:
            return ""
        count, all_of_them = self.nodes[self.provider], sum(self.nodes.values())
        return f"computing on {self.provider} ({self.device}), {count} of {all_of_them} nodes\n"
