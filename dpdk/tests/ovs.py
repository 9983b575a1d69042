# SPDX-License-Identifier: Apache-2.0 OR MIT
"""For the tests of Open vSwitch: a vswitchd with DPDK and a database of its own in a network namespace of its own, and programs on
libccnic in Python. Standard library only."""

import atexit
import ctypes
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from harness import PATIENCE, PLUGIN, RELEASE, ROOT

VSWITCHD = pathlib.Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
SCHEMA = pathlib.Path("/usr/share/openvswitch/vswitch.ovsschema")
# Memory of its own for OVS: the tests use no huge pages.
MEMORY = "--no-huge --legacy-mem -m 512 --no-pci --no-telemetry --no-shconf"


def missing():
    """Why the tests cannot run here; None if they can."""
    if os.geteuid() != 0 or not os.access("/dev/net/tun", os.W_OK):
        return "a bridge of Open vSwitch needs root and /dev/net/tun"
    if not VSWITCHD.exists() or not shutil.which("ovsdb-server"):
        return "no Open vSwitch with DPDK here: apt-get install openvswitch-switch-dpdk"
    return None


def until(what, condition, patience=PATIENCE):
    """Waits for a condition; returns its value."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out waiting for {what}")
        time.sleep(0.01)
    return value


class Ovs:
    """An Open vSwitch. `other_config`: more of its settings, such as userspace-tso-enable."""

    def __init__(self, memory=MEMORY, **other_config):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ccnic-ovs-"))
        self.environment = {**os.environ, **{f"OVS_{name}": str(self.directory) for name in ("RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR")}}
        self.remote = f"unix:{self.directory}/db.sock"
        self.log = self.directory / "ovs-vswitchd.log"
        database = self.directory / "conf.db"
        subprocess.run(["ovsdb-tool", "create", database, SCHEMA], check=True)
        self.database = self.spawn("ovsdb-server", database, f"--remote=p{self.remote}", f"--unixctl={self.directory}/db.ctl")
        until("the database", lambda: (self.directory / "db.sock").exists())
        settings = {"dpdk-init": "true", "dpdk-extra": f"{memory} -d {PLUGIN}", **{k.replace("_", "-"): v for k, v in other_config.items()}}
        self.vsctl("--no-wait", "init", "--", "set", "Open_vSwitch", ".", *(f'other_config:{k}="{v}"' for k, v in settings.items()))
        self.process = None
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise

    def spawn(self, *command):
        with open(self.directory / "output.log", "ab") as output:
            return subprocess.Popen(list(map(str, command)), env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def start(self):
        self.log.unlink(missing_ok=True)
        # The database may have the state of a predecessor.
        self.vsctl("--no-wait", "set", "Open_vSwitch", ".", "dpdk_initialized=false")
        for name in self.vsctl("--bare", "--columns=name", "list", "Interface").split():
            self.vsctl("--no-wait", "clear", "Interface", name, "link_state")
        self.process = self.spawn("unshare", "--net", VSWITCHD, self.remote, f"--unixctl={self.directory}/vs.ctl", f"--log-file={self.log}")
        until("Open vSwitch", self.is_up)
        self.inside("ip", "link", "set", "lo", "up")

    def is_up(self):
        if self.process.poll() is not None:
            raise AssertionError(f"ovs-vswitchd has ended with {self.process.returncode}:\n{self.said()}")
        return self.vsctl("get", "Open_vSwitch", ".", "dpdk_initialized").strip() == "true" and (self.directory / "vs.ctl").exists()

    def said(self):
        log = self.log if self.log.exists() else self.directory / "output.log"
        return "\n".join(line for line in log.read_text().splitlines()[-100:] if "|coverage|" not in line)

    def run(self, *command):
        done = subprocess.run(list(map(str, command)), env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: {done.stderr}{done.stdout}\n{self.said()}")
        return done.stdout

    def vsctl(self, *arguments):
        return self.run("ovs-vsctl", f"--db={self.remote}", "--timeout=30", *arguments)

    def appctl(self, *arguments):
        return self.run("ovs-appctl", f"--target={self.directory}/vs.ctl", *arguments)

    def inside(self, *command):
        """Runs a command in the namespace of its bridges' interfaces."""
        return self.run("nsenter", "--net", f"--target={self.process.pid}", *command)

    def flows(self, bridge, *flows):
        """Replaces the rules of a bridge."""
        rules = self.directory / "flows"
        rules.write_text("\n".join(flows) + "\n")
        self.run("ovs-ofctl", "-O", "OpenFlow13", "replace-flows", f"unix:{self.directory}/{bridge}.mgmt", rules)

    def bridge(self, name, *more):
        self.vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev", *more)

    def port(self, bridge, name, devargs, *more):
        """A port as its documentation says; `more`: settings of the port's interface, or further commands."""
        self.vsctl("add-port", bridge, name, "--", "set", "Interface", name, "type=dpdk", f'options:dpdk-devargs="{devargs}"', *more)
        error = self.vsctl("get", "Interface", name, "error").strip()
        if error != "[]":
            raise AssertionError(f"add-port {name} {devargs}: {error}\n{self.said()}")

    def linked(self, *names):
        """Waits until the links of ports are up."""
        for name in names:
            until(f"the link of {name}", lambda: self.vsctl("get", "Interface", name, "link_state").strip() == "up")

    def statistics(self, name):
        return {k: int(v) for k, v in re.findall(r'"?(\w+)"?=(\d+)', self.vsctl("get", "Interface", name, "statistics"))}

    def clear(self):
        """Without bridges, as after its start."""
        for bridge in self.vsctl("list-br").split():
            self.vsctl("del-br", bridge)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in filter(None, (self.process, self.database)):
            process.terminate()
            process.wait()
        shutil.rmtree(self.directory)


class Buffer(ctypes.Structure):
    """struct ccnic_buf"""

    _fields_ = [("offset", ctypes.c_uint32), ("len", ctypes.c_uint16), ("flags", ctypes.c_uint8), ("reserved", ctypes.c_uint8),
                ("meta", ctypes.c_uint64)]


class Options(ctypes.Structure):
    """struct ccnic_options"""

    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), *((name, ctypes.c_uint32) for name in
                ("design", "flags", "queues", "ring", "buffers", "mtu", "pages")), ("mac", ctypes.c_uint8 * 6), ("reserved", ctypes.c_uint8 * 2)]


MORE, LARGE = 1, 4096
# A program that starts before its NIC.
LATER = 64


@functools.cache
def library():
    """libccnic, linked from the archive that cargo made."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="ccnic-lib-"))
    atexit.register(shutil.rmtree, directory)
    subprocess.run([ROOT / "crates" / "ccnic-capi" / "link.sh", RELEASE / "libccnic_capi.a", directory], check=True)
    so = ctypes.CDLL(str(directory / "libccnic.so"))
    so.ccnic_last_error.restype = ctypes.c_char_p
    return so


class Program:
    """A program that is attached to a NIC by libccnic, with one queue pair."""

    def __init__(self, socket, name="program", flags=0):
        self.lib, self.nic, self.queue = library(), ctypes.c_void_p(), ctypes.c_void_p()
        options = Options(size=ctypes.sizeof(Options), name=name.encode(), buffers=2048, flags=flags)
        self.call("open", str(socket).encode(), ctypes.byref(options), ctypes.byref(self.nic))
        self.call("queue_open", self.nic, ctypes.c_uint16(0), ctypes.byref(self.queue))
        # A queue begins with a struct ccnic_view.
        self.base = ctypes.cast(self.queue, ctypes.POINTER(ctypes.c_uint64))[0]
        self.some = (Buffer * 256)()

    def call(self, name, *arguments):
        result = getattr(self.lib, f"ccnic_{name}")(*arguments)
        if result < 0:
            raise OSError(-result, self.lib.ccnic_last_error().decode())
        return result

    def up(self):
        return self.lib.ccnic_link_state(self.nic) == 1

    def reconnect(self):
        """Attaches to the NIC that has taken the place of the old one; False if there is none yet."""
        return self.lib.ccnic_reconnect(self.nic) >= 0

    def checksums(self, version):
        """The metadata that leave checksums of packets of IPv4 or IPv6 to the NIC; 0 for one that takes none."""
        takes = self.call("offloads", self.nic)
        return (version == 4 and takes & 1) << 35 | (takes & 2) << 36

    def send(self, frames, meta=0):
        """Sends frames, all of them."""
        for frame in frames:
            count = max(1, -(-len(frame) // LARGE))
            bufs = (Buffer * count)()
            until("a free buffer", lambda: self.call("buf_alloc", self.queue, ctypes.c_uint16(len(frame)), bufs, ctypes.c_uint16(count)))
            at, bufs[0].meta = 0, meta
            for buf in bufs:
                ctypes.memmove(self.base + buf.offset, frame[at : at + buf.len], buf.len)
                at += buf.len
            until("room in the ring", lambda: self.call("tx_burst", self.queue, bufs, ctypes.c_uint16(count)))

    def send_some(self, frames):
        """Sends frames up to the first for which there is no room."""
        for frame in frames:
            buf = Buffer()
            if self.call("buf_alloc", self.queue, ctypes.c_uint16(len(frame)), ctypes.byref(buf), ctypes.c_uint16(1)) == 0:
                return
            ctypes.memmove(self.base + buf.offset, frame, len(frame))
            if self.call("tx_burst", self.queue, ctypes.byref(buf), ctypes.c_uint16(1)) == 0:
                self.call("buf_free", self.queue, ctypes.byref(buf), ctypes.c_uint16(1))
                return

    def receive(self):
        """The frames that are there."""
        count = self.call("rx_burst", self.queue, self.some, ctypes.c_uint16(len(self.some)))
        frames, frame = [], b""
        for buf in self.some[:count]:
            frame += ctypes.string_at(self.base + buf.offset, buf.len)
            if not buf.flags & MORE:
                frames.append(frame)
                frame = b""
        self.call("buf_free", self.queue, self.some, ctypes.c_uint16(count))
        return frames

    def expect(self, number, patience=PATIENCE):
        """Waits for so many frames; returns them."""
        frames = []

        def arrived():
            frames.extend(self.receive())
            return len(frames) >= number

        until(f"{number} frames", arrived, patience)
        return frames

    def drain(self):
        """Receives until nothing more comes."""
        while self.receive():
            time.sleep(0.01)

    def close(self):
        if self.nic:
            self.call("queue_close", self.queue)
            self.call("close", self.nic)
            self.nic = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# What a Flood sends.
FLOOD = [b"\xff" * 6 + b"\x02\0\0\0\0\x0f" + b"\x88\xb5" + bytes(i % 251 for i in range(size)) for size in (46, 100, 200, 700, 1500)]


class Flood:
    """A process that sends as fast as it can, to whatever NIC is there. Ends with the block."""

    def __init__(self, socket):
        self.process = subprocess.Popen([sys.executable, __file__, socket])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def flood(socket):
    with Program(socket, "flood", LATER) as program:
        while True:
            if not program.up():
                program.reconnect()
            program.send_some(FLOOD)


if __name__ == "__main__":
    flood(sys.argv[1])
