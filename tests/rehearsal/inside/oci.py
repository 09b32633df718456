"""`oci.py FOLDER LAYER.TAR…`: an image of these layers, as an OCI folder; the layers move into it."""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Mapping

OCI = "application/vnd.oci.image"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def main(folder: str, *layers: str) -> None:
    """Write the folder."""
    blobs = os.path.join(folder, "blobs", "sha256")
    os.makedirs(blobs)

    def known(digest: str, size: int, kind: str) -> dict[str, object]:
        return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": size}

    def put(what: Mapping[str, object], kind: str) -> dict[str, object]:
        data = json.dumps(what).encode()
        digest = hashlib.sha256(data).hexdigest()
        with open(os.path.join(blobs, digest), "wb") as file:
            file.write(data)
        return known(digest, len(data), kind)

    def moved(layer: str) -> dict[str, object]:
        hashed = hashlib.sha256()
        with open(layer, "rb") as file:
            for part in iter(lambda: file.read(1 << 20), b""):
                hashed.update(part)
        digest, size = hashed.hexdigest(), os.path.getsize(layer)
        os.rename(layer, os.path.join(blobs, digest))
        return known(digest, size, "layer.v1.tar")

    held = [moved(layer) for layer in layers]
    settings = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["/bin/sh"]}
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": settings,
        "history": [{"created_by": "rehearsal"} for _ in held],  # Charliecloud wants one
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in held]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{OCI}.manifest.v1+json",
        "config": put(config, "config.v1+json"),
        "layers": held,
    }
    index = {"schemaVersion": 2, "manifests": [put(manifest, "manifest.v1+json")]}
    for name, what in (("index.json", index), ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as text:
            json.dump(what, text)


main(*sys.argv[1:])
