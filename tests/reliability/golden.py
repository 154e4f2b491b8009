"""The golden files as attacks see them."""

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "golden" / "v1"


def golden_containers() -> list[bytes]:
    """The bytes of every golden container."""
    return [path.read_bytes() for path in sorted(FOLDER.glob("*.zipj"))]
