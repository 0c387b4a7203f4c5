"""Throw-away identities for loopback: an authority, certificates of server and clients, kubeconfig files."""

import base64
import datetime
import ipaddress
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIVES = datetime.timedelta(days=365)
# Clocks differ: a certificate is valid from a little before it was made.
SKEW = datetime.timedelta(hours=1)
LOOPBACK = "127.0.0.1"
# What cluster, user and context are called in a kubeconfig.
NAME = "muster-embedded"


class Pair(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for one embedded server; its key is in memory only."""

    def __init__(self, now: datetime.datetime) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("muster-embedded")
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = self._builder(self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = made.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self) -> Pair:
        """A certificate for loopback."""
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK)), x509.DNSName("localhost")])
        return self._issue(
            _name("muster-embedded-server"),
            lambda made: made.add_extension(names, critical=False).add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
            ),
        )

    def client(self, user: str) -> Pair:
        """A certificate by which the server knows a user."""
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._issue(_name(user), lambda made: made.add_extension(usage, critical=False))

    def _issue(self, name: x509.Name, extend: Callable[[x509.CertificateBuilder], x509.CertificateBuilder]) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        made = extend(self._builder(name, key.public_key()))
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        certificate = made.sign(self._key, hashes.SHA256())
        return Pair(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - SKEW)
            .not_valid_after(self._now + LIVES)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def kubeconfig(url: str, authority: bytes, user: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    """A kubeconfig with one context; everything is in it, it needs no other file."""
    coded = base64.b64encode(authority).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": {"server": url, "certificate-authority-data": coded}}],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
    }


def certified(pair: Pair) -> dict[str, Any]:
    """The user entry of a client certificate."""
    coded = [base64.b64encode(part).decode() for part in pair]
    return {"client-certificate-data": coded[0], "client-key-data": coded[1]}


def write(path: Path, config: dict[str, Any]) -> Path:
    """Write a kubeconfig that only its owner may read."""
    # JSON is YAML; every reader of kubeconfigs takes it.
    text = json.dumps(config, indent=1) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    path.chmod(0o600)
    return path
