#!/usr/bin/env python3
"""The tests of applications with programs that nobody here wrote. `run.py DIRECTORY`: where ccnic-kv is.

Starts Debian's memcached and ccnic-kv on ports of the loopback interface, and lets the clients of clients/ ask both the same."""

import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(command, port):
    """A server; returns when it answers."""
    server = subprocess.Popen([*command, "-l", "127.0.0.1", "-p", str(port)])
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return server
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                server.kill()
                raise SystemExit(f"{command[0]} does not answer: {error}") from error
            time.sleep(0.02)


def main():
    programs = Path(sys.argv[1]).resolve()
    servers = {"memcached": ["memcached", "-u", "root"], "ccnic-kv": [str(programs / "ccnic-kv"), "-t", "2"]}
    running, addresses = [], []
    try:
        for name, command in servers.items():
            port = free_port()
            running.append(start(command, port))
            addresses.append(f"{name}=127.0.0.1:{port}")
        return subprocess.run([HERE / "clients/run.py", "--build", programs / "apps-test", *addresses], check=False).returncode
    finally:
        for server in running:
            server.kill()
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
