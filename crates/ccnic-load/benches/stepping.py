#!/usr/bin/env python3
"""Counts the instructions of a benchmark's steps one by one on the processor: with registers that valgrind does not know.

usage: stepping.py PROGRAM [ARGS...]

The program runs at full speed until `step_host_and_generator` first calls `step_nic`; from there to the former's return the kernel stops
it after every instruction (ptrace(2)), or until the load is over and its times are evaluated. Prints the instructions within `step_nic`
and those outside. An instruction that repeats itself (rep movs) counts once. Linux on x86-64.
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
    """A child that stops when the program begins; returns its id and where the program lies."""
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


if __name__ == "__main__":
    print(count(sys.argv[1:], {}))
