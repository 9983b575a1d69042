#!/usr/bin/env python3
"""Memcached clients that nobody here wrote, against Debian's memcached and ours: the same script, the same answers.

    run.py [--build DIRECTORY] NAME=HOST:PORT ...

The first server says what is right. Clients whose tools are missing are skipped, and named. Exit status 1: answers differ."""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPT = HERE / "script.txt"
SPYMEMCACHED = "/usr/share/java/spymemcached.jar"
# Where Debian's packages for Python are, whatever `python3` is.
PYTHON = "/usr/bin/python3"


class Missing(Exception):
    """A tool that is not installed."""


def need(*tools):
    for tool in tools:
        if not (shutil.which(tool) or os.path.exists(tool)):
            raise Missing(f"{tool} is not installed")


def built(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    if done.returncode:
        raise Missing(f"{' '.join(map(str, command))}: {done.stderr.strip()[-300:]}")


def pymemcache(_build):
    need(PYTHON)
    built(PYTHON, "-c", "import pymemcache")
    return [PYTHON, HERE / "python/client.py"], {}


def gomemcache(build):
    need("go")
    program = build / "gomemcache"
    built("go", "build", "-o", program, ".", cwd=HERE / "go")
    return [program], {}


def node_modules(build):
    need("node", "npm")
    where = build / "node"
    where.mkdir(exist_ok=True)
    shutil.copy(HERE / "node/package.json", where)
    if not (where / "node_modules/memcached").exists():
        built("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", cwd=where)
    return {"NODE_PATH": str(where / "node_modules")}


def node_memcached(build):
    return ["node", HERE / "node/client.js"], node_modules(build)


def memjs(build):
    return ["node", HERE / "node/binary.js"], node_modules(build)


def spymemcached(_build):
    need("java", SPYMEMCACHED)
    return ["java", "-cp", SPYMEMCACHED, HERE / "java/Client.java"], {}


CLIENTS = {
    "pymemcache (Python)": pymemcache,
    "bradfitz/gomemcache (Go)": gomemcache,
    "memcached (Node)": node_memcached,
    "spymemcached (Java)": spymemcached,
}


def start(command, environment, server, script):
    command = [*command, server, *([script] if script else [])]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env={**os.environ, **environment}, text=True, **pipes)


def answers(process, server):
    """What a client has printed. A server's address in it is no difference."""
    out, err = process.communicate(timeout=120)
    if process.returncode:
        raise RuntimeError(f"the client ended with {process.returncode}: {err.strip()[-500:]}")
    return [line.replace(server, "SERVER").rstrip() for line in out.splitlines()]


def compare(operations, right, said):
    """The operations whose answers differ."""
    if len(right) != len(operations) or len(said) != len(operations):
        return [f"{len(operations)} operations, {len(right)} and {len(said)} answers"]
    rows = zip(operations, right, said)
    return [f"{op[:60]}: {a[:60]!r} is right, {b[:60]!r} was said" for op, a, b in rows if a != b]


def check(name, begin, servers, operations, build):
    """Runs one client against all servers at once; the number of failures."""
    command, environment = begin(build)
    runs = [start(command, environment, address, SCRIPT) for _, address in servers]
    said = [answers(run, address) for run, (_, address) in zip(runs, servers)]
    good = sum(not re.search("rror|not available", answer) for answer in said[0])
    if good < len(operations) - 6:
        print(f"FAILED {name}: {servers[0][0]} itself answers {len(operations) - good} operations with errors")
        return 1
    failures = 0
    for (server, _), lines in zip(servers[1:], said[1:]):
        different = compare(operations, said[0], lines)
        failures += bool(different)
        result = "FAILED" if different else "ok"
        print(f"{result} {name}: {len(operations)} operations, {server} as {servers[0][0]}")
        for line in different:
            print(f"    {line}")
    return failures


def check_binary(servers, build):
    """memjs speaks the binary protocol only, which ours refuses, with an answer and not with silence."""
    command, environment = memjs(build)
    failures = 0
    for server, address in servers[1:]:
        said = answers(start(command, environment, address, None), address)
        ok = said == ["MemJS SET: Unknown command"]  # the status of the answer; a lost connection reads otherwise
        failures += not ok
        print(f"{'ok' if ok else 'FAILED'} memjs (Node, binary protocol): {server} refuses it: {said}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("target/apps-test"))
    parser.add_argument("servers", nargs="+", metavar="NAME=HOST:PORT")
    options = parser.parse_args()
    build = options.build.resolve()
    build.mkdir(parents=True, exist_ok=True)
    servers = [tuple(server.split("=", 1)) for server in options.servers]
    operations = [line for line in SCRIPT.read_text().splitlines() if not line.startswith("#")]
    failures = 0
    for name, begin in CLIENTS.items():
        try:
            failures += check(name, begin, servers, operations, build)
        except Missing as missing:
            print(f"SKIPPED {name}: {missing}")
    try:
        failures += check_binary(servers, build)
    except Missing as missing:
        print(f"SKIPPED memjs: {missing}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
