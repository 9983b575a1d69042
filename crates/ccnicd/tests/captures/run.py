#!/usr/bin/env python3
"""The captures of tcpdump's own tests, of Debian's source package, through a pcap port of a daemon: each is replayed and, by a mirror,
recorded; what is recorded is what Wireshark's reader finds (editcap), byte for byte, or the file is refused with a reason.

    run.py PROGRAMS BUILD [FILE ...]      # PROGRAMS: where ccnicd is; BUILD: where the sources are fetched to; FILE: others than those

Compared are the packets of Ethernet that a port can send: of 1 to 65,558 bytes, without the FCS that the file announces. All others are to
be counted as `missed`. A file that has none is to be refused, one that is cut or damaged to give what comes before. Exit status 1: a file
does something else."""

import collections
import json
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
WITH_SOURCES = HERE.parents[3] / "apps/tests/memcached/with-sources.sh"
LONGEST = (64 << 10) + 22
ETHERNET = 1
PATIENCE_S = 30


def sources(build):
    """The folder of captures; None where it is not to be had."""
    build.mkdir(parents=True, exist_ok=True)
    if not list(build.glob("tcpdump-*/tests")):
        if not shutil.which("apt-get"):
            return None
        fetch = ["apt-get", "source", "--download-only", "tcpdump"]
        if subprocess.run(fetch, cwd=build, capture_output=True, check=False).returncode:
            subprocess.run([WITH_SOURCES, *fetch], cwd=build, capture_output=True, check=False)
        for archive in build.glob("tcpdump_*.orig.tar.*[xz2]"):
            subprocess.run(["tar", "xf", archive], cwd=build, check=True)
    return next(build.glob("tcpdump-*/tests"), None)


def blocks(data):
    """The blocks of a pcapng file of this machine's byte order."""
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("=II", data, at)
        yield kind, data[at + 8 : at + length - 4]
        at += length


def packets(data):
    """Link type, bytes and original length of each packet, of a file that editcap or ccnicd has written."""
    links = []
    for kind, body in blocks(data):
        if kind == 1:
            links.append(struct.unpack_from("=H", body)[0])
        elif kind == 6:
            interface, _, _, captured, original = struct.unpack_from("=IIIII", body)
            yield links[interface], body[20 : 20 + captured], original


def fcs_length(path):
    """Bytes of the FCS that the header of a classic file announces."""
    head = path.read_bytes()[:24]
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}
    if len(head) < 24 or head[:4] not in order:
        return 0
    (network,) = struct.unpack_from(order[head[:4]] + "I", head, 20)
    return network >> 28 << 1 if network & 1 << 26 else 0


def expectation(path, folder):
    """What the port is to send of a file, in order; how many packets it is to count as missed; what editcap says."""
    out = folder / (path.name + ".pcapng")
    done = subprocess.run(["editcap", "-F", "pcapng", path, out], capture_output=True, text=True, check=False)
    send, missed, fcs = [], 0, fcs_length(path)
    for link, data, original in packets(out.read_bytes() if out.exists() else b""):
        data = data[: max(max(original, len(data)) - fcs, 0)]
        if link == ETHERNET and 0 < len(data) <= LONGEST:
            send.append(data)
        else:
            missed += 1
    out.unlink(missing_ok=True)
    return send, missed, " ".join(done.stderr.split())


class Nic:
    """A daemon, and its control socket."""

    def __init__(self, program, folder, captures):
        self.record = f"pcap:record={folder}/all.pcapng"
        self.log = (folder / "log").open("w+")
        at = folder / "nic.sock"
        flags = ["--socket", at, "--wire", "switch", "--tuning", "default", "--port", self.record]
        flags += [flag for path in captures for flag in ("--later-paths", path)]
        self.daemon = subprocess.Popen([program, *flags, "--later-paths", folder], stdout=self.log, stderr=self.log)
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self.socket.connect(str(at))
                break
            except OSError:
                self.socket.close()
                if time.monotonic() > end or self.daemon.poll() is not None:
                    self.log.seek(0)
                    sys.exit(f"ccnicd does not answer: {self.log.read()}")
                time.sleep(0.01)

    def ask(self, request):
        self.socket.send(json.dumps(request).encode())
        return json.loads(self.socket.recv(65536))

    def replay(self, path, wanted):
        """Replays a file to its end; returns what its port has counted, or why it was refused."""
        name = f"pcap:{path}"
        mirror = {"rate": "asap", "mirror": {"to": self.record, "received": False}}
        answer = self.ask({"port-add": {"port": name, "set": mirror}})
        if "refused" in answer:
            return None, answer["refused"]["reason"]
        end = time.monotonic() + PATIENCE_S
        while True:
            ports = {port["name"]: port for port in self.ask("status")["status"]["programs"]}
            queue = ports[name]["queues"][0]
            counted = queue["tx_packets"], queue.get("missed", 0)
            if sum(counted) >= wanted or time.monotonic() > end:
                break
            time.sleep(0.001)
        self.ask({"port-del": {"name": name}})
        return counted, ""

    def stop(self):
        """Returns the packets that were recorded."""
        self.daemon.send_signal(signal.SIGTERM)
        if self.daemon.wait(PATIENCE_S):
            sys.exit("ccnicd has not ended as it should")
        return [data for _, data, _ in packets(Path(self.record.removeprefix("pcap:record=")).read_bytes())]


def main():
    program, build = Path(sys.argv[1]).resolve() / "ccnicd", Path(sys.argv[2]).resolve()
    captures = [Path(name).resolve() for name in sys.argv[3:]]
    if not shutil.which("editcap"):
        print("SKIPPED: the captures of tcpdump: there is no editcap (tshark)")
        return 0
    if not captures:
        folder = sources(build)
        if not folder:
            print("SKIPPED: the captures of tcpdump: its sources are not to be had")
            return 0
        names = (path for path in folder.iterdir() if path.suffix in (".pcap", ".pcapng", ".cap"))
        captures = sorted(path.resolve() for path in names if path.stat().st_size)
    results, wrong, number = collections.Counter(), [], 0
    with tempfile.TemporaryDirectory(prefix="captures-") as folder:
        folder = Path(folder)
        nic = Nic(program, folder, sorted({path.parent for path in captures}))
        with ThreadPoolExecutor(2) as pool:
            expected = list(pool.map(lambda path: expectation(path, folder), captures))
        sent = []
        for path, (send, missed, _) in zip(captures, expected):
            sent.append(nic.replay(path, len(send) + missed))
        recorded, log = iter(nic.stop()), (folder / "log").read_text().splitlines()
        for path, (send, missed, said), (counted, why) in zip(captures, expected, sent):
            if counted is None:
                results["refused: " + ("not captured on Ethernet" if "link type" in why else why.rsplit(": ", 1)[-1])] += 1
                if send:
                    wrong.append(f"{path.name}: refused, and has {len(send)} packets: {why}")
                continue
            got = [data for _, data in zip(range(counted[0]), recorded)]
            if (len(send), missed) != counted or got != send:
                differ = [at + 1 for at, pair in enumerate(zip(got, send)) if pair[0] != pair[1]][:3]
                wrong.append(f"{path.name}: {counted} sent and missed, not {(len(send), missed)}; other bytes: {differ}; {said}")
                continue
            for expected, what in ((said, "the replay ends early"), (missed, "skipped packet")):
                if bool(expected) != any(f"file={path}" in line.split() and what in line for line in log):
                    wrong.append(f"{path.name}: {what!r} is said, or not, without a reason; {said}")
            kind = "identical" if not missed else "identical, others counted"
            results[kind + (", to where it is cut or damaged" if said else "")] += 1
            number += len(send)
        if next(recorded, None) is not None:
            wrong.append("more was recorded than was sent")
    for kind, files in sorted(results.items()):
        print(f"{files:5} {kind}")
    print("\n".join(wrong) or f"{len(captures)} captures: each is identical or refused; {number} packets were compared")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
