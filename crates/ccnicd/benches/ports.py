#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The switch's ports that are no programs: what they reach beside what else joins the same interfaces, and whether rates are kept.

    ports.py tap     TCP (iperf3) between two namespaces: ccnicd with two TAP ports, and a bridge of the kernel with two veths; also ccnicd
                     that may use no CPU but the NIC's, and so gives it away whenever it has nothing to do
    ports.py xdp     64 B packets at a veth: ccnicd with AF_XDP ports, and DPDK's net_af_xdp in testpmd
    ports.py rates   what passes a port whose policy limits packets or bits, of a file that is replayed as fast as possible; as root also
                     what TCP (iperf3) gets between two TAP ports, one of which is limited

`tap` and `xdp`, and TCP of `rates`, make network namespaces and need root and ip; TCP iperf3, `tap` ethtool, `xdp` dpdk-testpmd. Build with `make` before. Two
CPUs: the first one of this process is the programs' (for `xdp` the generator's), the last one the NIC's. Rounds are interleaved; medians
and best.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
RELEASE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
CPUS = sorted(os.sched_getaffinity(0))
PROGRAMS, NIC = CPUS[0], CPUS[-1]
ENDS = ("ccnic-left", "ccnic-right")
ADDRESSES = ("198.18.0.1", "198.18.0.2")
# Seconds until a wait has failed.
PATIENCE = 20


def run(*words, check=True):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def inside(end):
    """What comes before a command that is to run in a namespace."""
    return ("ip", "netns", "exec", ENDS[end])


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"timed out waiting for {what}")
        time.sleep(0.02)


@contextlib.contextmanager
def namespaces():
    for end in ENDS:
        run("ip", "netns", "add", end)
    try:
        yield
    finally:
        for end in ENDS:
            run("ip", "netns", "del", end)


@contextlib.contextmanager
def process(*words, **more):
    child = subprocess.Popen(list(map(str, words)), text=True, **more)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextlib.contextmanager
def ccnicd(*ports, config=None, alone=True):
    """The daemon with these ports, or this configuration, on the NIC's CPU; what calls `ccnic status`. Unless it has the CPU `alone` it may
    use no other one."""
    with tempfile.TemporaryDirectory() as directory:
        socket = pathlib.Path(directory) / "nic.sock"
        command = [RELEASE / "ccnicd", "--socket", socket, "--wire", "switch", "--tuning", "default", "--cores", NIC]
        command += ["--log", "error", *(word for port in ports for word in ("--port", port))]
        if config:
            file = pathlib.Path(directory) / "nic.toml"
            file.write_text(config)
            command += ["--config", file]

        def status():
            return subprocess.run([RELEASE / "ccnic", "status", "--json", "--socket", socket], capture_output=True, text=True).stdout

        with process(*([] if alone else ["taskset", "-c", NIC]), *command):
            until("ccnicd", status)
            yield lambda: {program["name"]: program["queues"] for program in json.loads(status())["programs"]}


def file_of_packets(directory, size, number=1024):
    """A pcap file of frames of no protocol, to replay."""
    path = pathlib.Path(directory) / f"{number}x{size}.pcap"
    frame = bytes.fromhex("020000000002" "020000000001" "88b5").ljust(size, b"\x55")
    record = bytes(8) + len(frame).to_bytes(4, "little") * 2 + frame
    path.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000") + record * number)
    return path


# --- TAP ---------------------------------------------------------------------------------------------------------------------------


def give_addresses(mtu, offload):
    for end, address in enumerate(ADDRESSES):
        run("ip", "-n", ENDS[end], "addr", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", ENDS[end], "link", "set", "eth0", "mtu", mtu, "up")
        if not offload:
            run(*inside(end), "ethtool", "-K", "eth0", *"tso off gso off gro off tx off".split())


@contextlib.contextmanager
def bridge(mtu, offload):
    with namespaces():
        run("ip", "link", "add", "ccnic-br", "type", "bridge")
        try:
            run("ip", "link", "set", "ccnic-br", "mtu", mtu, "up")
            for end, name in enumerate(ENDS):
                run("ip", "link", "add", f"ccnic-v{end}", "type", "veth", "peer", "name", "eth0", "netns", name)
                run("ip", "link", "set", f"ccnic-v{end}", "mtu", mtu, "master", "ccnic-br", "up")
                if not offload:
                    run("ethtool", "-K", f"ccnic-v{end}", *"tso off gso off gro off tx off".split())
            give_addresses(mtu, offload)
            yield
        finally:
            run("ip", "link", "del", "ccnic-br")


@contextlib.contextmanager
def taps(mtu, offload, alone=True):
    ports = [f"tap:ccnic-t{end},mtu={mtu},offload={'on' if offload else 'off'}" for end in (0, 1)]
    with namespaces(), ccnicd(*ports, alone=alone):
        for end, name in enumerate(ENDS):
            run("ip", "link", "set", f"ccnic-t{end}", "netns", name)
            run("ip", "-n", name, "link", "set", f"ccnic-t{end}", "name", "eth0")
        give_addresses(mtu, offload)
        yield


def iperf(seconds, client, server, *more):
    """Gb/s of one TCP connection from the left to the right."""
    right = [*inside(1), "taskset", "-c", server, "iperf3", "-s", "-1", "-B", ADDRESSES[1]]
    with process(*right, stdout=subprocess.DEVNULL):
        until("iperf3", lambda: "iperf3" in run(*inside(1), "ss", "-Hltnp"))
        # cubic: what is the default here may pace, which hides the way.
        said = run(*inside(0), "taskset", "-c", client, "iperf3", "-c", ADDRESSES[1], "-t", seconds, "-C", "cubic", "-J", *more, check=False)
    result = json.loads(said)
    if "error" in result:
        sys.exit(f"iperf3: {result['error']}")
    return result["end"]["sum_received"]["bits_per_second"] / 1e9


def tap(args):
    kinds = {"bridge": bridge, "ccnicd": taps, "giving way": lambda mtu, offload: taps(mtu, offload, alone=False)}
    # Where client and server run: beside the NIC's CPU, and one on each.
    places = {"both on one CPU": (PROGRAMS, PROGRAMS), "a CPU each": (PROGRAMS, NIC)}
    loads = [(mtu, offload) for mtu in args.mtu for offload in (True, False)]
    seen = {}
    for _ in range(args.rounds):
        for mtu, offload in loads:
            for kind, make in kinds.items():
                with make(mtu, offload):
                    for place, cpus in places.items():
                        seen.setdefault((mtu, offload, place, kind), []).append(iperf(args.seconds, *cpus))
    rows = []
    for mtu, offload in loads:
        for place in places:
            ours, theirs, giving_way = (seen[mtu, offload, place, kind] for kind in ("ccnicd", "bridge", "giving way"))
            load = {"mtu": mtu, "offloads": "on" if offload else "off", "iperf3": place}
            figure = figures("Gb/s", ours, "bridge", theirs)
            other = figures("Gb/s", giving_way, "bridge", theirs)
            rows.append(load | figure | {"giving way Gb/s": other["ccnicd Gb/s"], "its ratio": other["ratio"]})
    return rows


# --- AF_XDP ------------------------------------------------------------------------------------------------------------------------

SIZE = 64
EAL = ["--no-pci", "--no-telemetry", "--no-shconf", "--no-huge", "-m", "256", "--log-level=error"]


def testpmd(cpu, vdevs, *arguments):
    """A testpmd that forwards on this CPU until its input ends."""
    devices = [word for vdev in vdevs for word in ("--vdev", vdev)]
    more = ["--auto-start", "--nb-cores=1", "--total-num-mbufs=16384", "--stats-period=1", *arguments]
    return "dpdk-testpmd", "--lcores", f"0@{PROGRAMS},1@{cpu}", "--file-prefix", f"ccnic{cpu}", *EAL, *devices, "--", *more


@contextlib.contextmanager
def veths():
    """Two veths, whose far ends are in namespaces."""
    with namespaces():
        for end, name in enumerate(ENDS):
            run("ip", "link", "add", f"ccnic-v{end}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"ccnic-v{end}", "addrgenmode", "none", "promisc", "on", "up")
            run("ip", "-n", name, "link", "set", "eth0", "addrgenmode", "none", "up")
        try:
            yield
        finally:
            for end in (0, 1):
                run("ip", "link", "del", f"ccnic-v{end}", check=False)


def arrived(end):
    """Packets that have come to the kernel at a far end."""
    said = json.loads(run("ip", "-n", ENDS[end], "-s", "-j", "link", "show", "eth0"))
    return said[0]["stats64"]["rx"]["packets"]


def rate(count, seconds):
    time.sleep(0.5)
    before, start = count(), time.monotonic()
    time.sleep(seconds)
    return (count() - before) / (time.monotonic() - start) / 1e6


@contextlib.contextmanager
def generator():
    """Packets from the left end, as fast as one CPU sends them."""
    with process(*inside(0), *testpmd(PROGRAMS, ["net_af_packet0,iface=eth0,qdisc_bypass=1"], "--forward-mode=txonly"),
                 stdin=subprocess.PIPE, stdout=subprocess.DEVNULL):
        yield


@contextlib.contextmanager
def dpdk(vdevs, *arguments):
    """testpmd on the NIC's CPU; a function that waits until it says again how many packets it has received, which it does once a second."""
    with tempfile.NamedTemporaryFile("w+") as log, process(*testpmd(NIC, vdevs, *arguments), stdin=subprocess.PIPE, stdout=log, stderr=log) as child:
        def said():
            if child.poll() is not None:
                sys.exit(f"testpmd ended:\n{pathlib.Path(log.name).read_text()}")
            return re.findall(r"RX-packets: +(\d+)", pathlib.Path(log.name).read_text())

        def received():
            before = len(said())
            until("testpmd", lambda: len(said()) > before)
            return int(said()[-1])
        received()
        yield received


def xdp_rates(kind, seconds, replayed):
    """Million packets a second: taken in, sent out, passed on. Without preferred busy polling net_af_xdp is faster on veths."""
    ours = kind == "ccnicd"
    name = (lambda end: f"xdp:ccnic-v{end},queues=1") if ours else (lambda end: f"net_af_xdp{end},iface=ccnic-v{end},busy_budget=0")
    rates = {}
    with veths():
        if ours:
            with ccnicd(name(0)) as status, generator():
                rates["in"] = rate(lambda: status()["xdp:ccnic-v0"][0]["tx_packets"], seconds)
        else:
            with dpdk([name(0)], "--forward-mode=rxonly") as received, generator():
                rates["in"] = rate(received, seconds)
    with veths():
        if ours:
            with ccnicd(name(1), f"pcap:{replayed},rate=asap,loop=0"):
                rates["out"] = rate(lambda: arrived(1), seconds)
        else:
            with dpdk([f"net_pcap0,rx_pcap={replayed},infinite_rx=1", name(1)], "--forward-mode=io", "--no-flush-rx"):
                rates["out"] = rate(lambda: arrived(1), seconds)
    with veths():
        nic = ccnicd(name(0), name(1)) if ours else dpdk([name(0), name(1)], "--forward-mode=io")
        with nic, generator():
            rates["through"] = rate(lambda: arrived(1), seconds)
    return rates


def xdp(args):
    seen = {}
    with tempfile.TemporaryDirectory() as directory:
        replayed = file_of_packets(directory, SIZE)
        for _ in range(args.rounds):
            for kind in ("net_af_xdp", "ccnicd"):
                for way, mpps in xdp_rates(kind, args.seconds, replayed).items():
                    seen.setdefault((way, kind), []).append(mpps)
    return [{"way": way} | figures("Mpps", seen[way, "ccnicd"], "net_af_xdp", seen[way, "net_af_xdp"]) for way in ("in", "out", "through")]


# --- rates -------------------------------------------------------------------------------------------------------------------------

RATES = [("packets", rate) for rate in (1_000, 100_000, 1_000_000)] + [("bits", rate) for rate in (10_000_000, 1_000_000_000, 5_000_000_000)]


def passed(directory, way, limit, size, seconds):
    """What passes in a second, in the limit's unit."""
    what, most = limit
    replayed, other = file_of_packets(directory, size), file_of_packets(directory, size, 1)
    policy = f"policy = {{ {way} = {{ {what} = {most} }} }}\n"
    config = "wire = 'switch'\n"
    config += f"[[port]]\nkind = 'pcap'\nname = '{replayed}'\noptions = {{ rate = 'asap', loop = 0 }}\n{policy if way == 'send' else ''}"
    config += f"[[port]]\nkind = 'pcap'\nname = '{other}'\n{policy if way == 'receive' else ''}"
    with ccnicd(config=config) as status:
        def count():
            queue = status()[f"pcap:{other}"][0]
            return queue["rx_packets"] if what == "packets" else 8 * queue["rx_bytes"]
        return 1e6 * rate(count, seconds)


def tcp_passed(way, limit, offload, seconds):
    """Bits that TCP gets in a second; a second, or a quarter of the time, goes before, for the burst."""
    ports = [("tap", f"ccnic-t{end}", f"mtu = 1500, offload = '{'on' if offload else 'off'}'") for end in (0, 1)]
    limited = 0 if way == "send" else 1
    config = "wire = 'switch'\n"
    for end, (kind, name, options) in enumerate(ports):
        config += f"[[port]]\nkind = '{kind}'\nname = '{name}'\noptions = {{ {options} }}\n"
        config += f"policy = {{ {way} = {{ bits = {limit} }} }}\n" if end == limited else ""
    with namespaces(), ccnicd(config=config):
        for end, name in enumerate(ENDS):
            run("ip", "link", "set", f"ccnic-t{end}", "netns", name)
            run("ip", "-n", name, "link", "set", f"ccnic-t{end}", "name", "eth0")
        give_addresses(1500, True)
        return 1e9 * iperf(seconds, PROGRAMS, PROGRAMS, "-O", max(1, round(seconds / 4)))


def tcp_rates(args):
    rows = []
    for way in ("send", "receive"):
        for most in (10_000_000, 100_000_000, 1_000_000_000):
            for offload in (True, False):
                shares = [tcp_passed(way, most, offload, args.seconds) / most for _ in range(args.rounds)]
                rows.append({"limit": f"{way} = {{ bits = {most:_} }}", "packets": f"TCP, offload={'on' if offload else 'off'}",
                             "of what was set": f"{statistics.median(shares):.4f} ({min(shares):.4f} to {max(shares):.4f})"})
    return rows


def rates(args):
    rows = []
    if why := missing("TCP"):
        print(f"TCP SKIPPED: {why}", file=sys.stderr)
    else:
        rows += tcp_rates(args)
    with tempfile.TemporaryDirectory() as directory:
        for way in ("send", "receive"):
            for what, most in RATES:
                for size in (64, 1500):
                    if what == "bits" and size == 64 and most > 1e9:
                        continue  # more packets than a file is replayed at
                    shares = [passed(directory, way, (what, most), size, args.seconds) / most for _ in range(args.rounds)]
                    rows.append({"limit": f"{way} = {{ {what} = {most:_} }}", "packets": f"{size} B",
                                 "of what was set": f"{statistics.median(shares):.4f} ({min(shares):.4f} to {max(shares):.4f})"})
    return rows


# --- all --------------------------------------------------------------------------------------------------------------------------


def figures(unit, ours, name, theirs):
    """Medians and best; the ratio of each round, its median and range."""
    ratios = [a / b if b else 0 for a, b in zip(ours, theirs)]
    show = lambda values: f"{statistics.median(values):.2f} / {max(values):.2f}"
    return {f"{name} {unit}": show(theirs), f"ccnicd {unit}": show(ours),
            "ratio": f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"}


def missing(what):
    if what != "rates" and os.geteuid() != 0:
        return "it makes network namespaces and interfaces: run it as root"
    if len(CPUS) < 2:
        return "it needs two CPUs"
    needs = {"tap": ["ip", "iperf3", "ethtool", "ss", "taskset"], "TCP": ["ip", "iperf3", "ss", "taskset"],
             "xdp": ["ip", "dpdk-testpmd"], "rates": []}
    packages = {"ip": "iproute2", "ss": "iproute2", "taskset": "util-linux", "dpdk-testpmd": "dpdk"}
    lacking = [f"{tool} (package {packages.get(tool, tool)})" for tool in needs[what] if not shutil.which(tool)]
    lacking += [f"{path.name} (make)" for path in (RELEASE / "ccnicd", RELEASE / "ccnic") if not path.exists()]
    return f"it needs {', '.join(lacking)}" if lacking else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tap", "xdp", "rates"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--mtu", type=lambda text: list(map(int, text.split(","))), default=[1500, 9000])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if why := missing(args.what):
        sys.exit(f"SKIPPED: {why}")
    rows = {"tap": tap, "xdp": xdp, "rates": rates}[args.what](args)
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    names = list(rows[0])
    print(f"| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for row in rows:
        print(f"| {' | '.join(str(row[name]) for name in names)} |")


if __name__ == "__main__":
    main()
