"""A stand-in for nvidia-smi that prints what lies in the folder FAKE_SMI_DIR.

    query.csv    the answer to --query-gpu, as it is
    fields.txt   the fields that this driver knows; without the file it knows all
    list.txt     the answer to -L
    details.xml  the answer to -q -x
    code         the exit code; 0 without the file
    delay_s      seconds until it answers

The files may be changed while a test runs. `install` puts it on a PATH, `write_cards` writes query.csv.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def install(bin_dir: Path) -> None:
    """Put an executable `nvidia-smi` into `bin_dir`."""
    bin_dir.mkdir(parents=True, exist_ok=True)
    program = bin_dir / "nvidia-smi"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{Path(__file__).resolve()}" "$@"\n')
    program.chmod(0o755)


def write_cards(
    folder: Path, free_mb: Sequence[int], total_mb: int = 40960, machine: str = "0000"
) -> list[str]:
    """Let the machine have one card for each number, in order; their UUIDs, unique to the `machine`."""
    folder.mkdir(parents=True, exist_ok=True)
    uuids = [f"GPU-{machine}000{index}-aaaa-bbbb-cccc-000000000000" for index in range(len(free_mb))]
    lines = [
        f"{index}, {uuid}, NVIDIA A100, {total_mb}, {total_mb - free}, {free}, 0, 8.0, Disabled\n"
        for index, (uuid, free) in enumerate(zip(uuids, free_mb, strict=True))
    ]
    aside = folder / "query.csv.new"
    aside.write_text("".join(lines))
    aside.replace(folder / "query.csv")
    return uuids


def answer(arguments: Sequence[str], folder: Path) -> tuple[int, str]:
    """Exit code and output for these arguments."""
    query = next((word for word in arguments if word.startswith("--query-gpu=")), "")
    for field in query.partition("=")[2].split(","):
        if query and field not in (_read(folder, "fields.txt") or field).split():
            return 2, f'Field "{field}" is not a valid field to query.\n\n'
    name = "query.csv" if query else "list.txt" if "-L" in arguments else "details.xml"
    return int(_read(folder, "code") or 0), _read(folder, name)


def _read(folder: Path, name: str) -> str:
    path = folder / name
    return path.read_text("utf-8") if path.exists() else ""


def main() -> int:
    folder = Path(os.environ["FAKE_SMI_DIR"])
    time.sleep(float(_read(folder, "delay_s") or 0))
    code, text = answer(sys.argv[1:], folder)
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
