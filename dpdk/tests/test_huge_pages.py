# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The DPDK driver in a program with huge pages and a shared configuration."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from harness import ENOUGH, PATIENCE, Nic, Testpmd, eal

PAGES = 96  # of 2 MiB: the program's, and those of the region


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
        self.program = self.enterContext(Testpmd(self.nic, wrap=mount, memory=self.memory("-m", "64")))

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

    def test_a_secondary_process_is_refused(self):
        secondary = ["dpdk-testpmd", *eal(self.nic, ["net_ccnic1,socket={socket}"], memory=self.memory("--proc-type=secondary"))]
        inside = ["nsenter", "--mount", "--target", str(self.program.process.pid)]
        done = subprocess.run(list(map(str, [*inside, *secondary, "--", "--num-procs=2", "--proc-id=1"])), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE)
        self.assertIn("net_ccnic1: secondary processes are not supported: give each process a device of its own", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
