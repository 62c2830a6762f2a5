"""Versions: which packages are installed beside this one."""

from importlib.metadata import PackageNotFoundError, version


def version_of(package: str) -> str:
    """Return the installed version of *package*; nothing where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
