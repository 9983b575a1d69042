# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The DPDK drivers against a ccnicd with loopback. Run by `make dpdk-test`."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import SCATTER, ENOUGH, PATIENCE, ROOT, Nic, NicPort, Place, Testpmd, eal, held, kill, mixed_packets, read_pcap, testpmd_output, write_pcap


class Forwarding(unittest.TestCase):
    """Every mode of testpmd moves packets, loses none and counts them."""

    @classmethod
    def setUpClass(cls):
        cls.nic = Nic()
        cls.addClassCleanup(cls.nic.__exit__)

    def forward(self, mode, setup=(), tx_first=True, bursts=4, enough=lambda t: True, **testpmd):
        with Testpmd(self.nic, **testpmd) as t:
            for command in setup:
                t.do(command)
            t.do(f"set fwd {mode}")
            t.do(f"start tx_first {bursts}" if tx_first else "start")
            t.until(f"packets in mode {mode}", lambda t: t.stats()["RX-packets"] >= ENOUGH and enough(t))
            t.do("stop")
            t.drain()
            stats = t.stats()
            self.assertEqual((stats["RX-errors"], stats["TX-errors"], stats["RX-missed"]), (0, 0, 0), mode)
            xstats = t.xstats()
            for way in "rx", "tx":
                sizes = [n for name, n in xstats.items() if name.startswith(way) and ("_size_" in name or "undersize" in name)]
                self.assertEqual(sum(sizes), xstats[f"{way}_good_packets"], way)
                ways = [xstats[f"{way}_{how}_packets"] for how in ("inlined", "zero_copy", "copied")]
                self.assertEqual(sum(ways), xstats[f"{way}_good_packets"], way)
            self.assertEqual([name for name, n in xstats.items() if "dropped" in name and n > 0], [])
            return xstats

    def test_io(self):
        xstats = self.forward("io")
        self.assertEqual(xstats["rx_inlined_packets"], xstats["rx_size_64_packets"])

    def test_modes_that_touch_packets(self):
        for mode in "mac", "macswap", "5tswap", "csum":
            with self.subTest(mode):
                self.forward(mode)

    def test_flowgen(self):
        self.forward("flowgen", tx_first=False)

    def test_rings_that_are_full(self):
        def left(xstats):
            return xstats["tx_left_ring_full_packets"] + xstats["tx_left_no_buffer_packets"]

        xstats = self.forward("flowgen", tx_first=False, enough=lambda t: left(t.xstats()) > 0,
                              vdev="net_ccnic0,socket={socket},rsize=64,buffers=64")
        self.assertGreater(left(xstats), 0)

    def test_icmpecho_without_requests(self):
        with Testpmd(self.nic) as t:
            t.do("set fwd icmpecho")
            t.do("start tx_first 2")
            t.until("packets", lambda t: t.stats()["RX-packets"] == t.stats()["TX-packets"] == 64)

    def test_txonly_stops_when_the_ring_is_full(self):
        with Testpmd(self.nic) as t:
            t.do("set fwd txonly")
            t.do("start")
            t.until("a full ring", lambda t: t.xstats()["tx_left_ring_full_packets"] > 0)
            t.do("stop")
            t.drain()

    def test_large_packets_are_not_copied(self):
        xstats = self.forward("io", setup=["set txpkts 1500"])
        self.assertEqual((xstats["rx_copied_packets"], xstats["tx_copied_packets"]), (0, 0))
        self.assertGreater(xstats["rx_zero_copy_packets"], ENOUGH)

    def test_zero_copy_works_with_any_mempool(self):
        for ops in (), ("--mbuf-pool-ops-name=stack",):
            xstats = self.forward("io", setup=["set txpkts 1500"], options=ops)
            self.assertEqual((xstats["rx_copied_packets"], xstats["tx_copied_packets"]), (0, 4 * 32))

    def test_zero_copy_can_be_switched_off(self):
        xstats = self.forward("io", setup=["set txpkts 1500"], vdev="net_ccnic0,socket={socket},zero-copy=no")
        self.assertEqual((xstats["rx_zero_copy_packets"], xstats["tx_zero_copy_packets"]), (0, 0))

    def test_without_zero_copy_eal_does_not_know_the_region(self):
        with Testpmd(self.nic, "net_ccnic0,socket={socket},zero-copy=no") as t:
            self.assertNotRegex(t.do("dump_physmem"), r"socket_id:(25[6-9]|2[6-9]\d)")

    def test_jumbo_frames_in_segments(self):
        segments = ["set txpkts 64,2000,2000,2000,2000,1000", "port stop 0", SCATTER, "port config mtu 0 9586", "port start 0"]
        self.forward("io", setup=segments, arguments=["--tx-offloads=0x8000", "--max-pkt-len=9600"])

    def test_two_queues_and_fewer_receive_queues(self):
        vdev = "net_ccnic0,socket={socket},queues=3"
        xstats = self.forward("io", vdev=vdev, arguments=["--rxq=2", "--txq=2", "--disable-rss"])
        for queue in "rx_q0_packets", "rx_q1_packets", "tx_q0_packets", "tx_q1_packets":
            self.assertGreater(xstats[queue], 0, queue)
        self.forward("flowgen", tx_first=False, vdev=vdev, arguments=["--rxq=1", "--txq=3"])

    def test_pairs_that_two_threads_share(self):
        """Two ports, two cores: each receives from one port and transmits on the other, so every pair has two users."""
        more = [f"net_ccnic1,socket={self.nic.socket}"]
        with Testpmd(self.nic, more=more, arguments=["--nb-cores=2"]) as t:
            for size in 64, 1500:
                t.do(f"set txpkts {size}")
                t.do("set fwd io")
                t.do("start tx_first 4")
                for port in 0, 1:
                    # Reading statistics takes the pairs away from both.
                    t.until("packets", lambda t: t.stats(port)["RX-packets"] >= ENOUGH)
                t.do("stop")
                t.do("set fwd rxonly")
                t.do("start")
                for port in 0, 1:
                    t.until("what was sent comes back", lambda t: (s := t.stats(port))["RX-packets"] == s["TX-packets"])
                t.do("stop")
                t.do("clear port stats all")

    def test_all_designs(self):
        for design in "paper", "packed", "padded", "e810":
            with self.subTest(design):
                self.forward("io", vdev=f"net_ccnic0,socket={{socket}},design={design},demote=off,pages=small")

    @unittest.skipIf(os.geteuid() != 0, "this user is none that must become another")
    def test_without_root(self):
        wrap = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        with Nic(wrap=wrap) as nic:
            with Testpmd(nic, wrap=wrap, environment={"XDG_RUNTIME_DIR": str(nic.directory), "HOME": str(nic.directory)}) as t:
                t.do("start tx_first")
                t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
                t.do("stop")


class Bytes(unittest.TestCase):
    """Packets come back unchanged and in order."""

    def through(self, mbuf_size, ccnic="", setup=("set fwd io",), cores=1, **testpmd):
        packets = mixed_packets()
        with Nic() as nic:
            there, back = nic.directory / "there.pcap", nic.directory / "back.pcap"
            write_pcap(there, packets)
            more = [f"net_pcap0,rx_pcap={there},tx_pcap={back}"]
            arguments = ["--no-flush-rx", f"--mbuf-size={mbuf_size}", f"--nb-cores={cores}"]
            with Testpmd(nic, f"net_ccnic0,socket={{socket}}{ccnic}", arguments=arguments, more=more, **testpmd) as t:
                for command in "port stop 0", SCATTER, "port config mtu 0 9586", "port start 0", *setup, "start":
                    t.do(command)
                t.until("all packets", lambda t: t.stats(1)["TX-packets"] == len(packets))
                t.do("stop")
                xstats = t.xstats()
            self.assertEqual(read_pcap(back), packets)
        return xstats

    def test_segmented_mbufs(self):
        xstats = self.through(2176)
        self.assertGreater(xstats["rx_zero_copy_packets"], 80)
        self.assertGreater(xstats["tx_zero_copy_packets"], 0)  # the number depends on which mbufs pcap has freed

    def test_other_mempool(self):
        xstats = self.through(2176, options=())
        self.assertGreater(xstats["tx_copied_packets"], 80)

    def test_copies(self):
        xstats = self.through(2176, ccnic=",zero-copy=no")
        self.assertEqual(xstats["rx_zero_copy_packets"] + xstats["tx_zero_copy_packets"], 0)

    def test_a_short_ring_and_few_buffers(self):
        """Bursts of all sizes are sent in part, again and again; the rest is sent later."""
        for buffers, ops, left in (256, (), "ring_full"), (32, ("--mbuf-pool-ops-name=ccnic",), "no_buffer"):
            with self.subTest(left):
                xstats = self.through(2176, ccnic=f",buffers={buffers},rsize=64", cores=2, options=ops,
                                      setup=["set fwd io retry", "set burst tx delay 100 retry 10000"])
                self.assertGreater(xstats[f"tx_left_{left}_packets"], 0)

    def test_mbufs_larger_than_buffers(self):
        self.through(9900)

    def test_reflected_buffers(self):
        with Nic("--reflect") as nic, Testpmd(nic) as t:
            t.do("set txpkts 1500")
            t.do("start tx_first")
            t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            t.do("stop")
            t.drain()


class Control(unittest.TestCase):
    """Port control: addresses, MTU, link, statistics, plugging."""

    @classmethod
    def setUpClass(cls):
        cls.nic = Nic()
        cls.addClassCleanup(cls.nic.__exit__)

    def test_info(self):
        with Testpmd(self.nic, "net_ccnic0,socket={socket},mac=02:00:00:00:00:07,queues=4,id=seven") as t:
            info = t.do("show port info 0")
            for line in ("MAC address: 02:00:00:00:00:07", "Driver name: net_ccnic", "Link status: up", "Max possible RX queues: 4",
                         "Promiscuous mode: enabled", "Maximum configurable length of RX packet: 9600"):
                self.assertIn(line, info)
            self.assertIn("zero-copy above", t.do("show rxq info 0 0"))
            self.assertIn("Number of TXDs: 1024", t.do("show txq info 0 0"))
            self.assertIn("seven", self.nic.programs())
            self.assertIn("desc", t.do("show port 0 rxq 0 desc used count"))
            offloads = t.do("show port 0 tx_offload capabilities")
            self.assertIn("MULTI_SEGS", offloads)
            self.assertIn("MBUF_FAST_FREE", offloads)

    def test_descriptors(self):
        with Testpmd(self.nic) as t:
            t.do("set fwd txonly")
            t.do("start")
            # The ring may be full before the NIC polls it; packets that neither the other ring nor the NIC can hold stay in it.
            t.until("packets that have no place", lambda t: t.stats()["TX-packets"] > 1024 + 64)
            t.do("stop")
            self.assertRegex(t.do("show port 0 rxq 0 desc used count"), r"Used desc count = [1-9]")
            self.assertIn("DONE", t.do("show port 0 rxq 0 desc 3 status"))
            self.assertIn("FULL", t.do("show port 0 txq 0 desc 1023 status"))

    def test_addresses_filter(self):
        """Without promiscuous mode only packets to its destination addresses are received."""
        with Testpmd(self.nic, "net_ccnic0,socket={socket},mac=02:00:00:00:00:07") as t:
            t.do("set promisc 0 off")
            t.do("set fwd mac")
            t.do("set eth-peer 0 02:00:00:00:00:08")
            t.do("start tx_first")
            t.until("filtered packets", lambda t: t.xstats()["rx_dropped_filtered_packets"] == 32)
            self.assertEqual(t.stats()["RX-errors"], 32)
            t.do("stop")
            t.do("mac_addr add 0 02:00:00:00:00:08")
            t.do("start tx_first")
            t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            t.do("stop")
            t.do("mac_addr remove 0 02:00:00:00:00:08")
            t.do("mac_addr set 0 02:00:00:00:00:09")
            self.assertIn("02:00:00:00:00:09", t.do("show port info 0"))

    def test_queues_stop_and_start(self):
        """Packets wait in the ring of a queue that is stopped, or that starts later than the port."""
        with Testpmd(self.nic, "net_ccnic0,socket={socket},queues=2", arguments=["--rxq=2", "--txq=2", "--disable-rss"]) as t:
            # testpmd does not poll, nor send with, a queue that it has stopped: so the packets are there before.
            t.do("set fwd txonly")
            t.do("start")
            t.until("packets in both rings", lambda t: "= 0\n" not in "".join(t.do(f"show port 0 rxq {q} desc used count") for q in (0, 1)))
            t.do("stop")
            self.assertNotIn("fail", t.do("port 0 rxq 1 stop").lower())
            self.assertNotIn("fail", t.do("port 0 txq 1 stop").lower())
            self.assertRegex(t.do("show port 0 rxq 1 desc used count"), "Used desc count = [1-9]")
            t.do("set fwd rxonly")
            t.do("start")
            t.until("packets of queue 0", lambda t: t.xstats()["rx_q0_packets"] > 0)
            t.do("stop")
            self.assertEqual(t.xstats()["rx_q1_packets"], 0)
            t.do("port 0 rxq 1 start")
            t.do("port 0 txq 1 start")
            t.drain()
            self.assertGreater(t.xstats()["rx_q1_packets"], 0)
            for command in "port stop 0", "port 0 rxq 0 deferred_start on", "port start 0", "clear port xstats 0", "set fwd io", "start tx_first 1":
                t.do(command)
            t.until("packets of the other queue", lambda t: t.xstats()["rx_q1_packets"] > 32)
            t.do("stop")
            self.assertEqual(t.xstats()["rx_q0_packets"], 0)
            t.do("port 0 rxq 0 start")
            t.do("start tx_first 1")
            t.until("packets of both", lambda t: t.xstats()["rx_q0_packets"] > 32)
            t.do("stop")

    def test_speed(self):
        for devargs, speed in ("", "100 Gbps"), (",speed=25000", "25 Gbps"):
            with Testpmd(self.nic, f"net_ccnic0,socket={{socket}}{devargs}") as t:
                self.assertIn(f"Link speed: {speed}", t.do("show port info 0"))

    def test_any_number_of_descriptors(self):
        """What Open vSwitch asks for, and more than any ring has."""
        for number in 2048, 65535:
            with Testpmd(self.nic, arguments=[f"--rxd={number}", f"--txd={number}"]) as t:
                self.assertIn("Number of RXDs: 1024", t.do("show rxq info 0 0"))
                t.do("start tx_first")
                t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
                t.do("stop")

    def test_a_nic_that_comes_later(self):
        """With wait=yes the port starts with its link down, recovers by itself, and gets RSS and offloads from the NIC that comes."""
        with Place() as place:
            log = testpmd_output("net_ccnic0,socket={socket}", place)
            self.assertIn("or wait for it with the link down: wait=yes", log)
            with Testpmd(place, "net_ccnic0,socket={socket},wait=yes") as t:
                self.assertIn("Link status: down", t.do("show port info 0"))
                t.do("start tx_first")
                nic = Nic(place=place)
                self.addCleanup(nic.kill)
                t.until("the link", lambda t: "Link status: up" in t.do("show port info 0"))
                t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
                t.do("stop")
                t.drain()

    def test_mtu(self):
        with Testpmd(self.nic) as t:
            t.do("set txpkts 1800")
            t.do("start tx_first")
            t.until("drops", lambda t: t.xstats()["rx_dropped_oversize_packets"] == 32)
            t.do("stop")
            t.do("port stop 0")
            self.assertNotIn("fail", t.do("port config mtu 0 9586").lower())
            self.assertIn("9587", t.do("port config mtu 0 9587"))
            self.assertIn("arrive in several segments, though RTE_ETH_RX_OFFLOAD_SCATTER is not", t.do("port start 0"))
            self.assertIn("MTU: 9586", t.do("show port info 0"))
            self.assertIn("RX scattered packets: on", t.do("show rxq info 0 0"))
            t.do("start tx_first")
            t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            t.do("stop")

    def test_link_can_be_set_down(self):
        with Testpmd(self.nic) as t:
            t.do("set link-down port 0")
            self.assertIn("Link status: down", t.do("show port info 0"))
            t.do("set link-up port 0")
            self.assertIn("Link status: up", t.do("show port info 0"))

    def test_statistics_can_be_cleared(self):
        with Testpmd(self.nic) as t:
            t.do("start tx_first")
            t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            t.do("stop")
            t.do("clear port stats 0")
            self.assertEqual(set(t.stats().values()), {0})
            self.assertEqual(t.xstats()["rx_size_64_packets"], 0)

    def test_plugging(self):
        """A device is plugged 200 times; neither file descriptors nor mappings leak, here or in the NIC."""
        with Testpmd(self.nic) as t:

            def cycle():
                t.do(f"port attach net_ccnic1,socket={self.nic.socket},queues=2,buffers=64")
                t.do("port start 1")
                self.assertIn("Link status: up", t.do("show port info 1"))
                t.do("port stop 1")
                t.do("port close 1")
                self.assertIn("is detached", t.do("device detach net_ccnic1"))

            def both():
                return held(t.process), held(self.nic.process)

            def regions():
                return [mapped for _, mapped in both()]

            # The NIC unmaps the region some time later.
            first = regions()
            for _ in range(5):
                cycle()
            t.until("the NIC lets go", lambda t: regions() == first)
            before = both()
            for _ in range(195):
                cycle()
            t.until(f"as few descriptors and regions as before, {before}", lambda t: both() == before)
            t.do("start tx_first")
            t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            t.do("stop")


class Death(unittest.TestCase):
    """Either side is killed under load; the other continues."""

    def test_nic(self):
        with Nic() as nic, Testpmd(nic) as t:
            t.do("set txpkts 64,200")
            t.do("start tx_first 8")
            for n in range(1, 4):
                t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
                nic.kill()
                t.until("the link is down", lambda t: "Link status: down" in t.do("show port info 0"))
                nic.start()
                t.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
                self.assertEqual(t.xstats()["nic_reconnects"], n)
                # Packets that the dead NIC was processing are lost; new ones restart the traffic.
                t.do("stop")
                t.do("clear port stats 0")
                t.do("start tx_first 8")
            t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            t.do("stop")
            self.assertEqual(t.stats()["RX-errors"], 0)
            self.assertIn("link state change event", t.log)

    def test_program(self):
        with Nic() as nic:
            for _ in range(3):
                t = Testpmd(nic)
                t.do("start tx_first 8")
                t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
                kill(t.process)
                t.__exit__(None)
            with Testpmd(nic) as t:
                t.do("start tx_first 8")
                t.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
                t.do("stop")


class Refusals(unittest.TestCase):
    """Every invalid argument has a message that names it and says what to do."""

    def test_devargs(self):
        for devargs, message in {
            "socket=/nowhere/nic.sock": "no NIC listens at socket=/nowhere/nic.sock; start one: ccnicd --socket",
            "socket=" + "x" * 108: "devarg socket: its value has 108 bytes; give 1 to 107",
            "socket=": "devarg socket",
            "pace=10": "devarg pace is unknown; known are socket, id, role, mac",
            "speed=fast": "devarg speed=fast: choose a number from ",
            "queues=0": "devarg queues=0: choose a number from 1 to 256",
            "queues=257": "devarg queues=257: choose",
            "queues=two": "devarg queues=two: choose",
            "queues": "devarg queues has no value; give queues=<value>",
            "rsize=1000": "devarg rsize=1000: choose a power of two, such as 1024",
            "rsize=32": "devarg rsize=32: choose a number from 64 to 32768",
            "buffers=15": "devarg buffers=15: choose a number from 16 to 262144",
            "mtu=9601": "devarg mtu=9601: choose a number from 64 to 9600",
            "mac=01:00:00:00:00:01": "devarg mac=01:00:00:00:00:01: give a unicast address",
            "mac=1:2": "devarg mac=1:2: give a unicast address",
            "zero-copy=maybe": "devarg zero-copy=maybe: choose one of no|yes|0|1",
            "design=best": "devarg design=best: choose one of ccnic|paper|packed|padded|e810",
            "partial=some": "devarg partial=some: choose one of no|yes|0|1",
            "demote=x": "devarg demote=x: choose one of auto|on|off",
            "pages=giant": "devarg pages=giant: choose one of auto|small|huge",
            "role=nic,queues=2": "devarg queues is for role=program; leave it out with role=nic, which takes socket, id, mac, speed and partial",
            "zero-copy=no,role=nic": "devarg zero-copy is for role=program",
            "role=nic,socket=/nowhere/nic.sock": "could not listen at socket=/nowhere/nic.sock",
            "role=both": "devarg role=both: choose one of program|nic",
            "mtu=100,mtu=200": "devarg mtu is given twice; give it once",
        }.items():
            with self.subTest(devargs):
                self.assertIn(message, testpmd_output(f"net_ccnic0,{devargs}"))

    def test_a_socket_that_is_taken(self):
        with Nic() as nic:
            self.assertIn(f"another NIC listens at socket={nic.socket}; stop it, or choose another",
                          testpmd_output("net_ccnic0,socket={socket},role=nic", nic))

    def test_a_region_that_the_nic_refuses(self):
        with Nic("--region-max", "16") as nic:
            output = testpmd_output("net_ccnic0,socket={socket}", nic)
            self.assertIn("lower buffers= (8192), rsize= or queues=, or raise what ccnicd allows", output)


class Mempool(unittest.TestCase):
    """DPDK's own tests, with the ops "ccnic" as the preferred ones."""

    def run_test(self, name, ccnic):
        with Nic() as nic:
            vdevs = ["net_ccnic0,socket={socket}"] if ccnic else []
            command = ["dpdk-test", *eal(nic, vdevs, ["--mbuf-pool-ops-name=ccnic"])]
            done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE,
                                  env={**os.environ, "DPDK_TEST": name})
            self.assertIn(b"Test OK", done.stdout, done.stdout[-3000:])

    def test_mempool_autotest(self):
        self.run_test("mempool_autotest", True)

    def test_mempool_autotest_without_a_device(self):
        self.run_test("mempool_autotest", False)

    def test_mbuf_autotest(self):
        self.run_test("mbuf_autotest", True)


if __name__ == "__main__":
    unittest.main()
