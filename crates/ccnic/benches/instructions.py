#!/usr/bin/env python3
"""Instructions per packet by function, as callgrind counts them; a Markdown table.

usage: instructions.py [--write FILE] [--way buffers] [--design ccnic] [--sizes 64,256,1472] [--bench ccnic/software]

Runs a benchmark of the software alone (`cargo bench -p ccnic`) for so many laps and for twice as many: the difference
is what a lap costs, without what happens once. Each instruction is charged to the step that it ran in (a function
whose name begins with `step_`) and, through the line tables, to the function of this project that it was inlined
from. --write replaces the table of this way and design in a file, between two comments that name them.

Needs valgrind and addr2line. Counts do not depend on what else runs on the machine, but on the compiler's version and
on the instruction set: valgrind runs AVX2 at most.
"""
import argparse, collections, json, re, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LAPS = 200
# Functions of fewer instructions are added up as `others`.
FEW = 3


def build(bench):
    """The path of a benchmark's program."""
    package, name = bench.split("/")
    command = ["cargo", "bench", "--locked", "-p", package, "--bench", name, "--no-run", "--message-format=json"]
    for line in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return message["executable"]
    sys.exit(f"cargo built no {bench}")


def count(program, args, folder):
    """Instructions by (address, step), and packets. Addresses are those of the program's file, None those of libraries."""
    out = Path(folder) / "callgrind.out"
    command = ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--separate-callers=16", "--demangle=no",
               f"--callgrind-out-file={out}", program, *args]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{run.stderr}")
    said = dict(line.split() for line in run.stdout.splitlines())
    return parse(out, Path(program).name), int(said["packets"])


def parse(out, program):
    """Reads a callgrind file (format: valgrind manual, section 6.5)."""
    names, costs = {"fn": {}, "ob": {}}, collections.Counter()
    here, step, ours, address, called = None, None, False, 0, False
    for line in out.open():
        kind, _, value = line.partition("=")
        if kind in ("fn", "cfn", "ob", "cob"):
            table = names[kind[-2:]]
            number, _, name = value.strip().partition(" ")
            name = table.setdefault(number, name)
            if kind == "fn":
                found = re.search(r"\d(step_[a-z_]+?)17h", name)
                step = found and found[1].removeprefix("step_").replace("_", " ")
            elif kind == "ob":
                ours = Path(name).name == program
        elif kind == "calls":
            called = True
        elif line[:1] in "0123456789+-*" and line.strip():
            where, _, cost = line.split()
            address = int(where, 16) if where.startswith("0x") else address + (0 if where == "*" else int(where))
            if step and not called:
                costs[address if ours else None, step] += int(cost)
            called = False
    return costs


def functions(program, addresses):
    """For each address the function of this project that its instruction was written in."""
    text = "".join(f"{a:#x}\n" for a in addresses)
    command = ["addr2line", "-a", "-f", "-i", "-C", "-e", program]
    found, names, frames = {}, subprocess.run(command, input=text, check=True, capture_output=True, text=True), []
    lines = names.stdout.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("0x")] + [len(lines)]
    for start, end in zip(starts, starts[1:]):
        frames = list(zip(lines[start + 1:end:2], lines[start + 2:end:2]))
        found[int(lines[start], 16)] = own(frames)
    return found


def own(frames):
    """The innermost frame of this project that is no closure: a closure is charged to the function that it stands in."""
    for name, where in frames:
        path = where.rsplit(":", 1)[0]
        if "crates/" not in path or "/rustc/" in path or "/registry/" in path or "closure" in name:
            continue
        file = path.split("crates/")[-1].replace("/src/", "/")
        name = re.sub(r"<.*>$", "", re.sub(r"::h[0-9a-f]{16}$", "", name)).split("::")[-1]
        if "/benches/" in file:
            return "(the benchmark)"
        # Where the line table names a file and no inlined function, the name is that of the step.
        return f"inlined, {file}" if name.startswith("step_") else f"`{name}` {file}"
    return "(library)"


def measure(program, args):
    """Instructions per packet by (step, function)."""
    with tempfile.TemporaryDirectory() as folder:
        once, packets = count(program, [*args, "--laps", str(LAPS)], folder)
        twice, more = count(program, [*args, "--laps", str(2 * LAPS)], folder)
    names = functions(program, sorted({a for a, _ in twice if a}))
    per = collections.Counter()
    for (address, step), cost in twice.items():
        name = names[address] if address else "(C library)"
        per[step, name] += (cost - once[address, step]) / (more - packets)
    return per


def table(program, way, design, sizes):
    """The table as lines of Markdown."""
    per = {size: measure(program, [str(size), "--way", way, "--design", design]) for size in sizes}
    keys = {key for counts in per.values() for key in counts}
    steps = sorted({step for step, _ in keys}, key=lambda step: (step.startswith("payload"), step.startswith("nic"), step))
    lines = ["| step | function | " + " | ".join(f"{size} B" for size in sizes) + " |", "|---|---|" + "--:|" * len(sizes)]

    def row(step, name, values, mark=""):
        lines.append(f"| {step} | {name} | " + " | ".join(f"{mark}{v:.1f}{mark}" for v in values) + " |")

    def total(part):
        return [sum(v for (step, _), v in per[size].items() if part(step)) for size in sizes]

    row("**host**", "", total(lambda step: step.startswith("host")), "**")
    for step in steps:
        row(f"**{step}**", "", total(lambda s: s == step), "**")
        rows = {name: [per[size][step, name] for size in sizes] for s, name in keys if s == step}
        small = [name for name, values in rows.items() if max(values) < FEW]
        for name, values in sorted(rows.items(), key=lambda row: -max(row[1])):
            if name not in small:
                row("", name, values)
        if small:
            row("", "others", [sum(rows[name][i] for name in small) for i in range(len(sizes))])
    return lines


def write(file, name, lines):
    """Replaces what stands between the two comments with this name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = file.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        sys.exit(f"{file} has no place for this table: add the lines\n{begin}\n{end}")
    file.write_text(before + begin + "\n" + "\n".join(lines) + "\n" + end + after)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--write", type=Path)
    p.add_argument("--bench", default="ccnic/software")
    p.add_argument("--way", default="buffers")
    p.add_argument("--design", default="ccnic")
    p.add_argument("--sizes", default="64,256,1472")
    a = p.parse_args()
    lines = table(build(a.bench), a.way, a.design, [int(size) for size in a.sizes.split(",")])
    if a.write:
        write(a.write, f"{a.bench} {a.way} {a.design}", lines)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
