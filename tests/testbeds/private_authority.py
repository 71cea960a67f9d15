"""A certificate authority of a lab's own, and the certificate that it gives to a server on this machine."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

from parts import need_command

_EXTENSIONS = """\
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1, IP:::1
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


class PrivateAuthority:
    """`ca_file` is what clients need; `context` is for the server."""

    def __init__(self, folder: Path) -> None:
        self._openssl = need_command("openssl")
        self._folder = folder
        (folder / "extensions.cnf").write_text(_EXTENSIONS)
        self.ca_file = folder / "ca.pem"
        self._certify("ca", "authority", "-signkey", "ca.key")
        self._certify("server", "server", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", "2")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "server.pem", folder / "server.key")

    def _certify(self, name: str, section: str, *signing: str) -> None:
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]
        self._call("req", "-new", *key, "-subj", f"/CN={name}", "-out", f"{name}.csr")
        extensions = ["-extfile", "extensions.cnf", "-extensions", section]
        self._call(
            "x509", "-req", "-in", f"{name}.csr", "-days", "2", *extensions, *signing, "-out", f"{name}.pem"
        )

    def _call(self, *arguments: str) -> None:
        subprocess.run(
            [self._openssl, *arguments], cwd=self._folder, check=True, capture_output=True, timeout=30
        )
