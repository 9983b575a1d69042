# SPDX-License-Identifier: Apache-2.0 OR MIT
"""DPDK's own examples, built as they are from the source of the DPDK that is installed, on two net_ccnic ports: of a switch, or of a
testpmd with role=nic. Run by `make dpdk-test`."""

import concurrent.futures
import functools
import json
import os
import pathlib
import select
import struct
import subprocess
import time
import unittest

from frames import TCP, UDP, Frame, checksum, frame
from harness import BUILD, CPUS, PATIENCE, RELEASE, Nic, NicPort, Place, Testpmd, eal, read_pcap, write_pcap

EXAMPLES = BUILD / "headers" / "examples"
TESTS = pathlib.Path(__file__).parent
GENERATOR = b"\x02\0\0\0\0\x62"
PORTS = ("02:00:00:00:01:00", "02:00:00:00:01:01")


# The examples whose programs have other names.
PROGRAMS = {"skeleton": "basicfwd", "bond": "bond_app"}
USED = ("l2fwd", "l3fwd", "l3fwd-power", "ip_fragmentation", "ip_reassembly", "skeleton", "rxtx_callbacks", "packet_ordering", "link_status_interrupt",
        "bond")


@functools.cache
def built(name):
    """The example's program, built by its own Makefile."""
    if not (EXAMPLES / name).is_dir():
        raise unittest.SkipTest(f"no source of DPDK's examples in {EXAMPLES}: dpdk/headers.sh fetches it")
    make = subprocess.run(["make", "-C", EXAMPLES / name, "shared"], capture_output=True, text=True)
    if make.returncode != 0:
        raise AssertionError(make.stdout + make.stderr)
    return EXAMPLES / name / "build" / f"{PROGRAMS.get(name, name)}-shared"


def setUpModule():
    """Compiles the examples, as many at a time as there are CPUs; the test of one that cannot be built says so."""
    with concurrent.futures.ThreadPoolExecutor(len(CPUS)) as threads:
        for job in [threads.submit(built, name) for name in USED]:
            job.exception()


class Example:
    """A running example. Ends with the block."""

    def __init__(self, name, vdevs, arguments, ready, lcores=f"0@{CPUS[0]}"):
        command = ["stdbuf", "-oL", built(name), *eal(None, vdevs, ["--lcores", lcores])]
        # The last --lcores is the one that counts: EAL refuses two.
        at = command.index("--lcores")
        del command[at : at + 2]
        self.name, self.log = name, ""
        # One example ends at the end of its input.
        self.process = subprocess.Popen(list(map(str, [*command, "--", *arguments])), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.wait(ready)

    def wait(self, text):
        """Waits until it says so."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.log:
            if not select.select([self.process.stdout], [], [], deadline - time.monotonic())[0]:
                raise AssertionError(f"{self.name} does not say {text!r}:\n{self.log}")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise AssertionError(f"{self.name} has ended with {self.process.wait()}:\n{self.log}")
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
        self.process.stdin.close()
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


class OnASwitch(unittest.TestCase):
    """Routers: both ports are at one switch, as is the generator."""

    def through(self, name, arguments, ready, packets, number, mtu=1500, queues=1, look=lambda nic: None, **example):
        """What an example sends of these packets: the frames that are not the generator's own. Calls `look` at the end."""
        with Nic("--wire", "switch", "--config", TESTS / "router.toml") as nic:
            vdevs = [f"net_ccnic{i},socket={nic.socket},mac={mac},id=router{i},queues={queues}" for i, mac in enumerate(PORTS)]
            there, back = nic.directory / "there.pcap", nic.directory / "back.pcap"
            write_pcap(there, packets)
            more = [f"net_pcap0,rx_pcap={there},tx_pcap={back}"]
            with Example(name, vdevs, arguments, ready, **example), \
                    Testpmd(nic, options=(), more=more, arguments=["--no-flush-rx", "--mbuf-size=9900"]) as t:
                for command in "port stop 0", f"port config mtu 0 {mtu}", "port start 0", "set fwd io", "start":
                    t.do(command)
                t.until(f"{number} packets of {name}", lambda t: t.stats(1)["TX-packets"] >= number)
                t.do("stop")
                self.assertEqual((t.stats()["RX-errors"], t.stats()["RX-missed"]), (0, 0))
                look(nic)
            return read_pcap(back)

    def routed(self, came, sent, hop=1):
        """All were routed once: one hop less, to another address, with a right header checksum."""
        self.assertEqual(sorted((f[34:], f[30:34]) for f in came), sorted((f[34:], f[30:34]) for f in sent))
        for data in came:
            self.assertTrue(Frame(data).ip_right)
            self.assertEqual(data[22], 64 - hop)

    def test_l2fwd(self):
        """What comes in at one port goes out at the other, with addresses of l2fwd's own."""
        packets = [to_port(i % 2, (TCP, UDP)[i // 2 % 2], 1000 + i, bytes(range(i)), (10, 0, 0, i)) for i in range(64)]
        came = self.through("l2fwd", ["-p", "3", "-q", "2"], "entering main loop", packets, len(packets))
        expected = []
        for i, data in enumerate(packets):
            out = 1 - i % 2
            expected.append(bytes([2, 0, 0, 0, 0, out]) + bytes.fromhex(PORTS[out].replace(":", "")) + data[12:])
        self.assertEqual(sorted(came), sorted(expected))

    def l3fwd(self, config, **more):
        """By longest prefix; it refuses ports that cannot tell packet types."""
        rules = EXAMPLES / "l3fwd" / "lpm_default_v4.cfg", EXAMPLES / "l3fwd" / "lpm_default_v6.cfg"
        packets = [to_port(i % 2, (TCP, UDP)[i // 2 % 2], 1000 + i, bytes(range(i)), (198, 18, 1 - i % 2, i)) for i in range(64)]
        arguments = ["-p", "3", f"--config={config}", "--lookup=lpm", f"--rule_ipv4={rules[0]}", f"--rule_ipv6={rules[1]}"]
        came = self.through("l3fwd", arguments, "entering main loop", packets, len(packets), **more)
        self.routed(came, packets)

    def test_l3fwd(self):
        self.l3fwd("(0,0,0),(1,0,0)")

    def test_l3fwd_with_rss(self):
        """Two queues a port, each on an lcore of its own: the switch spreads the flows over them."""

        def look(nic):
            status = subprocess.run([RELEASE / "ccnic", "status", "--json", "--socket", nic.socket], capture_output=True, check=True)
            routers = [program for program in json.loads(status.stdout)["programs"] if program["name"].startswith("router")]
            received = [queue["rx_packets"] for router in routers for queue in router["queues"]]
            self.assertEqual((len(received), sum(received)), (4, 64))
            self.assertTrue(all(received), received)

        self.l3fwd("(0,0,0),(0,1,1),(1,0,0),(1,1,1)", queues=2, look=look, lcores=f"0@{CPUS[0]},1@{CPUS[-1]}")

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


class BetweenTwoWires(unittest.TestCase):
    """The example's ports are programs of two ports of a testpmd with role=nic: what is in a file goes in, what comes goes into another."""

    def setUp(self):
        self.place = self.enterContext(Place())

    def between(self, name, arguments, ready, packets, number, then=lambda nic, example: None, **example):
        """What comes out on either side when these packets go in: `number` of them altogether."""
        there, back = ([self.place.directory / f"{way}{side}.pcap" for side in (0, 1)] for way in ("there", "back"))
        for path, side in zip(there, packets):
            write_pcap(path, side)
        sockets = [f"{self.place.socket}{end}" for end in ("", "-1")]
        files = [f"net_pcap{side},rx_pcap={there[side]},tx_pcap={back[side]}" for side in (0, 1)]
        more = [files[0], f"net_ccnic1,role=nic,socket={sockets[1]}", files[1]]
        vdevs = [f"net_ccnic{i},socket={socket},mac={mac}" for i, (socket, mac) in enumerate(zip(sockets, PORTS))]
        with NicPort(self.place, more=more, arguments=["--no-flush-rx"]) as nic, \
                Example(name, vdevs, arguments, ready, **example) as running:
            nic.do("set fwd io")
            for port in 0, 2:
                nic.until("the example is there", lambda t: "Link status: up" in t.do(f"show port info {port}"))
            nic.do("start")
            nic.until(f"{number} packets of {name}", lambda t: sum(t.stats(port)["TX-packets"] for port in (1, 3)) >= number)
            nic.do("stop")
            then(nic, running)
        return [read_pcap(path) for path in back]

    def packets(self, n=64):
        """For either side, of all lengths."""
        return [[frame(4, UDP, 1000 + 100 * side + i, bytes(range(i)), by=GENERATOR) for i in range(n)] for side in (0, 1)]

    def crosses(self, name, arguments, ready, **example):
        """What goes in on one side comes out on the other: the same bytes in the same order."""
        packets = self.packets()
        self.assertEqual(self.between(name, arguments, ready, packets, 128, **example), packets[::-1])

    def test_skeleton(self):
        self.crosses("skeleton", [], "forwarding packets")

    def test_rxtx_callbacks(self):
        self.crosses("rxtx_callbacks", [], "forwarding packets")

    def test_packet_ordering(self):
        """A thread that receives, one that works, one that sends."""
        self.crosses("packet_ordering", ["-p", "3"], "started on lcore", lcores=f"0@{CPUS[0]},1@{CPUS[0]},2@{CPUS[-1]}")

    def test_link_status_interrupt(self):
        """It changes the addresses of what it forwards, and is told when a port's NIC ends."""

        def then(nic, example):
            self.assertNotIn("Port 0 Link down", example.log)
            for command in "port stop 0", "port close 0":
                nic.do(command)
            example.wait("Event type: LSC interrupt")
            example.wait("Port 0 Link down")

        packets = self.packets()
        came = self.between("link_status_interrupt", ["-p", "3", "-q", "2", "-T", "0"], "entering main loop", packets, 128, then)
        for side, got in enumerate(came):
            mac = bytes.fromhex(PORTS[side].replace(":", ""))
            self.assertEqual(got, [b"\2\0\0\0\0" + bytes([side]) + mac + packet[12:] for packet in packets[1 - side]])

    def test_bond(self):
        """Two ports as one, with adaptive load balancing: it answers to ARP. (What it returns of IPv4 it frees as well: not tried.)"""
        own = bytes((7, 0, 0, 10))
        clients = [(b"\2\0\0\0\5" + bytes([i]), bytes((10, 0, 0, i))) for i in range(1, 9)]
        ask = [b"\xff" * 6 + mac + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + mac + ip + bytes(6) + own for mac, ip in clients]
        came = self.between("bond", [], "Our IP", [ask, []], len(ask), lcores=f"0@{CPUS[0]},1@{CPUS[-1]}")
        answers = [packet for side in came for packet in side if packet[12:14] == b"\x08\x06" and packet[21] == 2]
        for mac, ip in clients:
            to = [packet for packet in answers if packet[32:42] == mac + ip]
            self.assertTrue(to, f"no answer to {ip}")
            self.assertTrue(all(packet[:6] == mac and packet[28:32] == own for packet in to))


if __name__ == "__main__":
    unittest.main(verbosity=1)
