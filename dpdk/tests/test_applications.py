# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Applications of the DPDK drivers that are written for these tests, in C: interrupts, monitor addresses, packet types. Run by
`make dpdk-test`."""

import pathlib
import subprocess
import tempfile
import unittest

from harness import CPUS, PATIENCE, ROOT, Nic, NicPort, Place, Testpmd, eal, kill


def compiled(test, name):
    """A program of this folder, compiled for a class of tests."""
    directory = tempfile.TemporaryDirectory(prefix="ccnic-dpdk-")
    test.addClassCleanup(directory.cleanup)
    program = pathlib.Path(directory.name) / name
    flags = {what: subprocess.check_output(["pkg-config", what, "libdpdk"], text=True).split() for what in ("--cflags", "--libs")}
    source = ROOT / "dpdk" / "tests" / f"{name}.c"
    subprocess.run(["cc", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-DALLOW_EXPERIMENTAL_API", *flags["--cflags"], source, "-o", program,
                    *flags["--libs"]], check=True)
    return program


class PacketTypes(unittest.TestCase):
    """The driver's function for packet types: ptype.c."""

    def test_they_are_those_of_dpdk(self):
        with Place() as place:
            command = list(map(str, [compiled(type(self), "ptype"), *eal(place, [])]))
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "(?m)^the same$")


class Monitor(unittest.TestCase):
    """An application that asks which word the NIC writes with the next packet: monitor.c."""

    @classmethod
    def setUpClass(cls):
        cls.program = compiled(cls, "monitor")

    def test_the_word_changes_with_every_packet(self):
        for design in "ccnic", "paper", "packed", "padded", "e810":
            with self.subTest(design), Nic() as nic:
                vdev = f"net_ccnic0,socket={{socket}},rsize=64,queues=2,design={design}"
                command = list(map(str, [self.program, *eal(nic, [vdev])]))
                done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertRegex(done.stdout, r"(?m)^(woken|this processor cannot wait for a line)$")


class Interrupts(unittest.TestCase):
    """An application that waits in epoll: intr.c."""

    @classmethod
    def setUpClass(cls):
        cls.program = compiled(cls, "intr")

    def sleeper(self, nic, rx_queues, tx_queues, devargs=""):
        return self.application(nic, rx_queues, tx_queues, f"queues={max(rx_queues, tx_queues)}{devargs}")

    def application(self, nic, rx_queues, tx_queues, devargs, *more):
        vdev = f"net_ccnic0,socket={{socket}},{devargs}"
        command = [self.program, *eal(nic, [vdev]), "--", rx_queues, tx_queues, *more]
        process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.expect_line(process, "^ready$")  # as a NIC it listens
        return process

    def expect_line(self, process, pattern):
        """The program's next line, without EAL's."""
        while (line := process.stdout.readline()).startswith("EAL:"):
            pass
        self.assertRegex(line, pattern)
        return line

    def slept(self, process):
        """Waiting for half a second takes almost no CPU time; polling every millisecond would take ten times as much."""
        self.assertLess(int(self.expect_line(process, r"^idle \d+$").split()[1]), 1000)

    def test_every_packet_wakes_and_so_does_the_next_nic(self):
        for rx_queues, tx_queues, devargs in (1, 1, ""), (2, 3, ""), (2, 1, ",design=e810"):
            with self.subTest(rx=rx_queues, tx=tx_queues, devargs=devargs), Nic() as nic:
                program = self.sleeper(nic, rx_queues, tx_queues, devargs)
                self.slept(program)
                nic.kill()
                program.stdin.write("\n")
                program.stdin.flush()
                self.expect_line(program, "^asleep$")
                nic.start()
                self.expect_line(program, "^woken by the successor$")
                self.slept(program)
                self.expect_line(program, "^done$")
                self.assertEqual(program.wait(PATIENCE), 0)

    def test_a_nic_of_dpdk_wakes(self):
        """role=nic: the NIC is a testpmd, and its packets notify the program."""
        with Place() as place, NicPort(place) as nic:
            nic.do("start")
            program = self.sleeper(place, 1, 1)
            self.slept(program)
            program.kill()

    def reflector(self, place, queues, design="ccnic"):
        """A program that returns what the NIC sends."""
        vdev = f"net_ccnic0,socket={{socket}},queues={queues},design={design}"
        program = Testpmd(place, vdev, arguments=[f"--rxq={queues}", f"--txq={queues}", "--disable-rss", "--no-flush-rx"], cpu=CPUS[-1])
        program.do("set fwd io")
        program.do("start")
        return program

    def test_programs_wake_a_nic(self):
        """role=nic: the application is the NIC, which sleeps; a program comes, is killed, and another one comes."""
        for nic_queues, queues, design in (1, 1, "ccnic"), (2, 3, "ccnic"), (2, 1, "e810"):
            with self.subTest(nic=nic_queues, program=queues, design=design), Place() as place:
                nic = self.application(place, nic_queues, nic_queues, "role=nic", "nic")
                program = self.reflector(place, queues, design)
                self.slept(nic)
                kill(program.process)
                nic.stdin.write("\n")
                nic.stdin.flush()
                self.expect_line(nic, "^alone$")
                with self.reflector(place, queues, design) as program:
                    self.expect_line(nic, "^asleep$")
                    self.expect_line(nic, "^woken by the successor$")
                    self.slept(nic)
                    self.expect_line(nic, "^done$")
                    self.assertEqual(nic.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
