#!/usr/bin/env python3
"""Where in a burst the instructions of each side lie: between which accesses to the region, as valgrind's lackey traces them.

usage: stages.py PROGRAM LOOP [--design NAME] [--no-recycle ...]     (PROGRAM: the benchmark `generator` of ccnic-load)

A burst has four stages: a side takes descriptors from a ring, reads payload, writes payload, publishes descriptors in a ring. An access that
goes on to another packet is charged the instructions since the access before it; the first read of a burst those since the side looked at
the ring, but for LOOP instructions for each line that it went on to there, which counts.py tells. Prints for the last three stages:

burst    before the first packet of a burst,
idle     instead of burst, where the side has polled often in vain,
packet   also before the first, for each packet that it waits for: taken (read), written (publish),
each     before each further packet.

Three loads tell: bursts of 32, lone packets, and such where both sides poll in vain. Needs valgrind.
"""
import collections, os, subprocess, sys, tempfile
from pathlib import Path

TAKE, READ, WRITE, PUBLISH = range(4)
NAMES = {READ: "read", WRITE: "write", PUBLISH: "publish"}
LINE, DESC = 64, 16
# By burst. The first half of them fills caches of buffers, which is not what later ones do.
LAPS = {32: 60, 1: 200}
# Polls of a side in vain by which it is idle.
IDLE = 12


class Region:
    """What lies where, as the program says."""

    def __init__(self, said):
        at = said["region"]
        ring = lambda name: (at + said[name], at + said[name] + said["ring_bytes"])
        self.rings = {"tx": ring("tx_units"), "rx": ring("rx_units")}
        parts = [("buffers", "buffers_bytes"), ("tx_areas", "areas_bytes"), ("rx_areas", "areas_bytes")]
        self.payload = [(at + said[name], at + said[name] + said[size]) for name, size in parts if said[size]]
        self.all = (at, at + said["region_bytes"])

    def stage(self, side, kind, address):
        """The stage of an access, and the packet; or None."""
        within = lambda part: part[0] <= address < part[1]
        take, publish = ("tx", "rx") if side == "nic" else ("rx", "tx")
        if kind == "L" and within(self.rings[take]):
            return TAKE, address // DESC
        if kind == "S" and within(self.rings[publish]):
            return PUBLISH, address // DESC
        if any(map(within, self.payload)):
            return READ if kind == "L" else WRITE, address // LINE
        return None


class Side:
    """One side's events, and the instructions before them."""

    def __init__(self, loop):
        self.loop = loop
        # Instructions since the last event, and since the poll began in which descriptors were found: its first access to the ring.
        self.gap, self.poll = 0, None
        self.kind, self.entry, self.last = None, None, {}
        # The last access was to a descriptor.
        self.looks = False
        # Packets by stage in this burst; descriptors taken, and lines of them, since payload was read.
        self.packets, self.taken, self.lines = collections.Counter(), 0, 0
        # Instructions of this turn, whether something was done in it, and of those in which something was.
        self.total, self.acts, self.turns = 0, False, []
        # By stage: packets waited for and instructions, before the first packet of a burst and before further ones.
        self.first, self.more = collections.defaultdict(list), collections.defaultdict(list)

    def instruction(self):
        self.gap += 1
        self.total += 1
        if self.poll is not None:
            self.poll += 1

    def turn(self):
        """The side's turn begins, or another poll: what it takes belongs to that. What the host did before it looked at the clock is not
        part of a packet's way, either: no stage has it."""
        self.gap, self.poll = 0, None
        if self.acts:
            self.turns.append(self.total)
        self.total, self.acts = 0, False

    def access(self, stage, packet):
        self.acts |= stage != TAKE
        if stage == TAKE:
            self.take(packet)
        elif self.last.get(stage) != packet:
            self.go_on(stage, packet)
        elif stage == PUBLISH == self.kind:
            self.entry[1] += self.gap  # a further word of the same descriptor
        self.gap = 0

    def take(self, packet):
        before = self.last.get(TAKE)
        if self.poll is None or not self.looks:
            self.poll, self.lines, self.looks = 0, 0, True
        if before == packet:
            return
        if self.kind != TAKE:
            self.packets.clear()
            self.last = {}
        self.taken += 1
        self.lines += before is not None and before * DESC // LINE != packet * DESC // LINE
        self.last[TAKE], self.kind = packet, TAKE

    def go_on(self, stage, packet):
        cost = self.gap
        if stage == READ and self.kind == TAKE and self.poll is not None:
            cost = self.poll - self.loop * self.lines
        self.looks = False
        self.entry = [self.taken if stage == READ else self.packets[WRITE], cost]
        (self.more if self.packets[stage] else self.first)[stage].append(self.entry)
        self.packets[stage] += 1
        self.last[stage], self.kind = packet, stage
        if stage == READ:
            self.taken = 0


def follow(path, said, sides):
    """Fills the sides from a trace."""
    region = Region(said)
    first, end = region.all
    side, back, before = "host", None, 0
    with open(path, errors="replace") as lines:
        for line in lines:
            kind = line[:2]
            if kind == "I ":
                address, size = line[3:].split(",")
                address = int(address, 16)
                if address == said["step_nic"]:
                    side, back = "nic", before
                    sides[side].turn()
                elif address in (back, said["read_clock"], said["found_nothing"]):
                    side, back = "host", None
                    sides[side].turn()
                before = address + int(size)
                sides[side].instruction()
            elif kind in (" L", " S", " M"):
                address = int(line[3 : line.index(",")], 16)
                if first <= address < end and (found := region.stage(side, kind[1], address)):
                    sides[side].access(*found)


def polls_in_vain(times=1):
    """Options of a load of lone packets where both sides are idle."""
    return ["--idle", str(times * IDLE), "--spin", str(IDLE), "--again", str(times)]


def trace(program, flags, burst, loop):
    """Both sides' events with bursts of so many packets."""
    args = ["64", *flags, "--laps", str(LAPS[burst]), "--way", "lone" if burst == 1 else "loaded", "--burst", str(burst)]
    sides = {"host": Side(loop), "nic": Side(loop)}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "trace"
        command = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={log}", program, *args]
        out = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "CCNIC_VECTORS": "avx2"}).stdout
        follow(log, {name: int(value) for name, value in map(str.split, out.splitlines())}, sides)
    return sides


def idle_saves(program, flags):
    """Instructions that the NIC's turn with a lone packet has less where it is idle."""
    busy, idle = (trace(program, flags + more, 1, 0)["nic"].turns for more in ([], polls_in_vain()))
    late = lambda turns: mean(turns[len(turns) // 2 :])
    return late(busy) - late(idle)


def settled(entries):
    """Those of the second half that waited for most: a burst may be dealt with in parts."""
    late = entries[len(entries) // 2 :]
    most = max((waits for waits, _ in late), default=0)
    return most, mean([cost for waits, cost in late if waits == most])


def mean(values):
    return sum(values) / len(values) if values else 0


def stages(program, flags, loop, lines):
    """By side and stage: instructions per burst, packet, and each, as the file has them. `lines`: those of a line of payload, by side."""
    many, lone = (trace(program, flags, burst, loop) for burst in (32, 1))
    idle = trace(program, [*flags, *polls_in_vain()], 1, loop)
    found = {}
    for name in ("host", "nic"):
        found[name] = {}
        for stage, called in NAMES.items():
            (many_waited, many_cost), (waited, cost) = (settled(run[name].first[stage]) for run in (many, lone))
            packet = max(0, many_cost - cost) / (many_waited - waited) if many_waited > waited else 0
            more = many[name].more[stage]
            each = mean([cost for _, cost in more[len(more) // 2 :]]) - (lines[name] if stage != PUBLISH else 0)
            after_polls = settled(idle[name].first[stage])[1]
            before = {key: max(0, cost - packet * waited) for key, cost in (("burst", cost), ("idle", after_polls))}
            found[name][called] = dict(**before, packet=packet, each=max(0, each))
    return found


if __name__ == "__main__":
    for side, found in stages(sys.argv[1], sys.argv[3:], int(sys.argv[2]), {"host": 6.4, "nic": 8.3}).items():
        for stage, costs in found.items():
            print(f"{side:5} {stage:8}", ", ".join(f"{name} {cost:.1f}" for name, cost in costs.items()))
