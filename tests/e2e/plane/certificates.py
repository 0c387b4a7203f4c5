"""Throw-away certificates: one authority, a certificate for the servers, one per user, the key of service accounts."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIVES = datetime.timedelta(days=7)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def _name(common_name: str, groups: tuple[str, ...] = ()) -> x509.Name:
    """A user's name is the common name and its groups are organizations: so Kubernetes reads client certificates."""
    parts = [(NameOID.COMMON_NAME, common_name), *((NameOID.ORGANIZATION_NAME, group) for group in groups)]
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


def write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A new private key, in a file that only its owner reads."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return key


def write_public_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """The half that checks signatures."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))


class Authority:
    """Signs certificates; `ca.crt` and what it signs lie in one folder as NAME.crt and NAME.key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = folder / "ca.crt"
        self._name = _name("muster-e2e")
        self._key = write_key(folder / "ca.key")
        usage = x509.KeyUsage(True, False, True, False, False, True, True, False, False)
        self._sign(self.ca, self._name, self._key, x509.BasicConstraints(ca=True, path_length=None), usage)

    def server(self, file: str) -> tuple[Path, Path]:
        """A certificate for a server on loopback, and its key."""
        addresses = [x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", "::1", "10.0.0.1")]
        names = x509.SubjectAlternativeName([*(x509.DNSName(name) for name in SERVER_NAMES), *addresses])
        return self._issue(file, _name(file), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, file: str, user: str, groups: tuple[str, ...] = ()) -> tuple[Path, Path]:
        """A certificate that proves who a user is, and its key."""
        return self._issue(file, _name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, file: str, subject: x509.Name, use: x509.ObjectIdentifier, *more: x509.ExtensionType
    ) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{file}.crt", self.folder / f"{file}.key"
        self._sign(certificate, subject, write_key(key), x509.ExtendedKeyUsage([use]), *more)
        return certificate, key

    def _sign(
        self, path: Path, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *extensions: x509.ExtensionType
    ) -> None:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + LIVES)
        )
        # Strict readers, Python among them, want to see whose key signed which.
        identifiers = (
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
        )
        for extension in (*identifiers, *extensions):
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
