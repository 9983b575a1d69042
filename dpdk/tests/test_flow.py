# SPDX-License-Identifier: Apache-2.0 OR MIT
"""rte_flow in a DPDK application: rules of testpmd's `flow create` decide where packets arrive. Run by `make dpdk-test`."""

import ipaddress
import re
import struct
import unittest

from harness import *

QUEUES = 4
VDEV = f"net_ccnic0,socket={{socket}},queues={QUEUES}"
ARGUMENTS = [f"--rxq={QUEUES}", f"--txq={QUEUES}", "--disable-rss"]
UDP, TCP = 17, 6
HERE, THERE = "10.0.0.1", "10.0.0.2"
HERE6, THERE6 = "fe80::1", "fe80::2"


def address(text):
    return ipaddress.ip_address(text).packed


def frame(number, port=9, protocol=UDP, source=HERE, destination=THERE, vlan=None, mac=b"\x02\0\0\0\0\7"):
    """A packet with a number."""
    head = mac + b"\x02\0\0\0\0\x08" + (struct.pack(">HH", 0x8100, 0x2000 | vlan) if vlan is not None else b"")
    payload = struct.pack(">HHHH", 7, port, 30, 0) + struct.pack(">I", number)
    payload += b"\x50" * (30 - len(payload))
    if ":" in source:
        ip = b"\x86\xdd" + struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64)
    else:
        ip = b"\x08\0" + struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 7, 0x4000, 64, protocol, 0)
    return head + ip + address(source) + address(destination) + payload


def number_of(packet):
    return struct.unpack(">I", packet[-22:-18])[0]


class Rules(unittest.TestCase):
    """Packets from a pcap file, sent on queue 0 of the port, arrive where the rules say."""

    RULES = [
        "pattern eth / ipv4 / udp dst is 53 / end actions queue index 2 / mark id 77 / count / end",
        "pattern eth / ipv4 / udp dst is 54 / end actions drop / count / end",
        "pattern eth / vlan vid is 5 / end actions queue index 1 / end",
        f"pattern eth / ipv4 src is {THERE} dst is {HERE} / tcp src is 7 dst is 80 / end actions queue index 3 / end",
        f"pattern eth / ipv6 src is {HERE6} dst is {THERE6} / end actions queue index 3 / end",
        "pattern eth dst is 02:00:00:00:00:ee / end actions rss / mark id 65535 / end",
    ]
    PACKETS = [
        (frame(0, port=53), 2),
        (frame(1, port=54), None),
        (frame(2, vlan=5), 1),
        (frame(3, port=80, protocol=TCP, source=THERE, destination=HERE), 3),
        (frame(4, source=HERE6, destination=THERE6), 3),
        (frame(5, mac=b"\x02\0\0\0\0\xee"), 0),
        (frame(6, port=53, protocol=TCP), 0),
        (frame(7, vlan=6), 0),
        (frame(8, port=80, protocol=TCP), 0),
        (frame(9, source=THERE6, destination=HERE6), 0),
        (frame(10, port=53, source=HERE6, destination=HERE6), 0),
    ]

    def run_through(self, rules, verbose=False):
        """Sends all packets by rules; returns those that come, by queue, and what testpmd prints of them; `rules` are created first."""
        with Nic() as nic:
            there = nic.directory / "there.pcap"
            back = [nic.directory / f"back{q}.pcap" for q in range(QUEUES)]
            write_pcap(there, [packet for packet, _ in self.PACKETS])
            empty = nic.directory / "empty.pcap"
            write_pcap(empty, [])
            receive = ",".join(f"rx_pcap={path}" for path in [there] + [empty] * (QUEUES - 1))
            pcap = f"net_pcap0,{receive}," + ",".join(f"tx_pcap={path}" for path in back)
            with Testpmd(nic, VDEV, more=[pcap], arguments=[*ARGUMENTS, "--no-flush-rx"]) as t:
                t.do("set promisc all on")
                for n, rule in enumerate(rules):
                    self.assertIn(f"Flow rule #{n} created", t.do(f"flow create 0 ingress {rule}"))
                t.do("set fwd io")
                if verbose:
                    t.do("set verbose 1")
                begin = len(t.log)
                (t.tell if verbose else t.do)("start")
                expected = sum(self.queue(number, rules) is not None for number in range(len(self.PACKETS)))
                end = begin
                # Both ports print a line for each packet that they receive; the output is interleaved with the prompt.
                for _ in range(verbose * (len(self.PACKETS) + expected)):
                    end = t.wait("Receive queue=", end)
                t.until("packets", lambda t: t.stats(1)["TX-packets"] == expected)
                t.do("stop")
                said = t.log[begin:]
                stats = t.stats()
                counts = [t.do(f"flow query 0 {n} count") for n in range(len(rules))]
            came = {queue: sorted(map(number_of, read_pcap(path))) for queue, path in enumerate(back)}
        self.assertEqual((stats["RX-missed"], stats["RX-errors"]), (0, 0), "what a rule drops is not missed")
        return came, said, counts

    def queue(self, number, rules):
        return self.PACKETS[number][1] if rules else 0

    def test_packets_arrive_where_the_rules_say(self):
        came, _, counts = self.run_through(self.RULES)
        expected = {queue: [n for n, (_, to) in enumerate(self.PACKETS) if to == queue] for queue in range(QUEUES)}
        self.assertEqual(came, expected)
        for text, hits in zip(counts, [1, 1, 1, 1, 1, 1]):
            self.assertRegex(text, rf"hits: {hits}\b")

    def test_without_rules_they_stay_on_their_pair(self):
        came, _, _ = self.run_through([])
        self.assertEqual(came, {0: list(range(len(self.PACKETS))), 1: [], 2: [], 3: []})

    def test_marks_are_in_mbufs(self):
        _, said, _ = self.run_through(self.RULES, verbose=True)
        self.assertEqual(sorted(re.findall(r"FDIR matched ID=0x([0-9a-f]+)", said)), ["4d", "ffff"])


class Control(unittest.TestCase):
    """Rules are validated, counted, destroyed, refused, and kept when the NIC is killed."""

    def test_refusals_name_what_is_wrong(self):
        with Nic() as nic, Testpmd(nic, VDEV, arguments=ARGUMENTS) as t:
            for rule, why in [
                ("egress pattern eth / end actions drop / end", "only ingress"),
                ("ingress group 1 pattern eth / end actions drop / end", "there is only group 0"),
                ("ingress pattern eth / ipv4 src spec 10.0.0.0 src mask 255.0.0.0 / end actions drop / end", "only whole addresses"),
                ("ingress pattern eth / vlan / end actions drop / end", "id of a VLAN"),
                ("ingress pattern eth / ipv4 ttl is 3 / end actions drop / end", "only whole addresses"),
                ("ingress pattern eth / ipv4 / ipv6 / end actions drop / end", "the order is"),
                ("ingress pattern eth / icmp / end actions drop / end", "use ETH, VLAN"),
                ("ingress pattern eth / end actions queue index 4 / end", "no receive queue of this index"),
                ("ingress pattern eth / end actions mark id 65536 / rss / end", "id of 0 to 65535"),
                ("ingress pattern eth / end actions mark id 1 / end", "none says where packets go"),
                ("ingress pattern eth / end actions mark id 1 / drop / end", "mark is 1 for packets that are dropped"),
                ("ingress pattern eth / end actions queue index 1 / drop / end", "packets go to one place"),
                ("ingress pattern eth / end actions rss queues 1 end / end", "only the port's own"),
                ("ingress pattern eth / end actions jump group 1 / end", "use QUEUE, DROP"),
            ]:
                for command in "validate", "create":
                    self.assertIn(why, t.do(f"flow {command} 0 {rule}"), rule)
            self.assertIn("isolated mode is not supported", t.do("flow isolate 0 true"))
            self.assertIn("Flow rule validated", t.do("flow validate 0 ingress pattern eth / end actions drop / end"))
            self.assertEqual(nic.rules(), [])

    def test_the_nics_limits(self):
        with Nic() as nic, Testpmd(nic, VDEV, arguments=ARGUMENTS) as t:
            rule = "flow create 0 ingress pattern eth / ipv4 / udp dst is 1 / end actions drop / end"
            self.assertIn("created", t.do(rule))
            self.assertIn("has the same match and priority", t.do(rule))
            self.assertIn("created", t.do(rule.replace("ingress", "ingress priority 1")))
            self.assertEqual([(r["rule"]["priority"], r["by"]) for r in nic.rules()], [(0, "program"), (1, "program")])

    def test_rules_live_as_long_as_the_application_wants(self):
        with Nic() as nic, Testpmd(nic, VDEV, arguments=ARGUMENTS) as t:
            for port in 1, 2, 3:
                t.do(f"flow create 0 ingress pattern eth / ipv4 / tcp dst is {port} / end actions queue index {port} / end")
            t.do("flow destroy 0 rule 1")
            ports = lambda: [rule["rule"]["match"]["dst_port"] for rule in nic.rules()]
            self.assertEqual(ports(), [1, 3])
            nic.kill()
            t.until("the link is down", lambda t: "Link status: down" in t.do("show port info 0"))
            nic.start()
            t.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
            self.assertEqual(ports(), [1, 3])
            t.do("flow flush 0")
            self.assertEqual(ports(), [])
            self.assertEqual(t.do("flow list 0").count("ETH"), 0)


if __name__ == "__main__":
    unittest.main()
