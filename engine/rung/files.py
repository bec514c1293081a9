"""Reading files that somebody else wrote, and replacing files that somebody may be reading.

Owns both ways of meeting a file: nothing but a regular file is read, and no more of it than was meant; what is written
is there as a whole, or not at all.
"""

from __future__ import annotations

import os
import stat

__all__ = ["read_regular", "replace_file"]

_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """Give the bytes of a regular file of at most `limit` bytes; raise OSError for anything else.

    A pipe is not waited for, and a device not read: what a path leads to is looked at when it is open, not before.
    """
    try:
        handle = os.open(path, os.O_RDONLY | _NO_WAIT)
    except ValueError as error:  # a null byte in the name
        raise OSError(str(error)) from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("not a regular file")
        if found.st_size > limit:
            raise OSError(f"{found.st_size} bytes exceed the limit of {limit}")
        data = b""
        while len(data) <= limit:
            more = os.read(handle, max(found.st_size - len(data) + 1, 4096))
            if not more:
                return data
            data = data + more if data else more
        raise OSError(f"more than the limit of {limit} bytes")
    finally:
        os.close(handle)


def replace_file(path: str | os.PathLike[str], data: bytes, *, durable: bool = True, private: bool = False) -> None:
    """Put bytes in the place of a file, which keeps its mode and, where that is allowed, its owner. Raise OSError.

    A link is replaced, not followed. Folders that are missing are made. What is `durable` outlives a loss of power,
    and what is `private` is its owner's, whatever was there before.
    """
    import tempfile
    from contextlib import suppress
    from pathlib import Path

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = None
    with suppress(FileNotFoundError):
        kept = path.lstat()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:64]}.", suffix=".tmp")
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        if private:
            pass  # as it was made
        elif kept is not None and stat.S_ISREG(kept.st_mode):
            if hasattr(os, "chown"):
                with suppress(OSError):
                    os.chown(fresh, kept.st_uid, kept.st_gid)
            fresh.chmod(stat.S_IMODE(kept.st_mode))
        else:
            fresh.chmod(0o666 & ~_umask())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Give the process's mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
