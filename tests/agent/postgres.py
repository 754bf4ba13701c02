"""A real PostgreSQL server for the tests: Debian's binaries, a unix socket, no superuser."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60
MEMORY_BYTES = 1 << 30


def binaries() -> Path | None:
    """Folder of initdb and postgres: Debian's newest, or that of PATH; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return Path(path).resolve().parent if path else None


def _version(initdb: Path) -> float:
    try:
        return float(initdb.parents[1].name)
    except ValueError:
        return 0.0


def _server_user() -> str | None:
    """The server refuses to run as root; anybody else runs it as themselves."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextmanager
def server(folder: Path, **settings: str) -> Iterator[str]:
    """Run a new server in the folder and give its conninfo; it is gone afterwards."""
    bin_folder = binaries()
    assert bin_folder is not None, "no PostgreSQL here; ask binaries() first"
    user = _server_user()
    account = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid}
    if user is not None:
        shutil.chown(folder, user, account["group"])
    data, log = folder / "data", folder / "log"
    initdb = [bin_folder / "initdb", "-D", data, "-U", "gnomon", "-A", "trust", "--no-sync"]
    options = ["-E", "UTF8", "--locale=C.UTF-8", "--no-instructions"]
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    done = subprocess.run(
        [*initdb, *options], cwd=folder, env=environment, capture_output=True, text=True, **account
    )
    assert done.returncode == 0, done.stderr
    chosen = {
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        "max_connections": "60",
        "shared_buffers": "16MB",
        **settings,
    }
    arguments = [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [bin_folder / "postgres", "-D", data, *arguments],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            **account,
        )
    try:
        _wait_until_ready(process, folder, log)
        yield f"host={folder} user=gnomon dbname=postgres"
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: nobody will read these files again
        process.wait(60)


def _wait_until_ready(process: subprocess.Popen[bytes], folder: Path, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    ready = [binaries() / "pg_isready", "-q", "-h", folder, "-U", "gnomon", "-d", "postgres"]
    while subprocess.run(ready).returncode != 0:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def short_folder(disk: bool = False) -> Path:
    """Where a socket's path is short enough; in memory where that has room: a sync is free there.

    A killed process loses nothing in either; what a power cut loses is no test's question.
    """
    memory = Path("/dev/shm")
    if not disk and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY_BYTES:
        return memory
    return Path("/tmp")


@contextmanager
def server_in_temporary_folder(*, disk: bool = False, **settings: str) -> Iterator[str]:
    """Like `server`, in a folder of its own; `disk` puts it on a real disk, for measuring."""
    folder = Path(tempfile.mkdtemp(prefix="gnomon-pg-", dir=short_folder(disk)))
    try:
        with server(folder, **settings) as conninfo:
            yield conninfo
    finally:
        shutil.rmtree(folder, ignore_errors=True)
