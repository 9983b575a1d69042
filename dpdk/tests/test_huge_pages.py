# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The DPDK driver in a program with huge pages and a shared configuration."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from harness import ENOUGH, PATIENCE, PLUGIN, Nic, Testpmd, read_pcap

PAGES = 96  # of 2 MiB: the program's, and those of the region


def linked_mempools(program):
    """
    The mempool drivers that a program of DPDK is linked with. They get the first numbers in its table of mempool ops, and a mempool in
    shared memory says by number which ops it has: a secondary process that is not linked with them calls others by the same number.
    """
    linked = subprocess.run(["ldd", shutil.which(program)], capture_output=True, text=True, check=True).stdout
    return ":".join(re.findall(r"=> (\S*/librte_mempool_\S+)", linked))


def free_pages():
    found = re.search(r"HugePages_Free: +(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return int(found[1]) if found else 0


@unittest.skipUnless(os.geteuid() == 0, "only root may mount hugetlbfs")
@unittest.skipUnless(free_pages() >= PAGES, f"needs {PAGES} free huge pages: sysctl vm.nr_hugepages={PAGES}")
class HugePages(unittest.TestCase):
    """A testpmd with hugetlbfs mounted in a mount namespace of its own."""

    def setUp(self):
        self.nic = self.enterContext(Nic())
        self.mount = self.enterContext(tempfile.TemporaryDirectory(prefix="ccnic-huge-"))
        self.prefix = pathlib.Path(self.mount).name
        self.runtime = pathlib.Path("/var/run/dpdk", self.prefix)
        self.addCleanup(shutil.rmtree, self.runtime, ignore_errors=True)  # DPDK does not remove it
        # The mount ends with the last process in the namespace.
        mount = ["unshare", "--mount", "sh", "-c", 'mount -t hugetlbfs none "$0" && exec "$@"', self.mount]
        if subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
            self.skipTest("hugetlbfs cannot be mounted here")
        self.program = self.enterContext(Testpmd(self.nic, wrap=mount, memory=self.memory("-m", "64"), options=()))

    def memory(self, *more):
        return ["--file-prefix", self.prefix, "--huge-dir", self.mount, *more]

    def telemetry(self, command):
        """An answer of the program's telemetry socket."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.settimeout(PATIENCE)
            s.connect(str(self.runtime / "dpdk_telemetry.v2"))
            s.recv(65536)  # its greeting
            s.send(command.encode())
            return json.loads(s.recv(65536))

    def test_packets_and_the_private_dump(self):
        self.program.do("set txpkts 1500")
        self.program.do("start tx_first 4")
        self.program.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
        dump = self.telemetry("/ethdev/dump_priv,0")["/ethdev/dump_priv"]
        self.assertIn(f"socket: {self.nic.socket}, id: net_ccnic0, NIC: running", dump)
        self.assertIn("zero-copy above 128 bytes", dump)

    def test_the_nic_dies(self):
        """The region, on huge pages, is copied to the same address for the next NIC."""
        first = self.buffers()
        self.program.do("set txpkts 64,1400")
        self.program.do("start tx_first 8")
        for n in range(1, 4):
            self.program.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            self.nic.kill()
            self.program.until("the link is down", lambda t: "Link status: down" in t.do("show port info 0"))
            self.nic.start()
            self.program.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
            self.assertEqual(self.program.xstats()["nic_reconnects"], n)
            # Packets that the dead NIC was processing are lost; new ones restart the traffic.
            self.program.do("stop")
            self.program.do("clear port stats 0")
            self.program.do("start tx_first 8")
        self.program.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
        self.program.do("stop")
        self.assertEqual(self.program.stats()["RX-errors"], 0)
        self.assertEqual(self.buffers(), first)

    def buffers(self):
        """How many buffers the region has, and where."""
        dump = self.telemetry("/ethdev/dump_priv,0")["/ethdev/dump_priv"]
        return re.search(r"buffers: (\d+) at (0x\w+)", dump).groups()

    def test_the_buffers_are_external_memory(self):
        first = re.search(r"buffers: (\d+) at (0x\w+)", self.telemetry("/ethdev/dump_priv,0")["/ethdev/dump_priv"])
        memory = self.program.do("dump_physmem")
        # Sockets from 256 on are EAL's external heaps.
        found = re.search(rf"len:4096, virt:{first[2]}, socket_id:(\d+)", memory)
        self.assertIsNotNone(found, f"{first[2]} not in {memory[:500]}")
        self.assertGreaterEqual(int(found[1]), 256)

    def secondary(self, tool, devices, *arguments):
        """Starts a tool of DPDK as a secondary process of the program, with the program's numbers of mempool ops."""
        options = [*self.memory("--proc-type=secondary"), "--no-pci", "-d", PLUGIN]
        options += (arg for device in devices for arg in ("--vdev", device.format(socket=self.nic.socket)))
        inside = ["nsenter", "--mount", "--target", str(self.program.process.pid)]
        return subprocess.Popen(list(map(str, [*inside, "stdbuf", "-oL", tool, *options, "--", *arguments])), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, "LD_PRELOAD": linked_mempools("dpdk-testpmd")})

    def said(self, *command):
        return self.secondary(*command).communicate(timeout=PATIENCE)[0]

    def test_a_secondary_process_reads_statistics(self):
        self.program.do("start tx_first 1")
        self.program.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
        self.program.do("stop")
        here = self.program.xstats()
        log = self.said("dpdk-proc-info", [], "-p", "1", "--xstats")
        there = {name: int(value) for name, value in re.findall(r"^(\w+): (\d+)$", log, re.MULTILINE)}
        for name in "rx_good_packets", "tx_good_bytes", "rx_inlined_packets", "tx_size_64_packets":
            self.assertEqual(there.get(name), here[name], log)

    def test_a_capture(self):
        """dpdk-pdump captures what the port receives, while it receives."""
        capture = pathlib.Path(self.mount).parent / f"{self.prefix}.pcap"
        self.addCleanup(capture.unlink, missing_ok=True)
        self.program.do("start tx_first 1")
        with self.secondary("dpdk-pdump", [], "--pdump", f"port=0,queue=*,rx-dev={capture},total-num-mbufs=1025") as pdump:
            log = ""
            while "capture for (1) tuples" not in log:
                log += (line := pdump.stdout.readline())
                self.assertTrue(line, log)
            # It writes in blocks, so a file with something in it shows that packets come.
            deadline = time.monotonic() + PATIENCE
            while not capture.exists() or capture.stat().st_size < 4096:
                self.assertLess(time.monotonic(), deadline, "nothing is captured")
                time.sleep(0.05)
            # Not while packets come: rte_pdump_disable() of DPDK 22.11 does not wait for a callback that is running, and dpdk-pdump then
            # frees the mempool that the callback uses. In one run of ten testpmd ended in the ops of another mempool driver.
            self.program.do("stop")
            pdump.send_signal(signal.SIGINT)
            log += pdump.communicate(timeout=PATIENCE)[0]
        self.assertEqual(pdump.returncode, 0, log)
        packets = read_pcap(capture)
        # It counts before it empties its ring for the last time.
        self.assertGreaterEqual(len(packets), int(re.search(r"packets dequeued:\s+(\d+)", log)[1]))
        self.assertGreater(len(packets), 0)
        # testpmd's own packets, which the loopback has returned.
        self.assertEqual({(len(packet), packet[12:14]) for packet in packets}, {(64, b"\x08\x00")})
        before = self.program.stats()["RX-packets"]
        self.program.do("start tx_first 1")
        self.program.until("packets", lambda t: t.stats()["RX-packets"] > before + ENOUGH)
        self.program.do("stop")

    def test_a_secondary_process_has_no_traffic_and_no_devices(self):
        log = self.said("dpdk-testpmd", ["net_ccnic1,socket={socket}"], "--num-procs=2", "--proc-id=1")
        self.assertIn("net_ccnic1: the primary process has no such device", log)
        log = self.said("dpdk-testpmd", [], "--num-procs=2", "--proc-id=1")
        self.assertIn("a secondary process cannot receive or send on a port of net_ccnic: give it a device of its own", log)


if __name__ == "__main__":
    unittest.main()
