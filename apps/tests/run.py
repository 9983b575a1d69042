#!/usr/bin/env python3
"""The tests of applications with programs that nobody here wrote. `run.py DIRECTORY`: where ccnic-kv is.

Starts Debian's memcached and ccnic-kv on ports of the loopback interface, and lets the clients of clients/ ask both the same. Then again
in a network namespace, where ccnic-kv has a NIC of ccnicd, which the kernel reaches through a TAP port."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def started(command, answers, log=None):
    """A server; returns when `answers()` raises no OSError any more."""
    server = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while True:
        try:
            answers()
            return server
        except OSError as error:
            if server.poll() is not None or time.monotonic() > deadline:
                server.kill()
                server.wait()
                said = f"\n{Path(log.name).read_text()}" if log else ""
                raise SystemExit(f"{command[0]} does not answer: {error}{said}") from error
            time.sleep(0.02)


def accepts(host, port):
    return lambda: socket.create_connection((host, port), timeout=1).close()


def memcached(running):
    """memcached, which says what is right, as NAME=HOST:PORT."""
    port = free_port()
    running.append(started(["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(port)], accepts("127.0.0.1", port)))
    return f"memcached=127.0.0.1:{port}"


def on_loopback(programs, running):
    port = free_port()
    command = [programs / "ccnic-kv", "-t", "2", "-l", "127.0.0.1", "-p", str(port)]
    running.append(started(command, accepts("127.0.0.1", port)))
    return f"ccnic-kv=127.0.0.1:{port}"


def on_a_nic(programs, running, folder):
    """In a namespace of its own: ccnicd with a TAP port there, and ccnic-kv on one of its NICs."""
    control = Path(folder) / "nic.sock"
    daemon = [programs / "ccnicd", "--socket", control, "--wire", "switch", "--port", "tap:tap0,address=10.9.0.9/24"]
    with (Path(folder) / "ccnicd.log").open("w") as log:
        running.append(started(daemon, control.stat, log))
    kv = [programs / "ccnic-kv", "--ccnic", control, "--address", "10.9.0.2/24", "-t", "2"]
    running.append(started(kv, accepts("10.9.0.2", 11211)))
    return "ccnic-kv-on-a-NIC=10.9.0.2:11211"


def ask(programs, other):
    """Runs the clients against memcached and what `other` starts."""
    running = []
    try:
        addresses = [memcached(running), other(programs, running)]
        clients = [HERE / "clients/run.py", "--build", programs / "apps-test", *addresses]
        return subprocess.run(clients, check=False).returncode
    finally:
        for server in reversed(running):
            server.kill()
            server.wait()


def in_a_namespace(programs):
    if os.geteuid() != 0 or not shutil.which("ip") or not Path("/dev/net/tun").exists():
        print("SKIPPED: clients through a TAP port need root, iproute2 and /dev/net/tun")
        return 0
    return subprocess.run(["unshare", "--net", sys.executable, __file__, programs, "--tap"], check=False).returncode


def main():
    programs = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--tap"]:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        with tempfile.TemporaryDirectory() as folder:
            return ask(programs, lambda *args: on_a_nic(*args, folder))
    # The first builds what the second, which has no network, runs.
    return ask(programs, on_loopback) | in_a_namespace(programs)


if __name__ == "__main__":
    sys.exit(main())
