#!/usr/bin/env python3
"""Instructions of the interface, the NIC's loopback and the load generator, by design, for the simulator.

usage: counts.py [--write platforms/instructions.toml] [--only interface | stages | applications]

Runs `cargo bench -p ccnic-load` under callgrind (see ccnic/benches/instructions.py): loaded with bursts of 32, with one
packet in flight, and so that the generator polls in vain. Three equations for each side give what a packet, a burst and
an empty poll cost; inlined frames tell how much of it is the loop over the lines of a ring. Bursts of 8 are no input: `check`
says what they cost more than the equations say. A side that has polled often in vain is idle and takes another path: its burst,
of one packet, is what is left of such a run. Where in a burst the instructions lie, lackey tells (`stages.py`).

valgrind has no registers of 64 bytes. So packets of one line and of 23 are counted instruction by instruction on the processor, too
(`stepping.py`): that gives what a line of payload costs, and what a packet costs more or less than with 32 bytes.

Applications (`benches/applications.rs`): bursts of 32 packets, of one, and polls in vain; values of 23 lines instead of one. The look-up
in the key-value store is that of `ccnic-kv`.

Needs valgrind, addr2line, and a processor with AVX-512.
"""
import argparse, concurrent.futures, multiprocessing, os, subprocess, sys, tempfile, tomllib
from pathlib import Path

import stages, stepping

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "ccnic/benches"))
from instructions import ROOT, build, parse

# Designs, and the parts of them that are switched off, as figures use them.
CASES = [
    ("ccnic", []), ("ccnic", ["no-inline"]), ("paper", []), ("paper", ["no-recycle"]),
    ("paper", ["no-recycle", "no-small"]), ("paper", ["no-small", "host-managed"]),
    ("paper", ["no-recycle", "no-small", "host-managed"]), ("paper", ["mempool"]), ("paper", ["no-recycle", "mempool"]),
    ("paper", ["no-recycle", "no-small", "mempool"]), ("paper", ["no-small", "host-managed", "mempool"]),
    ("paper", ["no-recycle", "no-small", "host-managed", "mempool"]), ("packed", []), ("padded", []), ("e810", []), ("e810", ["no-recycle"]),
]
# Descriptors in a line of each design's rings.
PER_LINE = {"ccnic": 4, "paper": 4, "packed": 4, "padded": 1, "e810": 4}
LAPS = {32: 150, 8: 500, 1: 3000}
LINES = 23
# Polls in vain after which a side is idle (`IDLE_POLLS` of ccnic).
IDLE_POLLS = 8
# Bursts that are counted instruction by instruction: the difference counts.
WIDE_LAPS = (8, 16)


def loops(program, addresses):
    """The addresses whose instruction was inlined from the loop over a ring's descriptors."""
    text = "".join(f"{a:#x}\n" for a in addresses)
    command = ["addr2line", "-a", "-f", "-i", "-C", "-e", program]
    out = subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout
    found, address = set(), None
    for line in out.splitlines():
        if line.startswith("0x"):
            address = int(line, 16)
        elif "copy_checked" in line:
            found.add(address)
    return found


def once(program, args, folder):
    """Instructions by side and address, and how often things happened."""
    out = Path(folder) / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--separate-callers=16", "--demangle=no",
               f"--callgrind-out-file={out}", program, *args]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CCNIC_VECTORS": "avx2"})
    if run.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{run.stderr}")
    said = {name: int(value) for name, value in (line.split() for line in run.stdout.splitlines())}
    return parse(out, Path(program).name), said


def run(program, flags, burst, *more):
    """What happens per lap without what happens once: instructions of each side, of loops over rings, and events."""
    args = ["64", *flags, "--burst", str(burst), "--way", "lone" if burst == 1 else "loaded", *map(str, more)]
    with tempfile.TemporaryDirectory() as folder:
        costs, said = once(program, [*args, "--laps", str(LAPS[burst])], folder)
        more, also = once(program, [*args, "--laps", str(2 * LAPS[burst])], folder)
    per = {key: also[key] - said[key] for key in said}
    in_loop = loops(program, sorted({a for a, _ in more if a}))
    sides = {"host": 0, "nic": 0, "loop": 0}
    for (address, step), cost in more.items():
        cost -= costs[address, step]
        sides["nic" if step == "nic" else "host"] += cost
        sides["loop"] += cost if address in in_loop else 0
    return sides, per


def wide(program, flags, size):
    """Instructions of a packet on each side with registers of 64 bytes, in bursts of 32."""
    args = [program, str(size), *flags, "--burst", "32", "--idle", "1", "--way", "loaded"]
    once, more = (stepping.count([*args, "--laps", str(laps)], {"CCNIC_VECTORS": "avx512"}) for laps in WIDE_LAPS)
    return {name: (more[name] - once[name]) / 32 / (WIDE_LAPS[1] - WIDE_LAPS[0]) for name in more}


def busy(name, loaded, lone, polled):
    """Instructions of a packet, a burst and an empty poll, from three runs. The NIC's poll is one with a call of the interface."""
    rows = []
    for _, n in (loaded, lone, polled):
        assert n[f"{name}_idle"] < IDLE_POLLS * n[f"{name}_bursts"], f"{name}: idle when it should be busy"
        rows.append([n["packets"], n[f"{name}_bursts"], n[f"{name}_idle"]])
    return solve(rows, [sides[name] for sides, _ in (loaded, lone, polled)])


def poll_in_vain(name, idle, longer):
    """Instructions of an empty poll of an idle side, from two runs. In the second it polls twice as often."""
    (i1, n1), (i2, n2) = ((sides[name], per[f"{name}_idle"]) for sides, per in (idle, longer))
    assert n1 == stages.IDLE * idle[1]["packets"], f"{name}: not idle in every lap"
    return (i2 - i1) / (n2 - n1)


def solve(a, b):
    """Cramer's rule."""
    det = lambda m: (m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
                     + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]))
    return [det([[b[r] if c == k else a[r][c] for c in range(3)] for r in range(3)]) / det(a) for k in range(3)]


def flags_of(design, switches):
    """A case's options for the benchmark. Lines are not demoted, as in the simulator's figures."""
    return ["--design", design, "--demote", "off", *(f"--{switch}" for switch in switches)]


def case(program, design, switches):
    flags = flags_of(design, switches)
    loaded, lone, eight = run(program, flags, 32), run(program, flags, 1), run(program, flags, 8)
    # The host polls in vain where the NIC is polled rarely. The NIC does where nothing is sent: with one packet in flight and bursts.
    polled = run(program, flags, 1, "--idle", IDLE_POLLS // 2)
    idle, longer = (run(program, flags, 1, *stages.polls_in_vain(times)) for times in (1, 2))
    # Lines of payload are touched by the widest registers of a machine, which valgrind does not know.
    short, long = wide(program, flags, 64), wide(program, flags, 64 * LINES)
    sides, per = loaded
    found = {}
    for name in ("host", "nic"):
        packet, burst, poll = busy(name, loaded, lone, polled)
        got, n = eight
        said = packet * n["packets"] + burst * n[f"{name}_bursts"] + poll * n[f"{name}_idle"]
        check = got[name] / said - 1
        poll = poll_in_vain(name, idle, longer)
        if name == "host":
            got, n = idle
            idle_burst = (got[name] - packet * n["packets"] - poll * n["host_idle"]) / n["host_bursts"]
        else:
            # The NIC's first polls in vain cost less than those after, and a call: its burst is a turn of its own, which a trace shows.
            idle_burst = burst - stages.idle_saves(program, flags)
        line = (long[name] - short[name]) / (LINES - 1) / 2
        packet += short[name] - sides[name] / per["packets"]
        found[name] = dict(packet=packet, burst=burst, idle=idle_burst, poll=poll, line=line, check=check)
    # Both sides read a ring: a line of descriptors each.
    found["loop"] = sides["loop"] / per["packets"] * PER_LINE[design] / 2
    return found


# By application: the lines of payload that a packet of one line of value reads and writes.
APPLICATIONS = {"kv": 2, "echo": 2 * 3, "overlay": 2 * (1 + 1) + 2 * 2}


def app(program, args, per=1):
    """Instructions per lap, or per packet, of an application's step."""
    with tempfile.TemporaryDirectory() as folder:
        (once, n), (twice, m) = (count_app(program, [*args, "--laps", str(laps)], folder) for laps in (100, 200))
    return (twice - once) / (m - n) / per


def count_app(program, args, folder):
    costs, said = once(program, args, folder)
    return sum(cost for (_, step), cost in costs.items() if step and step.startswith("app ")), said["packets"]


def application(program, name, design):
    """Instructions of a packet without its lines of payload, of a poll that finds packets, of one in vain, and of a line."""
    lap = lambda burst, size=64: app(program, [name, "--design", design, "--burst", str(burst), "--size", str(size)])
    many, one, poll = lap(32), lap(1), lap(0)
    packet, line = (many - one) / 31, LINE_TOUCHED
    # A lap of the overlay is two polls: one finds what goes down, the other what comes up.
    polls = 2 if name == "overlay" else 1
    burst, poll = (one - packet) / polls, poll / polls
    if name == "overlay":
        line = (lap(32, 64 * LINES) - many) / 32 / (LINES - 1) / 4
    return dict(packet=packet - APPLICATIONS[name] * line, burst=burst, poll=poll, line=line)


# Their part of the file begins so.
APPLICATIONS_BEGIN = "# Applications:"

# A line of a header or a request is a load or a store or two, which packets count.
LINE_TOUCHED = 2.0


def applications():
    """Entries of the applications."""
    program = build("ccnic-load/applications")
    get = app(program, ["store"], per=32)
    print("store", get, file=sys.stderr)
    lines = ["", APPLICATIONS_BEGIN + " packet is a request and its answer (overlay: a packet in each direction), without its lines of payload;",
             "# burst: of a poll that finds some. store: the look-up of a get in ccnic-kv's store, which kv executes besides.",
             "[store]", f"get = {get:.1f}"]
    each = [(program, name, design) for name in APPLICATIONS for design in ("ccnic", "paper", "e810")]
    for (_, name, design), found in zip(each, each_on_a_cpu(application, each)):
        print(name, design, found, file=sys.stderr)
        parts = ", ".join(f"{key} = {found[key]:.1f}" for key in ("packet", "burst", "poll", "line"))
        lines += ["", "[[application]]", f'name   = "{name}"', f'design = "{design}"', f"counts = {{ {parts} }}"]
    return lines


def each_on_a_cpu(work, calls):
    """The results of `work` for each tuple of arguments, in order: as many at once as there are CPUs, each on its own."""
    cpus = multiprocessing.Queue()
    for cpu in os.sched_getaffinity(0):
        cpus.put(cpu)
    take_one = lambda: os.sched_setaffinity(0, {cpus.get()})
    with concurrent.futures.ProcessPoolExecutor(cpus.qsize(), multiprocessing.get_context("fork"), take_one) as workers:
        yield from workers.map(work, *zip(*calls))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--write", type=Path)
    p.add_argument("--only", choices=["interface", "stages", "applications"], help="count these anew, keep the rest of the file")
    a = p.parse_args()
    if a.only and not a.write:
        p.error("--only keeps the rest of a file: name it by --write")
    before, begin, after = (a.write.read_text() if a.only else "").partition(APPLICATIONS_BEGIN)
    first = "\n".join(interface()) if a.only in (None, "interface") else before.rstrip("\n")
    last = "\n".join(applications()) + "\n" if a.only in (None, "applications") else "\n" + begin + after
    text = first + "\n" + last
    if a.only != "applications":
        text = with_stages(text)
    a.write.write_text(text) if a.write else print(text, end="")


def interface():
    """The file's beginning: the interface, the NIC's loopback and the load generator."""
    program = build("ccnic-load/generator")
    rust = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    lines = ["# Instructions of the interface, the NIC's loopback and the load generator, by ring design and what is switched off,",
             "# counted by callgrind with 64-byte packets: crates/ccnic-load/benches/counts.py writes this file (make counts).",
             "# packet, burst: of a burst in one direction (host) or in both (NIC). idle: instead of burst, where a side has polled",
             "# often in vain. poll: that finds nothing. line: a line of payload that is written or read, with registers of 64 bytes.",
             "# loop: between two lines of a ring that is read. stages: how many of them lie before a side reads, writes and publishes",
             "# the first packet of a burst (burst or idle, and packet for each packet), and each further one (stages.py).",
             "# The numbers are not a platform's: how fast it executes them is software.dispatch.",
             "", f'source = "callgrind with AVX2, single steps with AVX-512, {rust}"']
    for (design, switches), found in zip(CASES, each_on_a_cpu(case, [(program, *called) for called in CASES])):
        print(design, switches, found, file=sys.stderr)
        off = ", ".join(f'"{switch}"' for switch in switches)
        lines += ["", "[[case]]", f'design = "{design}"', f"off    = [{off}]", f"loop   = {found['loop']:.0f}"]
        for name in ("host", "nic"):
            parts = ", ".join(f"{key} = {found[name][key]:.1f}" for key in ("packet", "burst", "idle", "poll", "line"))
            lines.append(f"{name:6} = {{ {parts} }} # bursts of 8: {100 * found[name]['check']:+.0f} %")
    return lines


def with_stages(text):
    """The file's text with stages that are counted anew, from the counts that it has."""
    program, old = build("ccnic-load/generator"), [line for line in text.splitlines() if not line.startswith("stages.")]
    cases = tomllib.loads("\n".join(old))["case"]
    touched = lambda case: {name: case[name]["line"] for name in ("host", "nic")}
    args = lambda case: (program, flags_of(case["design"], case["off"]), case["loop"], touched(case))
    counted = each_on_a_cpu(stages.stages, map(args, cases))
    lines = []
    for line in old:
        lines.append(line)
        if line.startswith("nic "):
            found = next(counted)
            print(found, file=sys.stderr)
            for name, by_stage in found.items():
                row = lambda costs: ", ".join(f"{key} = {cost:.1f}" for key, cost in costs.items())
                parts = (f"{stage} = {{ {row(costs)} }}" for stage, costs in by_stage.items())
                lines.append(f"stages.{name} = {{ {', '.join(parts)} }}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
