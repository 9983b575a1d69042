# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The driver with role=nic, against itself and programs in C. Run by `make dpdk-test`."""

import os
import pathlib
import random
import re
import subprocess
import sys
import time
import unittest

from harness import CPUS, ENOUGH, PATIENCE, RELEASE, SCATTER, ROOT, Nic, NicPort, Place, Testpmd, held, kill, mixed_packets, read_pcap, write_pcap


class AsNic(unittest.TestCase):
    """role=nic: a testpmd is the NIC that another one attaches to."""

    def setUp(self):
        self.place = self.enterContext(Place())

    def serve(self, *arguments, devargs="", **testpmd):
        """A NIC that returns packets, and retries until the program has received them."""
        return self.enterContext(self.serve_unowned(*arguments, devargs=devargs, **testpmd))

    def serve_unowned(self, *arguments, devargs="", **testpmd):
        nic = NicPort(self.place, devargs, arguments=arguments, **testpmd)
        for command in "set fwd io retry", "set burst tx delay 1 retry 100000", "start":
            nic.do(command)
        return nic

    def exchange(self, program, setup=()):
        """The program sends, at least ENOUGH comes back."""
        for command in *setup, "set fwd io", "start tx_first 4":
            program.do(command)
        before = program.stats()["RX-packets"]
        program.until("packets", lambda t: t.stats()["RX-packets"] >= before + ENOUGH)
        program.do("stop")

    def lose(self, victim, program, survivor):
        """Kills one side while the program sends; the other side's link goes down."""
        program.do("start tx_first 8")
        program.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
        kill(victim.process)
        victim.__exit__(None)
        survivor.until("the link is down", lambda t: "Link status: down" in t.do("show port info 0"))

    def assert_counts(self, nic, program):
        """One side has received what the other has sent."""
        program.drain()
        there, here = nic.stats(), program.stats()
        for way, back in ("RX", "TX"), ("TX", "RX"):
            for what in "packets", "bytes":
                self.assertEqual(there[f"{way}-{what}"], here[f"{back}-{what}"])
        self.assertEqual((there["RX-errors"], there["TX-errors"], there["RX-nombuf"]), (0, 0, 0))
        xstats = nic.xstats()
        for way in "rx", "tx":
            sizes = [n for name, n in xstats.items() if name.startswith(way) and ("_size_" in name or "undersize" in name)]
            self.assertEqual(sum(sizes), xstats[f"{way}_good_packets"], way)
        self.assertEqual([name for name, n in xstats.items() if "dropped" in name and n > 0], [])

    def test_sizes(self):
        nic = self.serve("--tx-offloads=0x8000")
        with Testpmd(self.place, arguments=["--tx-offloads=0x8000"]) as program:
            for sizes in "64", "1500", "64,200,1000":
                self.exchange(program, [f"set txpkts {sizes}"])
            self.assert_counts(nic, program)

    def test_all_designs(self):
        nic = self.serve()
        for n, design in enumerate(("ccnic", "paper", "packed", "padded", "e810"), 1):
            with self.subTest(design), Testpmd(self.place, f"net_ccnic0,socket={{socket}},design={design}") as program:
                self.exchange(program)
                program.drain()
            self.assertEqual(nic.xstats()["programs_served"], n)

    def test_flowgen(self):
        nic = self.serve()
        with Testpmd(self.place) as program:
            program.do("set fwd flowgen")
            program.do("start")
            program.until("packets", lambda t: t.stats()["RX-packets"] >= ENOUGH)
            program.do("stop")
            self.assert_counts(nic, program)

    def test_more_and_fewer_queues_than_the_program(self):
        nic = self.serve("--rxq=2", "--txq=2")
        for queues in 1, 2, 5:
            vdev = f"net_ccnic0,socket={{socket}},queues={queues},buffers=1024"
            # Without RSS: testpmd sends a single flow, which would come back on one queue.
            arguments = [f"--rxq={queues}", f"--txq={queues}", "--disable-rss"]
            with self.subTest(queues), Testpmd(self.place, vdev, arguments=arguments) as program:
                self.exchange(program)
                program.drain()
                xstats = program.xstats()
                for queue in range(queues):
                    self.assertGreater(xstats[f"tx_q{queue}_packets"], 0)
                    # The port transmits on as many queues as it has.
                    self.assertEqual(xstats[f"rx_q{queue}_packets"] > 0, queue < 2)

    def test_two_threads(self):
        """Two ports, two cores: every pair has two users, and reading statistics takes it away from both."""
        more = [f"net_ccnic1,role=nic,socket={self.place.socket}-1"]
        nic = self.serve("--nb-cores=2", more=more)
        with Testpmd(self.place, more=[f"net_ccnic1,socket={self.place.socket}-1"]) as program:
            program.do("set fwd io")
            program.do("start tx_first 4")
            for port in 0, 1:
                program.until("packets", lambda t: nic.stats(port) and t.stats(port)["RX-packets"] >= ENOUGH)
            program.do("stop")

    def bridge(self, mbuf_size):
        """A file to the program through the NIC, another the other way."""
        packets = mixed_packets()
        there, back, got = (self.place.directory / name for name in ("there.pcap", "back.pcap", "got.pcap"))
        write_pcap(there, packets)
        arguments = ["--no-flush-rx", f"--mbuf-size={mbuf_size}"]
        nic = NicPort(self.place, more=[f"net_pcap0,rx_pcap={there},tx_pcap={back}"], arguments=arguments)
        program = Testpmd(self.place, more=[f"net_pcap0,rx_pcap={there},tx_pcap={got}"], arguments=arguments)
        with nic, program:
            for side in program, nic:
                for command in "port stop 0", SCATTER, "port config mtu 0 9586", "port start 0", "set fwd io":
                    side.do(command)
            nic.until("the program is there", lambda t: "Link status: up" in t.do("show port info 0"))
            for side in program, nic:
                side.do("start")
            for side in program, nic:
                side.until("all packets", lambda t: t.stats(1)["TX-packets"] == len(packets))
                side.do("stop")
        self.assertEqual(read_pcap(got), packets)
        self.assertEqual(read_pcap(back), packets)

    def test_bridge_with_segmented_mbufs(self):
        self.bridge(2176)

    def test_bridge_with_large_mbufs(self):
        self.bridge(9900)

    def test_control(self):
        with NicPort(self.place, ",mac=02:00:00:00:00:07,id=wire") as nic:
            info = nic.do("show port info 0")
            for line in "MAC address: 02:00:00:00:00:07", "Driver name: net_ccnic", "Link status: down", "Max possible RX queues: 256":
                self.assertIn(line, info)
            with Testpmd(self.place, "net_ccnic0,socket={socket},mac=02:00:00:00:00:08,id=guest") as program:
                nic.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
                self.assertIn("link state change event", nic.log)
                self.assertRegex(nic.log, r"guest \(process \d+\) has attached: 1 queues of 1024 descriptors, packets up to 9600 bytes, 02:")
                status = Nic.programs(self.place)
                self.assertIn("wire", status)
                self.assertIn("guest", status)
                nic.do("set promisc 0 off")
                nic.do("start")
                program.do("set fwd mac")
                program.do("start tx_first")
                nic.until("filtered packets", lambda t: t.xstats()["rx_dropped_filtered_packets"] == 32)
                self.assertEqual(nic.stats()["RX-errors"], 32)
                program.do("stop")
                nic.do("set promisc 0 on")
                program.do("set txpkts 1800")
                program.do("start tx_first")
                nic.until("too long for the MTU", lambda t: t.xstats()["rx_dropped_oversize_packets"] == 32)
                program.do("stop")
                nic.do("stop")
                nic.do("clear port stats 0")
                self.assertEqual(set(nic.stats().values()), {0})
                self.assertEqual(nic.xstats()["rx_dropped_oversize_packets"], 0)
            nic.until("the link is down", lambda t: "Link status: down" in t.do("show port info 0"))

    def test_packets_too_long_for_the_program(self):
        with NicPort(self.place) as nic, Testpmd(self.place, "net_ccnic0,socket={socket},mtu=1000"):
            nic.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
            nic.do("set txpkts 1500")
            nic.do("start tx_first 2")
            nic.until("drops", lambda t: t.xstats()["tx_dropped_too_long_packets"] == 64)
            nic.do("stop")

    def test_a_program_that_does_not_receive(self):
        with NicPort(self.place) as nic, Testpmd(self.place):
            nic.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
            nic.do("set fwd txonly")
            nic.do("start")
            nic.until("a full ring", lambda t: t.xstats()["tx_left_ring_full"] > 0)
            nic.do("stop")
            self.assertEqual(nic.stats()["TX-packets"], 1024)

    def test_the_port_stops_and_starts(self):
        nic = self.serve()
        with Testpmd(self.place) as program:
            for _ in range(3):
                self.exchange(program)
                program.drain()
                for command in "stop", "port stop 0", "port start 0", "start":
                    nic.do(command)
            self.exchange(program)
            self.assertEqual(nic.xstats()["programs_served"], 1)

    def test_a_second_program_waits(self):
        nic = self.serve()
        with Testpmd(self.place) as first:
            self.exchange(first)
            with Testpmd(self.place) as second:
                second.do("start tx_first 4")
                self.exchange(first)
                self.assertEqual((second.stats()["RX-packets"], nic.xstats()["programs_served"]), (0, 1))
                first.quit()
                second.until("its turn", lambda t: t.stats()["RX-packets"] >= ENOUGH)
                second.do("stop")
        self.assertEqual(nic.xstats()["programs_served"], 2)

    def test_ports_with_one_socket_serve_several_programs(self):
        """Each program gets a port that is free; a third one waits for its turn."""
        more = [f"net_ccnic1,role=nic,socket={self.place.socket}"]
        nic = self.serve("--port-topology=loop", more=more)
        with Testpmd(self.place) as first, Testpmd(self.place) as second:
            for program in first, second:
                program.do("set fwd io")
                program.do("start tx_first 4")
            for program in first, second:
                before = program.stats()["RX-packets"]
                program.until("packets, with the other one beside it", lambda t: t.stats()["RX-packets"] >= before + ENOUGH)
            self.assertEqual([nic.xstats(port)["programs_served"] for port in (0, 1)], [1, 1])
            with Testpmd(self.place) as third:
                third.do("start tx_first 4")
                self.exchange_again(first)
                self.assertEqual(third.stats()["RX-packets"], 0)
                second.quit()
                third.until("its turn", lambda t: t.stats()["RX-packets"] >= ENOUGH)
                self.exchange_again(first)
                third.do("stop")
            first.do("stop")
        served = sorted(nic.xstats(port)["programs_served"] for port in (0, 1))
        self.assertEqual(served, [1, 2])

    def exchange_again(self, program):
        before = program.stats()["RX-packets"]
        program.until("packets", lambda t: t.stats()["RX-packets"] >= before + ENOUGH)

    def test_ports_with_one_socket_close_one_after_the_other(self):
        """The socket stays until the last port has closed. Ports that take less than before have programs attach again."""
        more = [f"net_ccnic1,role=nic,socket={self.place.socket}"]
        nic = self.serve("--port-topology=loop", more=more)
        with Testpmd(self.place) as program:
            self.exchange(program)
            for command in "stop", "port stop 1", "port config 1 rx_offload vlan_strip on", "port start 1", "start":
                nic.do(command)
            self.exchange(program)  # what both take has not changed
            self.assertEqual(program.xstats()["nic_reconnects"], 0)
            for command in "stop", "port stop 0", "port config 0 rx_offload vlan_strip on", "port start 0", "start":
                nic.do(command)
            program.until("it has attached again", lambda t: t.xstats()["nic_reconnects"] == 1)
            program.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
            self.exchange(program)
            nic.do("stop")
            for n, port in enumerate((0, 1), 1):
                for command in f"port stop {port}", f"port close {port}":
                    nic.do(command)
                if n == 1:
                    program.until("the other port", lambda t: "Link status: up" in t.do("show port info 0"))
            program.until("no NIC", lambda t: "Link status: down" in t.do("show port info 0"))
        self.assertFalse(self.place.socket.exists())

    def test_a_hundred_programs(self):
        """Programs attach and end with packets in flight; neither file descriptors nor mappings leak in the NIC."""
        nic = self.serve()

        with Testpmd(self.place, "net_null0", options=()) as t:

            def cycle(n):
                t.do(f"port attach net_ccnic1,socket={self.place.socket},queues=2,buffers=64")
                t.do("port start 1")
                self.assertIn("Link status: up", t.do("show port info 1"))
                t.do("start tx_first")
                t.do("stop")
                t.do("port stop 1")
                t.do("port close 1")
                self.assertIn("is detached", t.do("device detach net_ccnic1"))
                nic.until("it was served", lambda nic: nic.xstats()["programs_served"] == n)

            def gone(nic):
                return "Link status: down" in nic.do("show port info 0")

            before = held(nic.process)
            for n in range(1, 101):
                cycle(n)
            nic.until("the last has gone", gone)
            nic.until(f"as few descriptors and regions as before, {before}", lambda _: held(nic.process) == before)
        with Testpmd(self.place) as program:
            self.exchange(program)

    def test_the_nic_is_plugged(self):
        """The device is unplugged and plugged again under a program, which attaches again."""
        with Testpmd(None, "net_null0", options=(), cpu=CPUS[-1]) as nic:

            def plug():
                nic.do(f"port attach net_ccnic0,role=nic,socket={self.place.socket}")
                nic.do("port start 1")

            def unplug():
                for command in "port stop 1", "port close 1":
                    nic.do(command)
                self.assertIn("is detached", nic.do("device detach net_ccnic0"))

            plug()
            with Testpmd(self.place) as program:
                before = None
                for n in range(1, 21):
                    nic.until("a program", lambda t: "Link status: up" in t.do("show port info 1"))
                    unplug()
                    program.until("the link is down", lambda t: "Link status: down" in t.do("show port info 0"))
                    before = before or held(nic.process)
                    self.assertEqual(held(nic.process), before)
                    plug()
                    program.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
                    self.assertEqual(program.xstats()["nic_reconnects"], n)
            unplug()

    def test_link_can_be_set_down(self):
        nic = self.serve()
        with Testpmd(self.place) as program:
            self.exchange(program)
            program.drain()
            before = nic.stats()["RX-packets"]
            nic.do("set link-down port 0")
            self.assertIn("Link status: down", nic.do("show port info 0"))
            program.do("start tx_first 4")
            program.do("stop")
            self.assertEqual(nic.stats()["RX-packets"], before)
            nic.do("set link-up port 0")
            self.assertIn("Link status: up", nic.do("show port info 0"))
            program.drain()

    @unittest.skipUnless(os.geteuid() == 0 and os.access("/dev/net/tun", os.W_OK), "TAP interfaces need root")
    def test_bridge_to_the_kernel(self):
        """The kernel pings the program through a TAP interface, in a network namespace of its own."""
        nic = NicPort(self.place, more=["net_tap0,iface=ccnic0"], wrap=("unshare", "--net"))
        with nic, Testpmd(self.place) as program:
            nic.until("the program is there", lambda t: "Link status: up" in t.do("show port info 0"))
            program.do("set fwd icmpecho")
            for side in program, nic:
                side.do("start")
            there = ("nsenter", "--net", f"--target={nic.process.pid}")
            ping = pathlib.Path(__file__).with_name("ping.py")
            subprocess.run([*there, sys.executable, ping, "ccnic0", "10.9.0.1", "10.9.0.2"], check=True, timeout=PATIENCE)

    def compile_generator(self):
        """A program on libccnic alone, which starts at once."""
        capi = ROOT / "crates" / "ccnic-capi"
        generator = self.place.directory / "generator"
        subprocess.run(["cc", "-O2", f"-I{capi / 'include'}", capi / "examples" / "generator.c", RELEASE / "libccnic_capi.a",
                        "-lpthread", "-ldl", "-lm", "-o", generator], check=True)
        return generator

    def test_programs_are_killed_at_any_moment(self):
        """While they attach, wait and send, with the port stopping and two threads on a pair. No buffer is lost."""
        generator = self.compile_generator()
        random.seed(4711)
        with NicPort(self.place, arguments=["--rxq=2", "--txq=2", "--nb-cores=2", "--port-topology=loop"]) as nic:

            def free_mbufs(nic):
                text = nic.do("dump_mempool mb_pool_0")
                return sum(int(n) for n in re.findall(r"(?:total_cache|common_pool)_count=(\d+)", text))

            before = held(nic.process)
            nic.do("start")
            for i in range(60):
                command = [generator, self.place.socket, "100000000", random.choice(["64", "1500"])]
                programs = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(1 + i % 2)]
                nic.stats()
                if i % 10 == 7:
                    for command in "stop", "port stop 0", "port start 0", "start":
                        nic.do(command)
                time.sleep(random.random() * 0.1)
                for program in programs:
                    kill(program)
            nic.until(f"as few descriptors and regions as before, {before}", lambda _: held(nic.process) == before)
            nic.do("stop")
            nic.do("port stop 0")  # which returns the mbufs that the receive queues hold for the next packets
            self.assertEqual(free_mbufs(nic), 8192)

    def test_a_program_in_c(self):
        generator = self.compile_generator()
        nic = self.serve()
        for command in "stop", "port stop 0", SCATTER, "port config mtu 0 9586", "port start 0", "start":
            nic.do(command)
        for n, arguments in enumerate((["100000", "64"], ["20000", "1500", "32", "256"], ["20000", "9000"]), 1):
            subprocess.run([generator, self.place.socket, *arguments], check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)
            nic.until("its end", lambda t: t.xstats()["link_downs"] == n)
        self.assertEqual(nic.stats()["RX-packets"], 140000)

    def test_program_is_killed(self):
        nic = self.serve()
        for n in range(1, 5):
            program = Testpmd(self.place)
            program.do("set txpkts 64,200")
            self.lose(program, program, nic)
            xstats = nic.xstats()
            self.assertEqual((xstats["programs_served"], xstats["link_downs"]), (n, n))
        with Testpmd(self.place) as program:
            self.exchange(program)

    def test_nic_is_killed(self):
        nic = self.serve_unowned()
        with Testpmd(self.place) as program:
            for n in range(1, 4):
                self.lose(nic, program, program)
                nic = self.serve_unowned()
                program.until("the link is up", lambda t: "Link status: up" in t.do("show port info 0"))
                self.assertEqual(program.xstats()["nic_reconnects"], n)
                program.do("stop")
                program.do("clear port stats 0")
            self.exchange(program)
            nic.quit()
            nic.__exit__(None)


if __name__ == "__main__":
    unittest.main()
