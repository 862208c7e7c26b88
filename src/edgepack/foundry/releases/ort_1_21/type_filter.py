"""Which types the operators of a runtime need, by upstream's rules."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from edgepack.foundry.patch import RuntimeRequest
from edgepack.operators.config import types_by_operator
from edgepack.operators.types import upstream, usage_manager
from edgepack.records.operators import Operators


class TypeFilter(Protocol):
    """Upstream's knowledge of operators' types (onnxruntime.tools.ort_format_model)."""

    def is_typed_registration_needed(self, domain: str, optype: str, type_registration_str: str) -> bool: ...

    def get_cpp_entries(self) -> list[str]: ...


def filter_for(request: RuntimeRequest, operators: Operators) -> TypeFilter | None:
    """The filter for a runtime's own operators, or those and others that optimizers may add."""
    return type_filter(operators, exact=request.kind == "minimal")


@lru_cache(maxsize=4)
def type_filter(needs: Operators, *, exact: bool = True) -> TypeFilter | None:
    """Which types each operator needs; nothing when none is restricted. ``exact``: see ``usage_manager``.

    Upstream's manager forgets an operator's earlier types when it is told of the operator again (#16742): it is
    told of each operator once, with the types of all versions together.
    """
    if needs.globally_allowed_types:
        globally: TypeFilter = upstream(
            "operator_type_usage_processors"
        ).GloballyAllowedTypesOpTypeImplFilter(set(needs.globally_allowed_types))
        return globally
    restricted = {operator: types for operator, types in types_by_operator(needs).items() if types}
    if not restricted:
        return None
    manager = usage_manager(exact=exact)
    for (domain, name), types in restricted.items():
        manager.restore_from_config_entry(domain, name, types)
    return _Restricted(inner=manager.make_op_type_impl_filter(), restricted=frozenset(restricted))


@dataclass(frozen=True, kw_only=True)
class _Restricted:
    """Upstream's filter, for the operators that are restricted; the others keep all their types."""

    inner: TypeFilter
    restricted: frozenset[tuple[str, str]]

    def is_typed_registration_needed(self, domain: str, optype: str, type_registration_str: str) -> bool:
        if (domain, optype) not in self.restricted:
            return True
        return self.inner.is_typed_registration_needed(domain, optype, type_registration_str)

    def get_cpp_entries(self) -> list[str]:
        return self.inner.get_cpp_entries()
