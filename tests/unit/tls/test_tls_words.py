"""What the environment says of TLS, whom a list of words allows, and why a handshake failed."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from zonequake_tls.certificate_check import ExaminingContext, IdentityRefused
from zonequake_tls.identity import allowed_by
from zonequake_tls.listener import reason_of
from zonequake_tls.settings import TlsSettings, TlsSettingsError, tls_from

DOMAIN = "zq.shop.zonequake.internal"
GOOD = {"ZQ_TLS_DIR": "/tls", "ZQ_TLS_DOMAIN": DOMAIN}


def test_without_a_folder_there_is_no_tls_and_with_one_everything_has_a_default() -> None:
    assert tls_from({"ZQ_TLS_DOMAIN": DOMAIN}) is None
    settings = tls_from(GOOD)
    assert settings == TlsSettings(
        directory=Path("/tls"), domain=DOMAIN, renew_s=300.0, clients=("load", "harness")
    )
    assert settings is not None
    assert settings.longest_s == 600.0


def test_an_empty_list_of_clients_lets_no_client_in() -> None:
    settings = tls_from({**GOOD, "ZQ_TLS_CLIENTS": ""})
    assert settings is not None
    assert allowed_by(settings.clients, DOMAIN) == frozenset()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ZQ_TLS_DOMAIN", ""),
        ("ZQ_TLS_DOMAIN", "zq"),
        ("ZQ_TLS_DOMAIN", "*.zonequake.internal"),
        ("ZQ_TLS_RENEW_SECONDS", "0"),
        ("ZQ_TLS_RENEW_SECONDS", "soon"),
        ("ZQ_TLS_CLIENTS", "load,*.shop"),
        ("ZQ_TLS_CLIENTS", "Load"),
    ],
)
def test_what_cant_be_meant_is_refused_by_its_name(variable: str, value: str) -> None:
    with pytest.raises(TlsSettingsError, match=variable):
        tls_from({**GOOD, variable: value})


def test_a_word_is_a_role_of_this_release_and_a_name_with_a_dot_is_itself() -> None:
    assert allowed_by(["load", "checkout.shop.svc"], DOMAIN) == {
        "load.zq.shop.zonequake.internal",
        "checkout.shop.svc",
    }


@pytest.mark.parametrize(
    "certificate",
    [
        None,
        {},
        {"subjectAltName": (("URI", f"store.{DOMAIN}"),)},
        {"subjectAltName": (("DNS", f"load.{DOMAIN}"), ("DNS", f"*.{DOMAIN}"))},
        {"subjectAltName": (("DNS", f"store.{DOMAIN}.example.com"),)},
        {"subject": ((("commonName", f"store.{DOMAIN}"),),)},
    ],
)
def test_no_client_is_let_in_but_by_the_very_name(certificate: dict[str, object] | None) -> None:
    context = ExaminingContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(IdentityRefused):
        context.examine(certificate)  # no client is allowed yet
    context.allowed = frozenset([f"store.{DOMAIN}"])
    with pytest.raises(IdentityRefused, match=rf"expected store\.{DOMAIN}"):
        context.examine(certificate)
    context.examine({"subjectAltName": (("DNS", "else.where"), ("DNS", f"store.{DOMAIN}"))})


def test_who_leaves_without_a_word_is_told_apart_from_who_may_not_come_in() -> None:
    assert reason_of(ConnectionResetError())[0] == "no-handshake"
    assert reason_of(IdentityRefused(1, "found x, expected y")) == (
        "identity",
        "its identity is not allowed: found x, expected y",
    )
