"""Authorization at a registry: what it asks for, Basic or a token of another server's (distribution-spec, token authentication)."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from edgepack.api import EdgepackError
from edgepack.fetch.http import is_loopback, leads_here
from edgepack.terminal_text import foreign
from edgepack_oci.content.documents import MOST
from edgepack_oci.places.credentials import Credentials

if TYPE_CHECKING:
    import httpx

LONGEST = 300.0
"""Seconds that a manifest or a token may take."""
PLAIN = {"Accept-Encoding": "identity"}
_BEARER, _BASIC = re.compile(r"\bBearer\s+(.*)", re.IGNORECASE), re.compile(r"\bBasic\b", re.IGNORECASE)
_PARAMETER = re.compile(r'\b(\w+)="([^"]*)"')


@dataclass(kw_only=True)
class Access:
    """The header that the last challenge led to. Mutable: tokens live for minutes, and are asked for again."""

    http: httpx.Client
    registry: str
    scopes: tuple[str, ...]
    """e.g. ``repository:team/embed:pull,push``"""
    credentials: Credentials | None
    error: type[EdgepackError]
    header: str = ""

    def meet(self, challenge: str) -> bool:
        """Do as a 401 demands; whether there is something new to try."""
        if bearer := _BEARER.search(challenge):
            parameters = dict(_PARAMETER.findall(bearer.group(1)))
            if "realm" in parameters:
                self.header = f"Bearer {self._token(parameters['realm'], parameters.get('service', ''))}"
                return True
        if _BASIC.search(challenge) and self.credentials and self.credentials.user:
            before, self.header = self.header, self.credentials.basic
            return self.header != before
        return False

    def refused(self) -> EdgepackError:
        """Error about a registry that does not let one in."""
        hint = f"log in: docker login {self.registry}, or podman login {self.registry}"
        if self.credentials is None:
            return self.error(
                f"{self.registry} requires a login, and there are no credentials for it", hint=hint
            )
        return self.error(
            f"{self.registry} does not accept the credentials of {self.credentials.source}", hint=hint
        )

    def _token(self, realm: str, service: str) -> str:
        """Only the realm gets the password, and only over TLS or on this machine, as the client sees to."""
        self.require_elsewhere(realm, why="for a token")
        asked = {"service": service, "scope": " ".join(self.scopes)}
        if self.credentials and self.credentials.refresh_token:
            form = {
                "grant_type": "refresh_token",
                "refresh_token": self.credentials.refresh_token,
                "client_id": "edgepack",
            }
            request = self.http.build_request("POST", realm, data={**asked, **form}, headers=PLAIN)
        else:
            headers = {"Authorization": self.credentials.basic} if self.credentials else {}
            said = {"service": [service], "scope": list(self.scopes)}
            request = self.http.build_request("GET", realm, params=said, headers={**PLAIN, **headers})
        answer = self.http.send(request, stream=True, follow_redirects=False)
        content = read_answer(answer, who=answer.url.host, error=self.error)
        if answer.status_code in (400, 401, 403):
            raise self.refused()
        try:
            said = json.loads(content) if answer.is_success else {}
            token = said.get("token") or said.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            token = None
        if not isinstance(token, str) or not (token.isascii() and token.isprintable()):
            raise self.error(
                f"{self.registry} sends to {answer.url.host} for a token, which gives none: {answer.status_code}",
                hint="try again later; or that server wants another way of logging in",
            )
        return token

    def require_elsewhere(self, address: str, *, why: str) -> None:
        """A registry elsewhere has no business with the services of this machine. Raises ``error``."""
        try:
            host = urlsplit(address).hostname or ""
        except ValueError:
            host = ""
        if not host or (leads_here(host) and not is_loopback(_host_of(self.registry))):
            raise self.error(
                f"{self.registry} sends to {foreign(address[:200])} {why}",
                hint="no other machine may ask for services of this one; check the registry's name",
            )


def _host_of(registry: str) -> str:
    return urlsplit(f"//{registry}").hostname or ""


def read_answer(answer: httpx.Response, *, who: str, error: type[EdgepackError]) -> bytes:
    """A short answer as it is sent, at most ``MOST`` bytes within ``LONGEST`` seconds: decoded, a few bytes could be many."""
    body, began = bytearray(), time.monotonic()
    try:
        for chunk in answer.iter_raw():
            body += chunk
            if len(body) > MOST:
                raise error(
                    f"the answer of {who} is larger than {MOST} bytes",
                    hint="no manifest or token is as large",
                )
            if time.monotonic() - began > LONGEST:
                raise error(f"the answer of {who} takes longer than {LONGEST:.0f} s", hint="try again later")
    finally:
        answer.close()
    return bytes(body)
