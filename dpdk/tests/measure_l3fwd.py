# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures DPDK's l3fwd between two ports of net_ccnic beside two of memif, in interleaved rounds: `measure_l3fwd.py [ROUNDS [SIZES]]`. By
hand, on a machine that does nothing else; needs the source of DPDK's examples (`dpdk/headers.sh`). Not a test.

l3fwd has a core and is the NIC (role=nic, or the memif server), so that no third program is in between. testpmd on another core sends 1024
flows to either port and receives what comes back: half of them at each port. The same binary, arguments and rules for both. l3fwd as it is
refuses memif, which has no receive checksums: this one is built without asking for them."""

import functools
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from harness import ALONE, BUILD, CPUS, PLUGIN, Testpmd

# Huge pages for both, if there are enough.
FREE = int(re.search(r"HugePages_Free: +(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
MEMORY = ("--in-memory", "--single-file-segments", "--iova-mode=va", "--no-telemetry") if FREE >= 100 else ALONE
# testpmd's flows are to 10.253.0.0 and the 1023 addresses behind it.
RULES = {"4": ("R10.253.0.0/23 0", "R10.253.2.0/23 1"), "6": ("R2001:0200:0000:0000:0000:0000:0000:0000/48 0",)}
SECONDS = 1.0
OFFLOADS = "RTE_ETH_RX_OFFLOAD_CHECKSUM"
# What is compared: the devices of l3fwd and of testpmd.
CASES = {
    "net_ccnic": ("net_ccnic{i},role=nic,socket={at}", "net_ccnic{i},socket={at}"),
    "memif": ("net_memif{i},role=server,id={i},socket-abstract=no,socket={at}", "net_memif{i},role=client,id={i},socket-abstract=no,socket={at}"),
}


@functools.cache
def built():
    """l3fwd without receive checksums."""
    examples = BUILD / "headers" / "examples"
    source = BUILD / "measure" / "l3fwd"
    program = source / "build" / "l3fwd-shared"
    if program.exists():
        return program
    shutil.rmtree(source.parent, ignore_errors=True)
    for name in "l3fwd", "common":
        shutil.copytree(examples / name, source.parent / name, ignore=shutil.ignore_patterns("build"))
    main = source / "main.c"
    text = main.read_text()
    assert text.count(OFFLOADS) == 1
    main.write_text(text.replace(OFFLOADS, "0"))
    subprocess.run(["make", "-C", source, "shared"], check=True, stdout=subprocess.DEVNULL)
    return program


def vdevs(device, directory):
    return [device.format(i=i, at=directory / f"{i}.sock") for i in range(2)]


def l3fwd(device, directory):
    rules = []
    for version, lines in RULES.items():
        file = directory / f"rules{version}"
        file.write_text("".join(f"{line}\n" for line in lines))
        rules.append(f"--rule_ipv{version}={file}")
    devices = [a for vdev in vdevs(device, directory) for a in ("--vdev", vdev)]
    command = ["stdbuf", "-oL", built(), *MEMORY, "--no-pci", "--lcores", f"0@{CPUS[-1]}", "-d", PLUGIN, *devices, "--", "-p", "3", "-P",
               "--parse-ptype", "--lookup=lpm", "--config=(0,0,0),(1,0,0)", *rules]
    return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def entered(process):
    log = ""
    for line in process.stdout:
        log += line
        if "entering main loop" in line:
            return
    raise SystemExit(log)


def rate(testpmd):
    """Mpps that come back at both ports."""
    counts = []
    for wait in SECONDS, 0:
        counts.append((time.monotonic(), sum(testpmd.stats(port)["RX-packets"] for port in range(2))))
        time.sleep(wait)
    (start, before), (end, after) = counts
    return (after - before) / (end - start) / 1e6


def run(case, size):
    nic, program = CASES[case]
    with tempfile.TemporaryDirectory(prefix="ccnic-l3fwd-") as name:
        directory = pathlib.Path(name)
        with l3fwd(nic, directory) as router:
            try:
                while not all((directory / f"{i}.sock").exists() for i in range(2)):
                    time.sleep(0.05)
                first, *more = vdevs(program, directory)
                with Testpmd(None, first, options=(), more=more, arguments=["--burst=32", "--rxd=1024", "--txd=1024"], memory=MEMORY) as testpmd:
                    entered(router)
                    for command in f"set txpkts {size}", "set fwd flowgen", "start":
                        testpmd.do(command)
                    testpmd.until("packets", lambda t: all(t.stats(port)["RX-packets"] > 0 for port in range(2)))
                    return rate(testpmd)
            finally:
                router.kill()


def main(rounds, sizes):
    print("huge pages" if MEMORY != ALONE else "ordinary pages")
    for size in sizes:
        runs = {case: [] for case in CASES}
        for _ in range(rounds):
            for case, results in runs.items():
                results.append(run(case, size))
        for case, results in runs.items():
            share = statistics.median(results) / statistics.median(runs["net_ccnic"])
            print(f"{size:5} bytes, {case:16} {statistics.median(results):7.3f} Mpps (best {max(results):7.3f}), {share:.2f} of net_ccnic", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, [int(size) for size in sys.argv[2].split(",")] if len(sys.argv) > 2 else [64, 1500])
