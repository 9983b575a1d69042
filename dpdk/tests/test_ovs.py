# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Open vSwitch with DPDK, as Debian has it, on net_ccnic ports of both roles: it is a program of ccnicd, or the NIC of programs. What
works is a table of the guide. Run by `make dpdk-test`."""

import contextlib
import pathlib
import random
import struct
import subprocess
import sys
import unittest

from frames import TCP, UDP, Frame, checksum, completed, frame
from harness import CPUS, PATIENCE, Nic, Place, held
from ovs import FLOOD, Flood, Ovs, Program, missing, until

A, B = b"\x02\0\0\0\0\x0a", b"\x02\0\0\0\0\x0b"
# With sizes at the limits between inline areas, small and large buffers.
SIZES = [60, 64, 65, 128, 129, 500, 1514]


def some_frames(to, by, sizes=SIZES):
    """Frames of bytes that mean nothing to Open vSwitch."""
    return [to + by + b"\x88\xb5" + random.randbytes(size - 14) for size in sizes]


def tagged(data, vlan):
    return data[:12] + struct.pack("!HH", 0x8100, vlan) + data[12:]


def padded(data):
    return data + bytes(max(0, 60 - len(data)))


class Ports:
    """Two ports of a bridge, "a" and "b", and a program at the other side of each."""

    def __init__(self, ovs, role, bridges=("br0",), settings=(), attach="ab"):
        self.ovs, self.role, self.stack = ovs, role, contextlib.ExitStack()
        for bridge in bridges:
            ovs.bridge(bridge)
        for name, bridge in zip("ab", (bridges * 2)[:2]):
            setattr(self, f"place_{name}", self.stack.enter_context(Nic("--wire", "switch") if role == "program" else Place()))
            ovs.port(bridge, name, self.devargs(name), *settings)
        for name in attach:
            setattr(self, name, self.stack.enter_context(Program(self.place(name).socket, name)))
        ovs.linked(*attach)

    def devargs(self, name):
        role = "role=nic" if self.role == "nic" else "wait=yes"
        return f"net_ccnic_{name},socket={self.place(name).socket},{role}"

    def place(self, name):
        return getattr(self, f"place_{name}")

    def close(self):
        # The programs go first: with role=nic they are what holds their regions.
        self.stack.close()
        self.ovs.clear()


class Features:
    """What Open vSwitch does between two ports."""

    role = None

    @classmethod
    def setUpClass(cls):
        if why := missing():
            raise unittest.SkipTest(why)
        cls.ovs = cls.enterClassContext(Ovs(pmd_cpu_mask=hex(1 << CPUS[0]), per_port_memory="true"))

    def ports(self, **settings):
        ports = Ports(self.ovs, self.role, **settings)
        self.addCleanup(ports.close)
        return ports

    def across(self, by, to, frames):
        """Frames arrive as they are, in their order. A ring that nobody reads meanwhile has room for 256 that are sent one by one."""
        for at in range(0, len(frames), 100):
            some = frames[at : at + 100]
            by.send(some)
            self.assertEqual(to.expect(len(some)), some)

    def both_ways(self, ports, **frames):
        self.across(ports.a, ports.b, some_frames(B, A, **frames))
        self.across(ports.b, ports.a, some_frames(A, B, **frames))

    def test_normal(self):
        """A port as anybody adds one: it asks for 2048 descriptors. Broadcasts, learning, and a thousand frames both ways."""
        ports = self.ports()
        self.across(ports.a, ports.b, some_frames(b"\xff" * 6, A))
        self.both_ways(ports)
        self.both_ways(ports, sizes=[random.randrange(60, 1515) for _ in range(500)])
        learned = self.ovs.appctl("fdb/show", "br0")
        for mac in "02:00:00:00:00:0a", "02:00:00:00:00:0b":
            self.assertIn(mac, learned)
        for name in "a", "b":
            counted = self.ovs.statistics(name)
            self.assertEqual((counted["rx_errors"], counted["rx_missed_errors"], counted["tx_dropped"]), (0, 0, 0))

    def test_flow_rules(self):
        """Rewriting, dropping, and back out of the port that a frame came in by."""
        ports = self.ports()
        self.ovs.flows("br0", "priority=1,in_port=a actions=mod_dl_dst:02:00:00:00:00:77,output:b", "priority=1,in_port=b actions=in_port",
                       "priority=2,in_port=a,udp actions=drop")
        frames = some_frames(B, A)
        ports.a.send([completed(frame(4, UDP, 5, bytes(30)))])
        ports.a.send(frames)
        self.assertEqual(ports.b.expect(len(frames)), [b"\x02\0\0\0\0\x77" + data[6:] for data in frames])
        self.across(ports.b, ports.b, frames)
        self.assertEqual(ports.a.receive(), [])

    def test_vlan(self):
        """Tags of an access port are put in and taken out."""
        ports = self.ports()
        self.ovs.vsctl("set", "port", "a", "tag=10", "--", "set", "port", "b", "trunks=10,20")
        frames = some_frames(B, A)
        ports.a.send(frames)
        self.assertEqual(ports.b.expect(len(frames)), [tagged(data, 10) for data in frames])
        frames = some_frames(A, B)
        ports.b.send([tagged(frames[0], 20), frames[0], *(tagged(data, 10) for data in frames)])
        self.assertEqual(ports.a.expect(len(frames)), frames)

    def test_vxlan(self):
        ports = self.ports(bridges=("br-int", "br-phy"))
        self.ovs.inside("ip", "addr", "add", "10.8.0.1/24", "dev", "br-phy")
        self.ovs.inside("ip", "link", "set", "br-phy", "up")
        self.ovs.vsctl("add-port", "br-int", "vxlan0", "--", "set", "Interface", "vxlan0", "type=vxlan", "options:remote_ip=10.8.0.2",
                       "options:key=7")
        until("the route", lambda: "10.8.0.1" in self.ovs.appctl("ovs/route/show"))
        self.ovs.appctl("tnl/neigh/set", "br-phy", "10.8.0.2", "02:00:00:00:00:0b")
        local = bytes.fromhex(self.ovs.vsctl("get", "Interface", "br-phy", "mac_in_use").strip('"\n').replace(":", ""))
        frames = some_frames(B, A, SIZES[:-1])
        ports.a.send(frames)
        came = [data for data in ports.b.expect(len(frames)) if data[12:14] == b"\x08\x00"]
        for outer, inner in zip(came, frames, strict=True):
            seen = Frame(outer)
            self.assertEqual((outer[:6], seen.ip_right, outer[36:38], seen.payload), (B, True, b"\x12\xb5", b"\x08\0\0\0\0\0\x07\0" + inner))
        frames = some_frames(A, B, SIZES[:-1])
        ports.b.send([self.in_vxlan(data, local) for data in frames])
        self.assertEqual(ports.a.expect(len(frames)), frames)

    def in_vxlan(self, inner, to):
        payload = b"\x08\0\0\0\0\0\x07\0" + inner
        l4 = struct.pack("!HHHH", 50000, 4789, 8 + len(payload), 0) + payload
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(l4), 0, 0x4000, 64, UDP, 0, b"\x0a\x08\0\x02", b"\x0a\x08\0\x01")
        ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
        return to + B + b"\x08\x00" + ip + l4

    NAT = ("table=0,in_port=a,ip,ct_state=-trk actions=ct(commit,zone=1,nat(src=10.0.0.254),table=1)",
           "table=0,in_port=b,ip,ct_state=-trk actions=ct(zone=1,nat,table=1)", "table=1,in_port=a,ip,ct_state=+trk-inv actions=output:b",
           "table=1,in_port=b,ip,ct_state=+trk+est actions=output:a")

    def test_conntrack_with_nat(self):
        """Open vSwitch verifies checksums and changes them; frames whose checksum is wrong are invalid."""
        ports = self.ports()
        self.ovs.flows("br0", *self.NAT)
        there = frame(4, UDP, 1000, b"there", B, A)
        ports.a.send([there, completed(there)])
        came = ports.b.expect(1)
        seen = Frame(came[0])
        self.assertEqual((len(came), seen.right, came[0][26:34], seen.payload[:5]), (1, True, b"\x0a\0\0\xfe\x0a\0\0\2", b"there"))
        back = frame(4, UDP, 80, b"back", A, B)
        back = back[:26] + b"\x0a\0\0\2\x0a\0\0\xfe" + struct.pack("!HH", 80, seen.port) + back[38:]
        ports.b.send([completed(back)])
        came = ports.a.expect(1)[0]
        self.assertEqual((Frame(came).right, came[26:34], Frame(came).payload[:4]), (True, b"\x0a\0\0\2\x0a\0\0\1", b"back"))

    def test_requested_checksums_are_there(self):
        """A program that leaves checksums to its NIC: Open vSwitch passes frames on and computes none."""
        ports = self.ports()
        frames = [frame(version, protocol, 1000 + i, random.randbytes(i), B, A) for i in (20, 700) for version in (4, 6) for protocol in (TCP, UDP)]
        for version in 4, 6:
            meta = ports.a.checksums(version)
            # A NIC that takes no requests: the program computes them.
            self.assertEqual(meta != 0, self.role == "program")
            some = [data for data in frames if Frame(data).version == version]
            ports.a.send(some if meta else map(completed, some), meta)
        # Open vSwitch keeps the order within a flow only.
        self.assertEqual(sorted(ports.b.expect(len(frames))), sorted(map(completed, frames)))

    def test_jumbo_frames(self):
        ports = self.ports(settings=("mtu_request=9000",))
        self.both_ways(ports, sizes=[9014, 60, 4096, 4097, 1514, 9014])

    def test_ports_come_and_go_under_load(self):
        """20 times, while a program sends; nothing of a port stays."""
        ports = self.ports(attach="b")
        with Flood(ports.place("a").socket):
            self.flows_again(ports.b)
            held_before = None
            for _ in range(20):
                self.ovs.vsctl("del-port", "a")
                ports.b.drain()
                held_before = held_before or held(self.ovs.process)
                self.assertEqual(held(self.ovs.process), held_before)
                self.ovs.port("br0", "a", ports.devargs("a"))
                self.flows_again(ports.b)

    def flows_again(self, program):
        """Frames of a Flood arrive as they are."""
        frames = program.expect(100)
        self.assertLessEqual(set(frames), set(FLOOD))

    def test_the_other_side_is_killed(self):
        """Again and again: ccnicd, or the program of role=nic."""
        ports = self.ports(attach="b")
        for _ in range(3):
            with Flood(ports.place("a").socket) as flood:
                self.flows_again(ports.b)
                (flood if self.role == "nic" else ports.place("a")).kill()
                until("the end of the link", lambda: self.ovs.vsctl("get", "Interface", "a", "link_state").strip() == "down")
                ports.b.drain()
                if self.role == "program":
                    ports.place("a").start()
                    self.flows_again(ports.b)

    def test_open_vswitch_is_killed(self):
        """Programs stay; ports and rules are as before when it has started again."""
        ports = self.ports()
        self.both_ways(ports)
        for _ in range(2):
            self.ovs.kill()
            if self.role == "nic":
                until("the end of the link", lambda: not ports.a.up() and not ports.b.up())
            self.ovs.start()
            for program in ports.a, ports.b:
                until("the NIC", lambda: program.up() or program.reconnect())
            self.ovs.linked("a", "b")
            self.both_ways(ports)


class AsProgram(Features, unittest.TestCase):
    role = "program"


    def test_ccnicd_comes_later(self):
        """wait=yes: a port of a daemon that is not there yet."""
        place = Place()
        self.ovs.bridge("br0")
        self.addCleanup(self.ovs.clear)
        self.ovs.port("br0", "a", f"net_ccnic_a,socket={place.socket},wait=yes")
        self.assertEqual(self.ovs.vsctl("get", "Interface", "a", "link_state").strip(), "down")
        with Nic("--wire", "switch", place=place), Program(place.socket) as program:
            self.ovs.linked("a")
            self.ovs.flows("br0", "actions=in_port")
            self.across(program, program, some_frames(B, A))


class AsNic(Features, unittest.TestCase):
    role = "nic"


class Segmentation(unittest.TestCase):
    """userspace-tso-enable: a kernel's TCP through the bridge's own interface, which is a TAP, to a kernel behind a net_ccnic port."""

    TCP = pathlib.Path(__file__).with_name("tcp.py")
    BYTES = 8 << 20

    @classmethod
    def setUpClass(cls):
        if why := missing():
            raise unittest.SkipTest(why)

    def kernel(self, number, devargs):
        """An Open vSwitch, the address of its bridge, and a port of it."""
        ovs = self.enterContext(Ovs(per_port_memory="true", userspace_tso_enable="true", pmd_cpu_mask=hex(1 << CPUS[0])))
        ovs.bridge("br0")
        ovs.inside("ip", "addr", "add", f"10.9.0.{number}/24", "dev", "br0")
        ovs.inside("ip", "link", "set", "br0", "up")
        ovs.port("br0", "a", devargs)
        return ovs

    def talk(self, ovs, peer):
        """Sends both ways between two kernels. `peer`: the process in whose namespace the other one is, as 10.9.0.2."""
        ovs.linked("a")
        there = ["nsenter", "--net", f"--target={peer.pid}", sys.executable, self.TCP, "serve", "10.9.0.2"]
        with subprocess.Popen(there, stdout=subprocess.PIPE) as server:
            try:
                self.assertEqual(server.stdout.readline(), b"ready\n")
                ovs.inside(sys.executable, self.TCP, "send", "10.9.0.2", self.BYTES)
                self.assertEqual(server.wait(PATIENCE), 0)
            finally:
                server.kill()

    def assert_sent_whole(self, ovs):
        """Fewer packets than segments, though what it got is acknowledged by packets, too: one for two segments."""
        self.assertLess(ovs.statistics("a")["tx_packets"], self.BYTES / 1448)

    def test_a_tap_of_ccnicd(self):
        """Super-packets cross Open vSwitch and the switch of ccnicd as they are."""
        with Nic("--wire", "switch", "--port", "tap:tcp0,address=10.9.0.2/24", wrap=("unshare", "--net")) as nic:
            ovs = self.kernel(1, f"net_ccnic0,socket={nic.socket}")
            self.talk(ovs, nic.process)
            self.assert_sent_whole(ovs)

    def test_two_open_vswitches(self):
        """One is the other's NIC. It takes no super-packets, so the driver cuts them, on either side."""
        with Place() as place:
            ovs = self.kernel(1, f"net_ccnic0,role=nic,socket={place.socket}")
            other = self.kernel(2, f"net_ccnic0,socket={place.socket}")
            self.talk(ovs, other.process)
            for side in ovs, other:
                self.assert_sent_whole(side)


if __name__ == "__main__":
    unittest.main(verbosity=1)
