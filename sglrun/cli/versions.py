"""Versions: which packages are installed beside this one."""


def version_of(package: str) -> str:
    """Return the installed version of *package*; nothing where it is not installed."""
    # Few commands ask, and it is a tenth of the time that help takes.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version(package)
    except PackageNotFoundError:
        return ""
