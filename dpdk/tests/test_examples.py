# SPDX-License-Identifier: Apache-2.0 OR MIT
"""DPDK's own examples, built as they are from the source of the DPDK that is installed, on two net_ccnic ports of a switch. Run by
`make dpdk-test`."""

import os
import pathlib
import select
import struct
import subprocess
import time
import unittest

from frames import TCP, UDP, Frame, checksum, frame
from harness import BUILD, CPUS, PATIENCE, Nic, Testpmd, eal, read_pcap, write_pcap

EXAMPLES = BUILD / "headers" / "examples"
TESTS = pathlib.Path(__file__).parent
GENERATOR = b"\x02\0\0\0\0\x62"
PORTS = ("02:00:00:00:01:00", "02:00:00:00:01:01")


def built(name):
    """The example's program, built by its own Makefile."""
    if not (EXAMPLES / name).is_dir():
        raise unittest.SkipTest(f"no source of DPDK's examples in {EXAMPLES}: dpdk/headers.sh fetches it")
    make = subprocess.run(["make", "-C", EXAMPLES / name, "shared"], capture_output=True, text=True)
    if make.returncode != 0:
        raise AssertionError(make.stdout + make.stderr)
    return EXAMPLES / name / "build" / f"{name}-shared"


class Example:
    """A running example. Ends with the block."""

    def __init__(self, nic, name, arguments, ready):
        vdevs = [f"net_ccnic{i},socket={{socket}},mac={mac},id=router{i}" for i, mac in enumerate(PORTS)]
        command = ["stdbuf", "-oL", built(name), *eal(nic, vdevs, ["--lcores", f"0@{CPUS[0]}"])]
        # The last --lcores is the one that counts: EAL refuses two.
        at = command.index("--lcores")
        del command[at : at + 2]
        self.process = subprocess.Popen(list(map(str, [*command, "--", *arguments])), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.log = ""
        deadline = time.monotonic() + PATIENCE
        while ready not in self.log:
            if not select.select([self.process.stdout], [], [], deadline - time.monotonic())[0]:
                raise AssertionError(f"{name} does not say {ready!r}:\n{self.log}")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise AssertionError(f"{name} has ended with {self.process.wait()}:\n{self.log}")
            self.log += data.decode(errors="replace")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        # Some examples do not end before they have a packet; nothing of them is needed any more.
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def addressed(data, destination, identification=None, fragment=None):
    """A frame of `frame()` for IPv4, to this address, with a right header checksum."""
    ip = bytearray(data[14:34])
    ip[16:20] = bytes(destination)
    if identification is not None:
        ip[4:6] = struct.pack("!H", identification)
    if fragment is not None:
        ip[6:8] = struct.pack("!H", fragment)
    ip[10:12] = bytes(2)
    ip[10:12] = struct.pack("!H", checksum(bytes(ip)))
    return data[:14] + bytes(ip) + data[34:]


def to_port(index, protocol, number, payload, destination):
    mac = bytes.fromhex(PORTS[index].replace(":", ""))
    return addressed(frame(4, protocol, number, payload, to=mac, by=GENERATOR), destination)


class Examples(unittest.TestCase):
    def through(self, name, arguments, ready, packets, number, mtu=1500):
        """What an example sends of these packets: the frames that are not the generator's own."""
        with Nic("--wire", "switch", "--config", TESTS / "router.toml") as nic:
            there, back = nic.directory / "there.pcap", nic.directory / "back.pcap"
            write_pcap(there, packets)
            more = [f"net_pcap0,rx_pcap={there},tx_pcap={back}"]
            with Example(nic, name, arguments, ready), \
                    Testpmd(nic, options=(), more=more, arguments=["--no-flush-rx", "--mbuf-size=9900"]) as t:
                for command in "port stop 0", f"port config mtu 0 {mtu}", "port start 0", "set fwd io", "start":
                    t.do(command)
                t.until(f"{number} packets of {name}", lambda t: t.stats(1)["TX-packets"] >= number)
                t.do("stop")
                self.assertEqual((t.stats()["RX-errors"], t.stats()["RX-missed"]), (0, 0))
            return read_pcap(back)

    def routed(self, came, sent, hop=1):
        """All were routed once: one hop less, to another address, with a right header checksum."""
        self.assertEqual(sorted((f[34:], f[30:34]) for f in came), sorted((f[34:], f[30:34]) for f in sent))
        for data in came:
            self.assertTrue(Frame(data).ip_right)
            self.assertEqual(data[22], 64 - hop)

    def test_l3fwd(self):
        """By longest prefix; it refuses ports that cannot tell packet types."""
        rules = EXAMPLES / "l3fwd" / "lpm_default_v4.cfg", EXAMPLES / "l3fwd" / "lpm_default_v6.cfg"
        packets = [to_port(i % 2, (TCP, UDP)[i // 2 % 2], 1000 + i, bytes(range(i)), (198, 18, 1 - i % 2, i)) for i in range(64)]
        arguments = ["-p", "3", "--config=(0,0,0),(1,0,0)", "--lookup=lpm", f"--rule_ipv4={rules[0]}", f"--rule_ipv6={rules[1]}"]
        came = self.through("l3fwd", arguments, "entering main loop", packets, len(packets))
        self.routed(came, packets)

    def test_l3fwd_power(self):
        """It sleeps until an interrupt tells it of packets."""
        packets = [to_port(i % 2, UDP, 1000 + i, bytes(range(i)), (2 - i % 2, 1, 1, i)) for i in range(64)]
        came = self.through("l3fwd-power", ["-p", "3", "--config=(0,0,0),(1,0,0)", "--interrupt-only"], "L3FWD_POWER: entering main",
                            packets, len(packets))
        self.routed(came, packets)

    def fragments(self, packets, size):
        """What a router would make of packets for links of this MTU."""
        pieces = []
        for data in packets:
            payload = data[34:]
            for at in range(0, len(payload), size):
                part = payload[at : at + size]
                more = 0x2000 if at + size < len(payload) else 0
                head = bytearray(data[:34])
                head[16:18] = struct.pack("!H", 20 + len(part))
                pieces.append(addressed(bytes(head) + part, data[30:34], fragment=more | at // 8))
        return pieces

    def test_ip_fragmentation(self):
        """Fragments of jumbo frames, with header checksums that it leaves to the port."""
        packets = [addressed(to_port(i % 2, UDP, 1000 + i, bytes(j % 251 for j in range(4000 + i)), (100, 20 - 10 * (i % 2), 0, 1)),
                             (100, 20 - 10 * (i % 2), 0, 1), 700 + i, 0) for i in range(8)]
        number = sum(-(-len(data[34:]) // 1480) for data in packets)
        came = self.through("ip_fragmentation", ["-p", "3", "-q", "2"], "entering main loop", packets, number, mtu=9000)
        self.assertTrue(all(checksum(data[14:34]) == 0 for data in came))
        for data in packets:
            pieces = [f for f in came if f[18:20] == data[18:20]]
            pieces.sort(key=lambda f: struct.unpack_from("!H", f, 20)[0] & 0x1FFF)
            total = [f[34 : 14 + struct.unpack_from("!H", f, 16)[0]] for f in pieces]
            self.assertEqual(b"".join(total), data[34:])
            self.assertLess(max(map(len, pieces)), 1515)

    def test_ip_reassembly(self):
        """It knows fragments by their packet type."""
        packets = [addressed(to_port(0, UDP, 1000 + i, bytes(j % 251 for j in range(4000 + i)), (100, 20, 0, 1)), (100, 20, 0, 1), 700 + i, 0)
                   for i in range(8)]
        pieces = self.fragments(packets, 1480)
        came = self.through("ip_reassembly", ["-p", "3", "-q", "2", "--maxflows=256", "--flowttl=10s"], "entering main loop", pieces,
                            len(packets), mtu=9000)
        self.assertEqual(sorted(f[34:] for f in came), sorted(f[34:] for f in packets))
        self.assertTrue(all(checksum(f[14:34]) == 0 for f in came), "left to the port")


if __name__ == "__main__":
    unittest.main(verbosity=1)
