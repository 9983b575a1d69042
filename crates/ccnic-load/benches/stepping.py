#!/usr/bin/env python3
"""Counts the instructions of a benchmark's steps one by one on the processor: with registers that valgrind does not know.

usage: stepping.py [--stores] PROGRAM [ARGS...]

The program runs at full speed until `step_host_and_generator` first calls `step_nic`; from there to the former's return the kernel stops
it after every instruction (ptrace(2)), or until the load is over and its times are evaluated. Prints the instructions within `step_nic`
and those outside. An instruction that repeats itself (rep movs) counts once. Linux on x86-64.

--stores (for lone packets): of a round, the instruction at which each side stores what into the region, counted from the last time that the
program looked at the clock, which is where the NIC has its turn: so when within its step a side publishes a descriptor.
"""
import ctypes, os, signal, subprocess, sys

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.restype = ctypes.c_long
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
TRACEME, PEEK, PEEK_USER, POKE, POKE_USER, CONT, STEP = 0, 1, 3, 4, 6, 7, 9
# Offsets in struct user_regs_struct.
RIP, RSP = 16 * 8, 19 * 8
ADDR_NO_RANDOMIZE = 0x0040000
BREAKPOINT = 0xCC


def ask(request, pid, address=0, value=0):
    """ptrace; the value that was read."""
    return LIBC.ptrace(request, pid, address, value) & (1 << 64) - 1


def entries(program, name):
    """Where functions begin whose mangled name has this part, in the program's file: one for each ring type."""
    symbols = subprocess.run(["nm", "--defined-only", program], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in symbols.splitlines())
    return [int(row[0], 16) for row in rows if len(row) == 3 and row[1] in "tT" and name in row[2]]


def start(command, env):
    """A child that stops when the program begins; returns its id and where the program lies. Both stay on one CPU: waking another one for
    each instruction takes four times as long."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pid = os.fork()
    if pid == 0:
        LIBC.personality(ADDR_NO_RANDOMIZE)
        LIBC.ptrace(TRACEME, 0, None, None)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execve(command[0], command, {**os.environ, **env})
    os.waitpid(pid, 0)
    with open(f"/proc/{pid}/maps") as maps:
        ours = next(line for line in maps if line.rstrip().endswith(os.path.realpath(command[0])))
    return pid, int(ours.split("-")[0], 16)


def run_to(pid, addresses):
    """Runs until one of these instructions is next."""
    words = {at: ask(PEEK, pid, at) for at in addresses}
    for at, word in words.items():
        ask(POKE, pid, at, word & ~0xFF | BREAKPOINT)
    ask(CONT, pid)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP:
        sys.exit("the program ended before it did a step")
    for at, word in words.items():
        ask(POKE, pid, at, word)
    ask(POKE_USER, pid, RIP, ask(PEEK_USER, pid, RIP) - 1)


def count(command, env):
    """Instructions within `step_nic`, and those of `step_host_and_generator` outside of it."""
    program = command[0]
    host, nic, over = (entries(program, name) for name in ("23step_host_and_generator", "8step_nic", "5Times9histogram"))
    pid, base = start(command, env)
    returns = lambda: ask(PEEK, pid, ask(PEEK_USER, pid, RSP))
    run_to(pid, [base + at for at in host])
    ends, nic = {returns(), *(base + at for at in over)}, {base + at for at in nic}
    run_to(pid, nic)
    found, back, last = {"host": 0, "nic": 0}, None, 0
    while (at := ask(PEEK_USER, pid, RIP)) not in ends:
        if at in nic:
            back = returns()
        elif at == back:
            back = None
        found["nic" if back else "host"] += at != last
        last = at
        ask(STEP, pid)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            sys.exit("the program ended within a step")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return found


def region(pid):
    """The region's place in memory: first and last address."""
    with open(f"/proc/{pid}/maps") as maps:
        first, last = next(line for line in maps if "memfd:ccnic" in line).split()[0].split("-")
    return int(first, 16), int(last, 16)


def pages_that_change(pid, nic, memory, first, last):
    """Pages of the region that are stored to within some rounds of a program that is warm."""
    PAGE, WARM, ROUNDS = 4096, 400, 40
    found, before = set(), b""
    for turn in range(WARM + ROUNDS):
        run_to(pid, nic)
        ask(STEP, pid)
        os.waitpid(pid, 0)
        if turn < WARM:
            continue
        now = os.pread(memory, last - first, first)
        found |= {at for at in range(0, len(before), PAGE) if before[at : at + PAGE] != now[at : at + PAGE]}
        before = now
    return sorted(found)


def stores(command, env, turns=7):
    """Prints the stores of both sides into the region over so many turns of the NIC: two rounds of a lone packet."""
    program = command[0]
    host, nic = (entries(program, name) for name in ("23step_host_and_generator", "8step_nic"))
    pid, base = start(command, env)
    run_to(pid, [base + at for at in host])
    nic = {base + at for at in nic}
    first, last = region(pid)
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    pages = pages_that_change(pid, nic, memory, first, last)
    words = lambda: [os.pread(memory, 4096, first + at) for at in pages]
    run_to(pid, nic)
    side, back, steps, last_at, before = "host", None, 0, None, words()
    while turns > 0:
        at = ask(PEEK_USER, pid, RIP)
        if at in nic or at == back:
            print(f"{side}: {steps} instructions")
            turns -= side == "nic"
            side, back = ("host", None) if at == back else ("nic", ask(PEEK, pid, ask(PEEK_USER, pid, RSP)))
            steps = 0
        steps += at != last_at
        last_at = at
        ask(STEP, pid)
        os.waitpid(pid, 0)
        now = words()
        for page, was, is_now in zip(pages, before, now):
            changed = [o for o in range(0, 4096, 8) if was[o : o + 8] != is_now[o : o + 8]]
            if changed:
                print(f"    {side} stores at {steps}: {page + changed[0]:#x}, {8 * len(changed)} bytes")
        before = now
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stores"]:
        stores(sys.argv[2:], {})
    else:
        print(count(sys.argv[1:], {}))
