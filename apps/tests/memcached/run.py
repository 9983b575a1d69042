#!/usr/bin/env python3
"""memcached's own tests, of Debian's source package, with ccnic-kv in memcached's place.

    run.py PROGRAMS BUILD [TEST ...]      # PROGRAMS: where ccnic-kv is; BUILD: where the sources are fetched to

tests.txt says which are run, and of what is not: why. Exit status 1: a test fails that tests.txt does not name, or one passes that it does."""

import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "1.6.18"
LIMIT_S = 300
# They wait more than they compute.
AT_ONCE = 8

# What their module starts. It takes memcached's options.
WRAPPER = """#!/bin/sh
exec {python} {here}/as-memcached.py {program} "$@"
"""
# theirs ends a test that hangs; here run.py does
TIMEDRUN = '#!/bin/sh\nshift\nexec "$@"\n'


def sources(build):
    """The unpacked sources; None where they are not to be had."""
    folder = build / f"memcached-{VERSION}"
    if folder.exists():
        return folder
    build.mkdir(parents=True, exist_ok=True)
    if not shutil.which("apt-get"):
        return None
    fetch = ["apt-get", "source", "--download-only", "memcached"]
    if subprocess.run(fetch, cwd=build, capture_output=True, check=False).returncode:
        # Containers often leave the sources out of the lists.
        subprocess.run([HERE / "with-sources.sh", *fetch], cwd=build, capture_output=True, check=False)
    archive = build / f"memcached_{VERSION}.orig.tar.xz"
    if not archive.exists():
        return None
    subprocess.run(["tar", "xf", archive], cwd=build, check=True)
    return folder


def prepare(folder, program):
    for name, text in {
        "memcached-debug": WRAPPER.format(python=sys.executable, here=HERE, program=program),
        "timedrun": TIMEDRUN,
    }.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
    # A memcached built for these tests moves its clock; here time has to pass.
    module = folder / "t/lib/MemcachedTest.pm"
    text = module.read_text()
    module.write_text(re.sub(r'print \$sock "debugtime \$move\\r\\n";\s*<\$sock>;', "sleep($move);", text))


def expectation(what):
    """`run:3,5-7/8`: the tests that fail, and after which one the file ends early, if it does."""
    numbers, _, end = what.partition("/")
    failed = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
        failed.update(range(int(first), int(last or first) + 1))
    return frozenset(failed), int(end) if end else None


def listed():
    """What tests.txt says: name to (what is expected, reason), or (None, reason) for what is not run."""
    tests = {}
    for line in (HERE / "tests.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, what, *reason = line.split(None, 2)
            tests[name] = (None if what == "skip" else expectation(what), " ".join(reason))
    return tests


def failures(said, end):
    """The numbers of the tests that failed; an error in words where the file did not get to its end, or to `end`."""
    failed = frozenset(int(number) for number in re.findall(r"^not ok (\d+)(?!.*# TODO)", said, re.M))
    done = len(re.findall(r"^(?:not )?ok \d+", said, re.M))
    plan = re.search(r"^1\.\.(\d+)", said, re.M)
    if done == 0 or not plan or done != (end or int(plan[1])):
        return failed, f"{done} of {plan[1] if plan else '?'} tests were run"
    return failed, None


def run(folder, name, expected):
    """Runs one file. What is wrong, or None, and how many tests there were."""
    command = ["perl", f"t/{name}.t"]
    # A pipe of its own for stderr: what the server writes there must not end up inside a line "ok 5".
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=folder, text=True, errors="replace", start_new_session=True, **pipes)
    try:
        said, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, errors = process.communicate()
        errors += f"\nended after {LIMIT_S} s"
    expected, end = expected
    failed, error = failures(said, end)
    if error is None and failed == expected:
        return None, said.count("\nok ") + said.startswith("ok ")
    new, gone = sorted(failed - expected), sorted(expected - failed)
    wrong = [error] if error else []
    wrong += [f"failed: {new}"] if new else []
    wrong += [f"passed, against tests.txt: {gone}"] if gone else []
    shown = [*said.splitlines()[-30:], *errors.splitlines()[-30:]]
    tail = "\n    ".join(line[:200] for line in shown if not line.startswith("ok "))
    return f"{'; '.join(wrong)}\n    {tail}", 0


def main():
    programs, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    folder = sources(build)
    if folder is None:
        print("SKIPPED: memcached's own tests need its Debian source package (apt-get source memcached)")
        return 0
    prepare(folder, programs / "ccnic-kv")
    tests = listed()
    missing = {path.stem for path in (folder / "t").glob("*.t")} ^ set(tests)
    if missing:
        print(f"FAILED tests.txt: it and the sources differ in {sorted(missing)}")
        return 1
    chosen = sys.argv[3:] or [name for name, (expected, _) in tests.items() if expected is not None]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = pool.map(lambda name: run(folder, name, tests[name][0] or expectation("")), chosen)
        count = bad = 0
        for name, (wrong, passed) in zip(chosen, results):
            count += passed
            bad += wrong is not None
            if wrong:
                print(f"FAILED memcached's {name}.t: {wrong}")
    print(f"memcached's own tests: {len(chosen) - bad} of {len(chosen)} files as listed, {count} tests passed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
