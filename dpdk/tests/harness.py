# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Shared by the tests of the DPDK drivers: a NIC daemon, an interactive testpmd, pcap files. Standard library only."""

import atexit
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
BUILD = pathlib.Path(os.environ.get("CCNIC_DPDK_BUILD", ROOT / "target" / "dpdk"))
CPUS = sorted(os.sched_getaffinity(0))
# Seconds after which a wait has failed; each is expected to take less than a hundredth of it.
PATIENCE = 60
# Packets after which traffic counts as flowing.
ENOUGH = 20000


def accepted(directory):
    """True for a folder that EAL loads plugins from: other users may write to no folder above it."""
    return not any(parent.stat().st_mode & 0o002 for parent in (directory, *directory.resolve().parents))


def reachable(directory):
    """True for a folder that every user may enter: one test runs testpmd as the user nobody."""
    return all(parent.stat().st_mode & 0o001 for parent in (directory, *directory.resolve().parents))


def plugins():
    """The folder of the plugins, or of copies of them."""
    built = BUILD / "plugins"
    root = os.geteuid() == 0
    if accepted(built) and (reachable(built) or not root):
        return built
    home = pathlib.Path("/var/lib") if root else pathlib.Path.home()
    copies = pathlib.Path(tempfile.mkdtemp(prefix="ccnic-plugins-", dir=home))
    atexit.register(shutil.rmtree, copies)
    copies.chmod(0o755)
    if not accepted(copies):
        raise unittest.SkipTest(f"EAL loads plugins neither from {built} nor from {copies}: others may write above them")
    for plugin in built.glob("*.so"):
        shutil.copy(plugin, copies)
    return copies


PLUGIN = plugins() / "librte_net_ccnic.so"


class Nic:
    """A ccnicd with a directory of its own."""

    def __init__(self, *arguments, wrap=(), place=None):
        """`place`: another directory, which is not removed."""
        self.directory = place.directory if place else pathlib.Path(tempfile.mkdtemp(prefix="ccnic-dpdk-"))
        os.chmod(self.directory, 0o755 if not wrap else 0o777)
        self.socket = self.directory / "nic.sock"
        self.command = [*wrap, RELEASE / "ccnicd", "--log", "warn", "--tuning", "default"]
        self.command += ["--socket", self.socket, "--cores", str(CPUS[-1]), *arguments]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command)
        deadline = time.monotonic() + PATIENCE
        while True:
            # A killed daemon leaves its socket file: only an answer shows that this one listens.
            status = subprocess.run([RELEASE / "ccnic", "status", "--socket", self.socket], capture_output=True)
            if status.returncode == 0:
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"ccnicd does not listen: {status.stderr.decode()}")
            time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def programs(self):
        """The output of `ccnic status`."""
        return subprocess.run([RELEASE / "ccnic", "status", "--socket", self.socket], capture_output=True, text=True).stdout

    def queues(self):
        """Counters of every program's queues."""
        status = subprocess.run([RELEASE / "ccnic", "status", "--json", "--socket", self.socket], capture_output=True, check=True)
        return [queue for program in json.loads(status.stdout)["programs"] for queue in program["queues"]]

    def rules(self):
        """The flow rules of all programs."""
        command = [RELEASE / "ccnic", "flow", "list", "--json", "--socket", self.socket]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory)


# A command of testpmd, for mbufs that are shorter than the port's packets.
SCATTER = "port config 0 rx_offload scatter on"


class Place:
    """A directory with the socket of a NIC that the test starts later."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ccnic-dpdk-"))
        self.socket = self.directory / "nic.sock"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)


def alone(megabytes):
    """Arguments of a DPDK program without huge pages, root rights and shared configuration. EAL writes all of its memory when it starts: a
    millisecond for each MiB."""
    return ("--no-huge", "-m", str(megabytes), "--no-telemetry", "--no-shconf")


ALONE = alone(512)
# 8192 mbufs of 9900 bytes, the most that a test with testpmd asks for, take a third of this.
TESTPMD = alone(256)


def eal(nic, vdevs, options=(), cpu=CPUS[0], memory=ALONE):
    """The options of a DPDK program without PCI. `cpu` is the first one that forwards."""
    lcores = f"0@{CPUS[0]},1@{cpu},2@{CPUS[-1]}"
    common = [*memory, "--no-pci", "--lcores", lcores, "-d", PLUGIN]
    return [*common, *options, *(arg for vdev in vdevs for arg in ("--vdev", vdev.format(socket=nic and nic.socket)))]


class Testpmd:
    """A testpmd in interactive mode."""

    PROMPT = "testpmd> "
    # The prompt is written letter by letter; an event, its empty line or a line of the driver's log may come in between.
    BROKEN_PROMPT = re.compile(r"(?:\n|[Pp]ort \d+: [^\n]*\n)*".join(map(re.escape, PROMPT)))

    def __init__(self, nic, vdev="net_ccnic0,socket={socket}", arguments=(), options=("--mbuf-pool-ops-name=ccnic",), more=(), wrap=(),
                 environment=None, cpu=CPUS[0], memory=TESTPMD):
        command = [*wrap, "stdbuf", "-oL", "dpdk-testpmd", *eal(nic, [vdev, *more], options, cpu, memory), "--", "-i",
                   "--total-num-mbufs=8192", *arguments]
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env={**os.environ, **(environment or {})})
        self.log = ""
        self.wait(self.PROMPT)

    def _read(self, deadline):
        """Reads more output into the log; False at its end."""
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
            raise AssertionError(f"testpmd says nothing more. Its last words:\n{self.log[-3000:]}")
        data = os.read(self.process.stdout.fileno(), 65536)
        self.log += data.decode(errors="replace")
        return bool(data)

    def wait(self, text, start=0):
        """Waits until the output from `start` on contains `text`; returns where it ends."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.log.find(text, start)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"testpmd has ended without {text!r}:\n{self.log[-3000:]}")
        return at + len(text)

    def tell(self, command):
        """Runs a command whose output may be interleaved with other output."""
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()

    def do(self, command):
        """Runs a command; returns what it prints."""
        begin = len(self.log)
        self.tell(command)
        deadline = time.monotonic() + PATIENCE
        while not (prompt := self.BROKEN_PROMPT.search(self.log, begin)):
            if not self._read(deadline):
                raise AssertionError(f"testpmd has ended in {command!r}:\n{self.log[-3000:]}")
        return self.log[begin : prompt.end()]

    def stats(self, port=0):
        """Counters of `show port stats`."""
        found = {}

        def has_come(self):
            # The prompt of a command that was told and not waited for may come late and end the answer before it begins.
            text = self.do(f"show port stats {port}")
            found.update((name, int(value)) for name, value in re.findall(r"([RT]X-[a-z]+): +(\d+)", text))
            return {"RX-packets", "RX-missed", "RX-errors", "TX-packets", "TX-errors"} <= found.keys()

        self.until(f"the counters of port {port}", has_come)
        return found

    def xstats(self, port=0):
        text = self.do(f"show port xstats {port}")
        return {name: int(value) for name, value in re.findall(r"^(\w+): (\d+)\r?$", text, re.MULTILINE)}

    def until(self, what, condition):
        """Waits for a condition on this testpmd."""
        deadline = time.monotonic() + PATIENCE
        while not condition(self):
            if time.monotonic() > deadline:
                raise AssertionError(f"timed out waiting for {what}\n{self.log[-3000:]}")
            time.sleep(0.02)

    def drain(self, port=0):
        """After forwarding has stopped: receives the packets in flight. All packets that were sent must come back."""
        self.do("set fwd rxonly")
        self.do("start")
        self.until("what was sent comes back", lambda t: (s := t.stats(port))["RX-packets"] == s["TX-packets"])
        self.do("stop")

    def quit(self):
        self.process.stdin.write(b"quit\n")
        self.process.stdin.flush()
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            if kind is None:
                assert self.quit() == 0, self.log[-3000:]
            else:
                self.process.kill()
                self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class NicPort(Testpmd):
    """A testpmd whose port 0 is the NIC; it returns packets unless it has other ports."""

    def __init__(self, place, devargs="", **testpmd):
        super().__init__(place, f"net_ccnic0,role=nic,socket={{socket}}{devargs}", options=(), cpu=CPUS[-1], **testpmd)


def testpmd_output(vdev, nic=None, options=()):
    """The output of a testpmd that is expected not to start."""
    command = ["dpdk-testpmd", *eal(nic, [vdev], options), "--", "--total-num-mbufs=2048"]
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout + done.stderr


def mixed_packets():
    """Packets of all sizes, including those at every limit."""
    random.seed(4711)
    lengths = [14, 59, 60, 64, 65, 127, 128, 129, 130, 1514, 2048, 4095, 4096, 4097, 4224, 8192, 8193, 9599, 9600]
    lengths += [random.randrange(14, 9601) if i % 3 == 0 else random.randrange(14, 300) for i in range(280)]
    return [random.randbytes(length) for length in lengths]


def write_pcap(path, packets):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i, packet in enumerate(packets):
            file.write(struct.pack("<IIII", i, 0, len(packet), len(packet)) + packet)


def read_pcap(path):
    data = pathlib.Path(path).read_bytes()
    at, packets = 24, []
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        packets.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return packets


def held(process):
    """Open descriptors of a process, and its mappings of regions."""
    place = pathlib.Path("/proc") / str(process.pid)
    return len(os.listdir(place / "fd")), (place / "maps").read_text().count("ccnic")


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
