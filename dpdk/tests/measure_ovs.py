# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures Open vSwitch with net_ccnic beside vhost-user, in interleaved rounds: `measure_ovs.py hairpin|pair|tso [ROUNDS]`. By hand, as
root, on a machine that does nothing else; needs `make dpdk-peers` and iperf3. Not a test.

hairpin: a packet into a port and out of the same one. pair: from program to program over two ports. tso: kernel TCP through a TAP."""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys

from harness import ALONE, CPUS, PLUGIN, RELEASE, Nic, Place
from ovs import Ovs

PEERS = pathlib.Path(os.environ.get("CCNIC_PEERS", RELEASE / "dpdk" / "ccnic-peers"))
SECONDS = os.environ.get("SECONDS_EACH", "1")
PMD = {"pmd_cpu_mask": hex(1 << CPUS[-1]), "per_port_memory": "true"}
# Each side has one core.
GENERATOR = ["--lcores", f"0@{CPUS[0]}", *ALONE, "--no-pci", "--log-level=error"]


def vhost(ovs, names):
    """Ports that are the client of a virtio-user device, as Open vSwitch recommends; returns the generator's devices."""
    devices = []
    for i, name in enumerate(names):
        path = ovs.directory / f"{name}.vhost"
        ovs.vsctl("add-port", "br0", name, "--", "set", "Interface", name, "type=dpdkvhostuserclient", f"options:vhost-server-path={path}")
        devices.append(f"net_virtio_user{i},path={path},server=1,queues=1,queue_size=1024,in_order=1,mrg_rxbuf=0")
    return devices


def as_nic(ovs, names):
    devices = []
    for i, name in enumerate(names):
        socket = ovs.directory / f"{name}.sock"
        ovs.port("br0", name, f"net_ccnic_{name},role=nic,socket={socket}")
        devices.append(f"net_ccnic{i},socket={socket}")
    return devices


def generate(devices, *arguments):
    """The runs of a generator over these devices, by packets in flight."""
    command = [PEERS, *GENERATOR, "-d", PLUGIN, *(a for d in devices for a in ("--vdev", d)), "--", f"--seconds={SECONDS}", *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return {run["inflight"]: run for run in map(json.loads, done.stdout.splitlines())}


def through_ovs(attach, names, arguments):
    with Ovs(**PMD) as ovs:
        ovs.bridge("br0")
        devices = attach(ovs, names)
        a, b = names[0], names[-1]
        ovs.flows("br0", *([f"in_port={a} actions=in_port"] if a == b else [f"in_port={a} actions={b}", f"in_port={b} actions={a}"]))
        return generate(devices, *arguments)


# The bridge's own interface is polled by Open vSwitch's main thread, not by the core of the ports, which sleeps when it has nothing.
SHARED = {"pmd_cpu_mask": hex(1 << CPUS[0]), "per_port_memory": "true", "pmd_maxsleep": "20"}


def through_ccnicd(arguments):
    with Nic("--wire", "switch") as nic:
        return generate([f"net_ccnic{i},socket={nic.socket},mac=02:00:00:00:00:0{i + 1}" for i in range(2)], *arguments)


def rates(cases, rounds):
    """Runs all cases in turn; prints medians and the best of each."""
    runs = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            runs[name].append(case())
    for name, results in runs.items():
        for inflight in results[0]:
            mpps = [r[inflight]["mpps"] for r in results]
            rtt = [r[inflight]["rtt_p50_ns"] for r in results]
            bad = sum(r[inflight]["lost"] + r[inflight]["corrupt"] for r in results)
            print(f"{name:10} {inflight:4} in flight: {statistics.median(mpps):7.3f} Mpps (best {max(mpps):7.3f}), p50 "
                  f"{statistics.median(rtt):6.0f} ns (best {min(rtt):6.0f}), lost or damaged {bad}", flush=True)


def hairpin(rounds):
    arguments = ["--size=64", "--inflight=1,64,512", *os.environ.get("PEERS_MORE", "").split()]
    rates({"role=nic": lambda: through_ovs(as_nic, "a", arguments), "vhost-user": lambda: through_ovs(vhost, "a", arguments)}, rounds)


def pair(rounds):
    arguments = ["--pair", "--size=64", "--inflight=1,512"]
    rates({"ccnicd": lambda: through_ccnicd(arguments), "role=nic": lambda: through_ovs(as_nic, "ab", arguments),
           "vhost-user": lambda: through_ovs(vhost, "ab", arguments)}, rounds)


def iperf(enable):
    """Gb/s from the kernel behind a bridge to the one behind a TAP of ccnicd."""
    with Nic("--wire", "switch", "--port", "tap:tcp0,address=10.9.0.2/24", wrap=("unshare", "--net")) as nic, \
            Ovs(**SHARED, userspace_tso_enable=enable) as ovs, contextlib.ExitStack() as stack:
        ovs.bridge("br0")
        ovs.inside("ip", "addr", "add", "10.9.0.1/24", "dev", "br0")
        ovs.inside("ip", "link", "set", "br0", "up")
        ovs.port("br0", "a", f"net_ccnic0,socket={nic.socket}")
        ovs.linked("a")
        server = stack.enter_context(subprocess.Popen(["nsenter", "--net", f"--target={nic.process.pid}", "iperf3", "-s", "--forceflush"],
                                                      stdout=subprocess.PIPE))
        stack.callback(server.kill)
        while b"listening" not in server.stdout.readline():
            pass
        done = json.loads(ovs.inside("iperf3", "-c", "10.9.0.2", "-t", SECONDS, "-O", "0", "-J"))
        return done["end"]["sum_received"]["bits_per_second"] / 1e9


def tso(rounds):
    runs = {"true": [], "false": []}
    for _ in range(rounds):
        for enable, results in runs.items():
            results.append(iperf(enable))
    for enable, results in runs.items():
        print(f"userspace-tso-enable={enable}: {statistics.median(results):.2f} Gb/s (best {max(results):.2f})")


if __name__ == "__main__":
    {"hairpin": hairpin, "pair": pair, "tso": tso}[sys.argv[1]](int(sys.argv[2]) if len(sys.argv) > 2 else 5)
