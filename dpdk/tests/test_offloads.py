# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checksums, segmentation, VLAN tags and packet types of the driver. Run by `make dpdk-test`."""

import contextlib
import unittest

from frames import TCP, Frame, all_kinds, frame
from harness import Nic, NicPort, Place, Testpmd, read_pcap, write_pcap

CKSUMS = ("ipv4_cksum", "udp_cksum", "tcp_cksum")
MTU = 9586


def port(direction, offloads, *more, mtu=MTU):
    """Commands that switch offloads of port 0 on, and others that need it stopped. The csum engine leaves to the port what it offers."""
    words = [f"port config 0 {direction}_offload {name} on" for name in offloads]
    return ["port stop 0", f"port config mtu 0 {mtu}", *words, *more, "port start 0"]


class Offloads(unittest.TestCase):
    """A sender forwards frames of a file by testpmd's csum engine, a receiver writes what it gets into another one."""

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())

    def sender(self, nic, frames, commands, devargs=""):
        """A testpmd that sends frames of a file, with offloads that the commands choose; checksums by hardware where possible."""
        there = nic.directory / "there.pcap"
        write_pcap(there, frames)
        t = self.stack.enter_context(Testpmd(nic, f"net_ccnic0,socket={{socket}}{devargs}", options=(),
                                             more=[f"net_pcap0,rx_pcap={there},tx_pcap={nic.directory / 'unused.pcap'}"],
                                             arguments=["--no-flush-rx", "--mbuf-size=9900", "--eth-peer=0,02:00:00:00:00:63"]))
        self.tell(t, [*commands, "set fwd csum"])
        return t

    def receiver(self, nic, commands, devargs="", **arguments):
        """A testpmd that writes what it receives into a file."""
        t = self.stack.enter_context(Testpmd(nic, f"net_ccnic0,socket={{socket}}{devargs}", **arguments, options=(), more=[f"net_pcap1,tx_pcap={nic.directory / 'back.pcap'}"],
                                             arguments=["--mbuf-size=9900"]))
        self.tell(t, [*commands, "set fwd io", "start"])
        return t

    def tell(self, t, commands):
        for command in commands:
            self.assertNotRegex(t.do(command), "(?i)fail|error|bad arg|unknown|please")

    def arrived(self, nic, t, sent, number):
        """Starts the sender and waits for so many frames; returns them."""
        sent.do("start")
        t.until(f"{number} frames", lambda t: t.stats(1)["TX-packets"] >= number)
        sent.do("stop")
        t.do("stop")
        return [Frame(data) for data in read_pcap(nic.directory / "back.pcap")]

    HARDWARE = port("tx", CKSUMS)

    def assert_same(self, came, sent):
        self.assertEqual([(f.port, f.payload) for f in came], [(f.port, f.payload) for f in map(Frame, sent)])

    def test_the_switch_computes_checksums_for_who_takes_none(self):
        frames = all_kinds([0, 1, 6, 40, 200, 1400, 5000])
        nic = self.stack.enter_context(Nic("--wire", "switch"))
        receiver = self.receiver(nic, [*port("rx", ()), "set verbose 1"])
        sender = self.sender(nic, frames, self.HARDWARE)
        came = self.arrived(nic, receiver, sender, len(frames))
        self.assert_same(came, frames)
        self.assertTrue(all(f.right for f in came))
        self.assertNotIn("hw ptype: L", receiver.log, "testpmd has chosen no packet types")
        self.assertEqual(sender.xstats()["tx_computed_packets"], 0)

    def test_who_forwards_gets_checksums(self):
        """Without partial=yes: an application that enables receive checksums may pass packets on as they are."""
        frames = all_kinds([0, 1, 200, 5000])
        nic = self.stack.enter_context(Nic("--wire", "switch"))
        receiver = self.receiver(nic, port("rx", CKSUMS))
        came = self.arrived(nic, receiver, self.sender(nic, frames, self.HARDWARE), len(frames))
        self.assert_same(came, frames)
        self.assertTrue(all(f.right for f in came))

    def test_who_takes_checksums_gets_none(self):
        """The flags say so, and the types of packets are what they are."""
        frames = [frame(4, TCP, 1024, bytes(100)), frame(6, TCP, 1025, bytes(1000))]
        nic = self.stack.enter_context(Nic("--wire", "switch"))
        receiver = self.receiver(nic, [*port("rx", CKSUMS), "set port 0 ptype_mask 0xfffffff", "set verbose 1"], ",partial=yes")
        sender = self.sender(nic, frames, self.HARDWARE)
        came = self.arrived(nic, receiver, sender, 2)
        self.assert_same(came, frames)
        self.assertFalse(any(f.l4_right for f in came), "nobody has computed one")
        for text in ("RTE_MBUF_F_RX_L4_CKSUM_NONE", "RTE_MBUF_F_RX_IP_CKSUM_NONE", "hw ptype: L2_ETHER L3_IPV4 L4_TCP",
                     "hw ptype: L2_ETHER L3_IPV6 L4_TCP"):
            receiver.wait(text)

    def test_a_loopback_returns_what_its_program_takes(self):
        """The driver computes for itself what it would get back otherwise."""
        frames = all_kinds([0, 1, 300, 5000])
        for offloads, computed in ((), len(frames)), (CKSUMS, 0):
            with self.subTest(offloads), Nic() as nic, contextlib.ExitStack() as self.stack:
                sender = self.sender(nic, frames, [*self.HARDWARE, *port("rx", offloads)], ",partial=yes")
                sender.do("start")
                sender.until("all frames", lambda t: t.stats(1)["TX-packets"] == len(frames))
                sender.do("stop")
                self.assertEqual(sender.xstats()["tx_computed_packets"], computed)
                came = [Frame(data) for data in read_pcap(nic.directory / "unused.pcap")]
                self.assert_same(came, frames)
                self.assertTrue(all(f.right for f in came), "the csum engine has computed them for the file")

    def segments_of(self, came, sent, size):
        """The frames that came are segments of those that were sent."""
        for whole in map(Frame, sent):
            parts = [f for f in came if f.port == whole.port]
            self.assertEqual(b"".join(f.payload for f in parts), whole.payload)
            self.assertTrue(all(f.right and len(f.payload) <= size for f in parts))
            self.assertEqual(len(parts), max(1, -(-len(whole.payload) // size)))
            self.assertEqual([f.sequence for f in parts], [1000 + i * size for i in range(len(parts))])
            if whole.version == 4:
                self.assertEqual([f.identification for f in parts], [100 + i for i in range(len(parts))])
            self.assertEqual([f.flags for f in parts], [0x10] * (len(parts) - 1) + [0x19])

    LENGTHS = (100, 800, 801, 2400, 9000)

    def tcp(self):
        return [frame(version, TCP, 1024 + 2 * i + version // 6, bytes(j % 251 for j in range(length)))
                for i, length in enumerate(self.LENGTHS) for version in (4, 6)]

    def tso(self, size=800, mtu=MTU):
        return port("tx", (*CKSUMS, "tcp_tso"), f"tso set {size} 0", mtu=mtu)

    def test_the_switch_cuts_super_packets(self):
        """They cross it whole, or as long as the sender's region permits."""
        number = 2 * sum(-(-length // 800) for length in self.LENGTHS)
        for devargs, computed in ("", 0), (",mtu=3000", 2):
            with self.subTest(devargs), Nic("--wire", "switch") as nic, contextlib.ExitStack() as self.stack:
                receiver = self.receiver(nic, port("rx", ()))
                sender = self.sender(nic, self.tcp(), self.tso(mtu=2986 if devargs else MTU), devargs)
                self.segments_of(self.arrived(nic, receiver, sender, number), self.tcp(), 800)
                self.assertEqual(sender.xstats()["tx_computed_packets"], computed)

    def test_who_takes_super_packets_gets_them(self):
        frames = self.tcp()
        nic = self.stack.enter_context(Nic("--wire", "switch"))
        receiver = self.receiver(nic, [*port("rx", (*CKSUMS, "tcp_lro")), "set verbose 1"])
        came = self.arrived(nic, receiver, self.sender(nic, frames, self.tso()), len(frames))
        self.assert_same(came, frames)
        receiver.wait("RTE_MBUF_F_RX_LRO")

    def test_a_driver_cuts_for_a_loopback(self):
        number = 2 * sum(-(-length // 800) for length in self.LENGTHS)
        nic = self.stack.enter_context(Nic())
        sender = self.sender(nic, self.tcp(), self.tso())
        sender.do("start")
        sender.until("all segments", lambda t: t.stats(1)["TX-packets"] == number)
        sender.do("stop")
        self.segments_of([Frame(data) for data in read_pcap(nic.directory / "unused.pcap")], self.tcp(), 800)

    def test_tags(self):
        """Inserted by the switch for who does not strip; stripped by the driver where they are in the frame."""
        frames = all_kinds([100, 2000])
        for insert, offloads, tag in (True, (), 7), (False, (), None), (True, ("vlan_strip",), None):
            with self.subTest((insert, offloads)), Nic("--wire", "switch") as nic, contextlib.ExitStack() as self.stack:
                receiver = self.receiver(nic, [*port("rx", offloads), "set verbose 1"])
                sender = self.sender(nic, frames, port("tx", ["vlan_insert"] * insert, *["tx_vlan set 0 7"] * insert))
                sender.do("set fwd mac")
                came = self.arrived(nic, receiver, sender, len(frames))
                self.assert_same(came, frames)
                self.assertEqual({f.vlan for f in came}, {tag})
                self.assertEqual("VLAN tci=0x7" in receiver.log, "vlan_strip" in offloads)
        tagged = [data[:12] + b"\x81\x00\x00\x09" + data[12:] for data in frames]
        with Nic() as nic, contextlib.ExitStack() as self.stack:
            sender = self.sender(nic, tagged, [*port("rx", ("vlan_strip",)), "set promisc 0 on", "set fwd io"])
            sender.do("set fwd io")
            sender.do("start")
            sender.until("all frames", lambda t: t.stats(1)["TX-packets"] == len(frames))
            sender.do("stop")
            self.assertEqual({Frame(data).vlan for data in read_pcap(nic.directory / "unused.pcap")}, {None})

    def test_role_nic(self):
        """Requests travel in both directions, to who takes them; for others they are done."""
        frames = all_kinds([0, 1, 300, 5000])
        for offloads, computed in ((), len(frames)), (CKSUMS, 0):
            with self.subTest(offloads), Place() as place, contextlib.ExitStack() as self.stack:
                back = place.directory / "back.pcap"
                nic = self.stack.enter_context(NicPort(place, ",partial=yes", more=[f"net_pcap1,tx_pcap={back}"], arguments=["--mbuf-size=9900"]))
                self.tell(nic, [*port("rx", offloads), "set fwd io", "start"])
                sender = self.sender(place, frames, self.HARDWARE)
                came = self.arrived(place, nic, sender, len(frames))
                self.assert_same(came, frames)
                self.assertEqual({f.l4_right for f in came}, {not offloads})
                self.assertEqual(sender.xstats()["tx_computed_packets"], computed)

    def test_a_program_of_role_nic(self):
        frames = all_kinds([0, 1, 300, 5000])
        for offloads, computed in ((), len(frames)), (CKSUMS, 0):
            with self.subTest(offloads), Place() as place, contextlib.ExitStack() as self.stack:
                there = place.directory / "there.pcap"
                write_pcap(there, frames)
                nic = self.stack.enter_context(NicPort(place, more=[f"net_pcap0,rx_pcap={there},tx_pcap={place.directory / 'unused.pcap'}"],
                                                       arguments=["--no-flush-rx", "--mbuf-size=9900"]))
                self.tell(nic, [*self.HARDWARE, "set fwd csum"])
                receiver = self.receiver(place, port("rx", offloads), ",partial=yes")
                nic.until("the program", lambda t: "Link status: up" in t.do("show port info 0"))
                came = self.arrived(place, receiver, nic, len(frames))
                self.assert_same(came, frames)
                self.assertEqual({f.l4_right for f in came}, {not offloads})
                self.assertEqual(nic.xstats()["tx_computed_packets"], computed)

    def test_what_cannot_be_done_is_dropped_and_counted(self):
        """A segment size above what the region takes."""
        nic = self.stack.enter_context(Nic())
        sender = self.sender(nic, [frame(4, TCP, 1, bytes(100))], self.tso(5))
        sender.do("start")
        sender.until("the drop", lambda t: t.xstats()["tx_dropped_bad_offload_packets"] == 1)
        sender.do("stop")

    def test_capabilities(self):
        for make in (lambda: self.stack.enter_context(Nic()), lambda: None):
            nic = make()
            t = Testpmd(nic) if nic else NicPort(self.stack.enter_context(Place()))
            with t:
                transmit = t.do("show port 0 tx_offload capabilities")
                receive = t.do("show port 0 rx_offload capabilities")
                for name in "VLAN_INSERT", "IPV4_CKSUM", "UDP_CKSUM", "TCP_CKSUM", "TCP_TSO", "UDP_TSO":
                    self.assertIn(name, transmit)
                for name in "VLAN_STRIP", "IPV4_CKSUM", "UDP_CKSUM", "TCP_CKSUM", "TCP_LRO", "SCATTER":
                    self.assertIn(name, receive)
                self.assertRegex(t.do("show port 0 ptypes"), r"L3_IPV4|RTE_PTYPE_L3_IPV4|L2_ETHER")


if __name__ == "__main__":
    unittest.main(verbosity=1)
