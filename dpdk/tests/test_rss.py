# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Receive-side scaling in a DPDK application: every packet arrives on the queue that a hash computed here selects. Run by `make dpdk-test`."""

import ipaddress
import random
import re
import struct
import subprocess
import time
import unittest

from harness import ENOUGH, PATIENCE, RELEASE, ROOT, Nic, NicPort, Place, Testpmd, kill, read_pcap, write_pcap

QUEUES = 4
KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
OTHER_KEY = bytes(range(101, 141))
TCP, UDP, SCTP, ICMP, FRAGMENT = 6, 17, 132, 1, 44
VDEV = f"net_ccnic0,socket={{socket}},queues={QUEUES}"
ARGUMENTS = [f"--rxq={QUEUES}", f"--txq={QUEUES}"]


def toeplitz(key, data):
    """The Toeplitz hash by its definition, bit by bit."""
    key_bits = int.from_bytes(key, "big")
    result = 0
    for i in range(len(data) * 8):
        if data[i // 8] >> (7 - i % 8) & 1:
            result ^= key_bits >> (len(key) * 8 - 32 - i) & 0xFFFFFFFF
    return result


class Flow:
    """Addresses, ports, protocol, and the headers around them."""

    def __init__(self, number):
        self.number = number
        self.v6 = number % 2 == 1
        self.protocol = [TCP, UDP, UDP, SCTP, ICMP][number // 2 % 5]
        self.tags = number % 3
        self.ip = number % 11 != 10
        make = (lambda: random.randbytes(16)) if self.v6 else (lambda: random.randbytes(4))
        self.source, self.destination = make(), make()
        self.ports = random.randbytes(4)

    def packet(self, sequence, fragment=False):
        frame = b"\x02\0\0\0\0\7\x02\0\0\0\0\x08"
        for tag in range(self.tags):
            frame += struct.pack(">HH", [0x8100, 0x88A8][tag + 1 < self.tags], 7)
        payload = self.ports + struct.pack("<IIB", self.number, sequence, fragment) + bytes(random.randrange(40, 1000))
        if not self.ip:
            return frame + b"\x08\x06" + payload
        if self.v6:
            if fragment:
                payload = struct.pack(">BBHI", self.protocol, 0, 1, 77) + payload
            header = struct.pack(">IHBB", 6 << 28, len(payload), FRAGMENT if fragment else self.protocol, 64)
            return frame + b"\x86\xdd" + header + self.source + self.destination + payload
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 7, 0x2000 if fragment else 0x4000, 64, self.protocol, 0)
        return frame + b"\x08\x00" + header + self.source + self.destination + payload

    def hash(self, types, fragment=False, key=KEY):
        """The hash of a packet, or None. `types` are protocols; 4 and 6 stand for addresses alone."""
        if not self.ip:
            return None
        addresses = self.source + self.destination
        if self.protocol != ICMP and self.protocol in types and not fragment:
            return toeplitz(key, addresses + self.ports)
        return toeplitz(key, addresses) if (6 if self.v6 else 4) + 100 in types else None


IP = {104, 106}


def identify(packet):
    """Flow, number within the flow, and whether it is a fragment."""
    at = 12
    while packet[at : at + 2] in (b"\x81\0", b"\x88\xa8"):
        at += 4
    kind, at = packet[at : at + 2], at + 2
    if kind == b"\x86\xdd":
        at += 48 if packet[at + 6] == FRAGMENT else 40
    elif kind == b"\x08\0":
        at += 20
    return struct.unpack_from("<IIB", packet, at + 4)


def set_table(t, entries):
    """At most as many entries as testpmd accepts at once."""
    for i in range(0, len(entries), 12):
        t.do("port config 0 rss reta " + ",".join(f"({i + k},{queue})" for k, queue in enumerate(entries[i : i + 12])))


def even(hash_value):
    return (hash_value or 0) % 128 % QUEUES


class Verification(unittest.TestCase):
    def test_the_hash_of_this_file(self):
        """Microsoft's verification suite."""
        for destination, source, ports, expected in [
            ("161.142.100.80", "66.9.149.187", (2794, 1766), 0x51CCC178),
            ("65.69.140.83", "199.92.111.2", (), 0xD718262A),
            ("3ffe:2501:200:3::1", "3ffe:2501:200:1fff::7", (2794, 1766), 0x40207D3D),
            ("ff02::1", "3ffe:501:8::260:97ff:fe40:efab", (), 0x0F0C461C),
        ]:
            data = b"".join(ipaddress.ip_address(a).packed for a in (source, destination)) + struct.pack(f">{len(ports)}H", *ports)
            self.assertEqual(toeplitz(KEY, data), expected)


class RoleNic(Place):
    """A testpmd with role=nic that returns all packets; its one queue sends on all queues of its program."""

    def __enter__(self):
        self.port = NicPort(self)
        for command in "set fwd io retry", "set burst tx delay 1 retry 100000", "start":
            self.port.do(command)
        return self

    def __exit__(self, kind, *rest):
        self.port.__exit__(kind, *rest)
        super().__exit__(kind, *rest)


class CNic(Place):
    """libccnic's example of a NIC in C, which returns all packets and knows no RSS."""

    def __enter__(self):
        capi = ROOT / "crates" / "ccnic-capi"
        program = self.directory / "nic"
        subprocess.run(["cc", "-O2", f"-I{capi / 'include'}", capi / "examples" / "nic.c", RELEASE / "libccnic_capi.a", "-lpthread", "-ldl", "-lm",
                        "-o", program], check=True)
        self.process = subprocess.Popen([program, self.socket], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while not self.socket.exists():
            assert time.monotonic() < deadline, "it does not listen"
            time.sleep(0.01)
        return self

    def __exit__(self, *rest):
        self.process.terminate()
        self.process.wait()
        super().__exit__(*rest)


class Queues(unittest.TestCase):
    """A pcap file for each transmit queue, and one for each receive queue."""

    NIC = Nic

    def through(self, types, commands=(), key=KEY, queue_of=even, arguments=()):
        random.seed(4711)
        flows = [Flow(number) for number in range(66)]
        sent = [[] for _ in range(QUEUES)]
        for sequence in range(12):
            for flow in flows:
                sent[flow.number % QUEUES].append(flow.packet(sequence, fragment=sequence % 4 == 3))
        with self.NIC() as nic:
            there = [nic.directory / f"there{q}.pcap" for q in range(QUEUES)]
            back = [nic.directory / f"back{q}.pcap" for q in range(QUEUES)]
            for path, packets in zip(there, sent):
                write_pcap(path, packets)
            pcap = ",".join(["net_pcap0", *(f"rx_pcap={path}" for path in there), *(f"tx_pcap={path}" for path in back)])
            with Testpmd(nic, VDEV, more=[pcap], arguments=[*ARGUMENTS, "--no-flush-rx", *arguments]) as t:
                for command in *commands, "set fwd io", "start":
                    said = command(t) if callable(command) else t.do(command)
                    # "all" would include the other port, which does not support RSS.
                    self.assertNotRegex(said or "", "(?i)port 0 failed|bad arguments")
                t.until("all packets", lambda t: t.stats(1)["TX-packets"] == sum(map(len, sent)))
                t.do("stop")
                self.assertEqual((t.stats()["RX-missed"], t.stats()["RX-errors"]), (0, 0))
                xstats = t.xstats()
            came = [read_pcap(path) for path in back]
        self.assertEqual(sorted(sum(came, [])), sorted(sum(sent, [])), "all came, none twice")
        for queue, packets in enumerate(came):
            self.assertEqual(xstats[f"rx_q{queue}_packets"], len(packets))
            last = {}
            for packet in packets:
                number, sequence, fragment = identify(packet)
                self.assertEqual(queue_of(flows[number].hash(types, fragment, key)), queue, f"flow {number}, packet {sequence}")
                self.assertLess(last.get(number, -1), sequence, f"order in flow {number}")
                last[number] = sequence
        return [len(packets) for packets in came]

    def test_addresses(self):
        """testpmd's default setting."""
        self.assertGreater(min(self.through(IP)), 0)

    def test_ports(self):
        self.assertGreater(min(self.through(IP | {TCP, UDP, SCTP}, ["port config all rss all"])), 0)

    def test_udp_alone(self):
        self.through({UDP}, ["port config all rss udp"])

    def test_tcp_from_the_start(self):
        self.through({UDP}, arguments=["--rss-udp"])

    def test_nothing_hashed(self):
        counts = self.through(set(), ["port config all rss none"])
        self.assertEqual(counts[1:], [0] * (QUEUES - 1))

    def test_key(self):
        self.through(IP, [f"port config 0 rss-hash-key ipv4 {OTHER_KEY.hex()}", "port config all rss ip"], key=OTHER_KEY)

    def test_table(self):
        entries = [random.randrange(QUEUES) for _ in range(128)]
        self.through(IP, [lambda t: set_table(t, entries)], queue_of=lambda value: entries[(value or 0) % 128])

    def test_without_rss_packets_come_back_on_their_pair(self):
        random.seed(4711)
        with Nic() as nic, Testpmd(nic, VDEV, arguments=[*ARGUMENTS, "--disable-rss"]) as t:
            t.do("set fwd flowgen")
            t.do("start")
            t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            t.do("stop")
            t.drain()
            xstats = t.xstats()
            for queue in range(QUEUES):
                self.assertEqual(xstats[f"rx_q{queue}_packets"], xstats[f"tx_q{queue}_packets"])
            self.assertNotIn("RSS", nic.programs())

    def test_hashes_in_mbufs(self):
        random.seed(4711)
        flows = [Flow(number) for number in range(22)]
        with Nic() as nic:
            there = [nic.directory / f"there{q}.pcap" for q in range(QUEUES)]
            for queue, path in enumerate(there):
                write_pcap(path, [flow.packet(0) for flow in flows if flow.number % QUEUES == queue])
            pcap = ",".join(["net_pcap0", *(f"rx_pcap={path}" for path in there), *(f"tx_pcap={nic.directory}/{q}" for q in range(QUEUES))])
            with Testpmd(nic, VDEV, more=[pcap], arguments=[*ARGUMENTS, "--no-flush-rx", "--rss-udp"]) as t:
                for command in "port stop 0", "port config 0 rx_offload rss_hash on", "port start 0", "set verbose 1", "set fwd io":
                    t.do(command)
                start = end = len(t.log)
                t.tell("start")
                # Both ports print one; the output is interleaved with the prompt.
                for _ in range(2 * len(flows)):
                    end = t.wait("Receive queue=", end)
                t.do("stop")
                said = re.findall(r"RSS hash=0x([0-9a-f]+) - RSS queue=0x([0-9a-f]+)", t.log[start:])
        hashes = [flow.hash({UDP}) for flow in flows]
        self.assertEqual(sorted((int(h, 16), int(q, 16)) for h, q in said), sorted((h, even(h)) for h in hashes if h is not None))


class Control(unittest.TestCase):
    """Hash functions, key and table are read, changed and refused."""

    @classmethod
    def setUpClass(cls):
        cls.nic = Nic()
        cls.addClassCleanup(cls.nic.__exit__)

    ALL = "(0xffffffffffffffff,0xffffffffffffffff)"

    def table(self, t):
        text = t.do(f"show port 0 rss reta 128 {self.ALL}")
        return [int(queue) for _, queue in re.findall(r"hash index=(\d+), queue=(\d+)", text)]

    def test_what_the_device_offers(self):
        with Testpmd(self.nic, VDEV, arguments=ARGUMENTS) as t:
            info = t.do("show port info 0")
            for line in "Redirection table size: 128", "Hash key size in bytes: 40", "Supported RSS offload flow types:":
                self.assertIn(line, info)
            for name in "ipv4", "ipv4-tcp", "ipv4-udp", "ipv4-sctp", "ipv6", "ipv6-tcp", "ipv6-udp", "ipv6-sctp":
                self.assertRegex(info, rf"\s{name}\s")
            self.assertIn("RSS_HASH", t.do("show port 0 rx_offload capabilities"))
            self.assertRegex(t.do("show port 0 rss-hash"), r"RSS functions:\s+ipv4 +ipv6")
            self.assertEqual(self.table(t), [i % QUEUES for i in range(128)])
            self.assertIn(KEY.hex().upper(), t.do("show port 0 rss-hash key").upper())
            self.assertIn("RSS", self.nic.programs())

    def test_the_application_changes_and_keeps_it(self):
        with Testpmd(self.nic, VDEV, arguments=ARGUMENTS) as t:
            t.do(f"port config 0 rss-hash-key ipv4 {OTHER_KEY.hex()}")
            t.do("port config 0 rss reta (3,3),(64,3),(127,0)")
            expected = [i % QUEUES for i in range(128)]
            expected[3], expected[64], expected[127] = 3, 3, 0
            for _ in range(2):
                self.assertEqual(self.table(t), expected)
                self.assertIn(OTHER_KEY.hex().upper(), t.do("show port 0 rss-hash key").upper())
                t.do("port stop 0")
                t.do("port start 0")
            # Another number of queues resets the table.
            for command in "port stop 0", "port config all rxq 2", "port start 0":
                t.do(command)
            self.assertEqual(self.table(t), [i % 2 for i in range(128)])

    def test_refusals(self):
        with Testpmd(self.nic, VDEV, arguments=ARGUMENTS) as t:
            self.assertRegex(t.do("port config 0 rss reta (0,4)"), "(?i)out of range|bad|fail|invalid|error")
            self.assertRegex(t.do("show port 0 rss reta 64 (0xffffffffffffffff)"), "(?i)give 128|bad|fail|invalid")
            self.assertRegex(t.do("port config 0 rss-hash-key ipv4 0011"), "(?i)invalid|bad|fail|error")
            self.assertEqual(self.table(t), [i % QUEUES for i in range(128)])

    def test_what_has_no_room_is_missed(self):
        """All flows on one queue, which is polled as often as the others: the sums are right, and traffic flows."""
        with Testpmd(self.nic, VDEV + ",rsize=64", arguments=[*ARGUMENTS, "--flowgen-flows=64"]) as t:
            set_table(t, [2] * 128)
            t.do("set fwd flowgen")
            t.do("start")
            t.until("missed packets", lambda t: (s := t.stats())["RX-missed"] > 0 and s["RX-packets"] >= ENOUGH)
            t.do("stop")
            t.do("set fwd rxonly")
            t.do("start")
            t.until("all packets, or their number", lambda t: (s := t.stats())["RX-packets"] + s["RX-missed"] == s["TX-packets"])
            t.do("stop")
            xstats, stats = t.xstats(), t.stats()
            self.assertEqual(xstats["rx_q2_packets"], stats["RX-packets"])
            self.assertEqual(xstats["rx_missed_errors"], stats["RX-missed"])
            t.do("clear port stats 0")
            self.assertEqual(set(t.stats().values()), {0})


class UnderLoad(unittest.TestCase):
    """Tables change while packets flow, and survive the NIC."""

    def only(self, t, queues):
        """From now on packets arrive on these queues only."""
        set_table(t, [queues[i % len(queues)] for i in range(128)])
        self.assert_only(t, queues)

    def assert_only(self, t, queues):
        t.do("stop")
        t.drain_missing()
        t.do("clear port xstats 0")
        t.do("set fwd flowgen")
        t.do("start")
        t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
        xstats = t.xstats()
        came = [queue for queue in range(QUEUES) if xstats[f"rx_q{queue}_packets"] > 0]
        self.assertEqual(came, sorted(set(queues)))

    def test_tables(self):
        with Nic() as nic, Flowgen(nic) as t:
            for queues in [1], [0, 1, 2, 3], [3, 0], [2], [1, 2]:
                self.only(t, queues)
            for types in "udp", "ip", "none", "all":
                t.do(f"port config all rss {types}")
                t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            t.do("stop")

    def test_the_nic_is_killed(self):
        with Nic() as nic, Flowgen(nic) as t:
            for n, queues in enumerate(([1, 3], [0], [2, 3]), 1):
                self.only(t, queues)
                nic.kill()
                t.until("the link is down", lambda t: "Link status: down" in t.do("show port info 0"))
                if n == 2:
                    queues = [3, 1]
                    set_table(t, [queues[i % 2] for i in range(128)])
                nic.start()
                t.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
                self.assertEqual(t.xstats()["nic_reconnects"], n)
                self.assert_only(t, queues)
            t.do("stop")


class Flowgen(Testpmd):
    """A testpmd that sends many flows on all queues."""

    def __init__(self, nic):
        super().__init__(nic, VDEV, arguments=[*ARGUMENTS, "--flowgen-flows=256"])
        self.nic = nic
        self.do("set fwd flowgen")
        self.do("start")

    def drain_missing(self):
        """Receives until no more packets come; a NIC that was killed has lost some."""
        self.do("set fwd rxonly")
        self.do("start")
        self.until("empty rings", Flowgen.is_still)
        self.do("stop")

    def is_still(self):
        """True if no packet is in the rings or in the NIC."""
        if not all("DONE" in self.do(f"show port 0 txq {q} desc 1023 status") for q in range(QUEUES)):
            return False
        if sum(q["tx_packets"] - q["rx_packets"] - q["drop_ring_full"] - q["drop_no_buffer"] for q in self.nic.queues()) != 0:
            return False
        return all("count = 0" in self.do(f"show port 0 rxq {q} desc used count") for q in range(QUEUES))


class QueuesOfRoleNic(Queues):
    """The same by a port with role=nic."""

    NIC = RoleNic
    # ccnicd's affair: no RSS, and no NIC.
    test_without_rss_packets_come_back_on_their_pair = None

    def test_hashes_in_mbufs_and_full_rings(self):
        """A queue that nobody polls loses its packets, on both sides' counters, and holds up no other one."""
        with RoleNic() as nic, Testpmd(nic, VDEV, arguments=[*ARGUMENTS, "--flowgen-flows=256", "--rx-offloads=0x80000"]) as t:
            set_table(t, [0, 1] * 64)
            t.do("port 0 rxq 1 stop")
            t.do("set fwd flowgen")
            t.do("start")
            t.until("packets beside a full ring", lambda t: t.xstats()["rx_q0_packets"] >= ENOUGH and t.stats()["RX-missed"] > 0)
            t.do("stop")
            nic.port.do("stop")
            xstats = nic.port.xstats()
            self.assertGreater(xstats["tx_dropped_no_room_packets"], 0)
            self.assertEqual(t.stats()["RX-missed"], xstats["tx_dropped_no_room_packets"])
            t.do("set verbose 1")
            t.do("set fwd rxonly")
            t.do("port 0 rxq 1 start")
            t.do("start")
            t.until("hashes", lambda t: t.do("") and "RSS hash=" in t.log)
            t.do("stop")


class NicsWithoutIt(unittest.TestCase):
    """A NIC that does not support RSS: the application is told, and continues."""

    def setUp(self):
        self.nic = self.enterContext(CNic())

    def test_packets_come_all_the_same(self):
        with Testpmd(self.nic, VDEV, arguments=ARGUMENTS) as t:
            self.assertIn("this NIC does not support RSS: packets arrive on the queue that it chooses", t.log)
            t.do("start tx_first 4")
            t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            t.do("stop")
            xstats = t.xstats()
            self.assertTrue(all(xstats[f"rx_q{queue}_packets"] > 0 for queue in range(QUEUES)))
            refusal = t.do("port config 0 rss reta (0,1)")
            self.assertTrue("port 0: RSS: " in refusal and "return code = -95" in refusal, refusal)
            self.assertIn("queue=0", t.do("show port 0 rss reta 128 (0x1,0x0)"))

    def test_a_successor_that_can(self):
        with Testpmd(self.nic, VDEV, arguments=[*ARGUMENTS, "--flowgen-flows=256"]) as t:
            kill(self.nic.process)
            t.until("the link is down", lambda t: "Link status: down" in t.do("show port info 0"))
            with Nic() as daemon:
                self.nic.socket.unlink(missing_ok=True)
                self.nic.socket.symlink_to(daemon.socket)
                t.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
                self.assertIn("RSS", daemon.programs())
                set_table(t, [2] * 128)
                t.do("set fwd flowgen")
                t.do("start")
                t.until("packets", lambda t: t.xstats()["rx_q2_packets"] >= ENOUGH)
                t.do("stop")


if __name__ == "__main__":
    unittest.main()
