#!/usr/bin/env python3
"""Starts ccnic-kv with the options that memcached's tests give to memcached: `as-memcached.py CCNIC-KV OPTION ...`."""

import os
import sys

# Options with a value that say how memcached works inside: user, requests per event, growth of its slabs, listening queue.
WITHOUT_MEANING = {"-u", "-R", "-f", "-n", "-b"}


def translated(options):
    rest, out = iter(options), []
    for option in rest:
        if option in WITHOUT_MEANING:
            next(rest)
        elif option == "-C":
            # CAS ids are always there; the tests that need them away are listed as failing.
            pass
        elif option == "-B":
            # ASCII is all there is; what the test gives memcached to refuse is refused here.
            name = next(rest)
            out += [] if name in ("ascii", "auto") else ["-B", name]
        elif option == "-o":
            for part in next(rest).split(","):
                name, _, value = part.partition("=")
                out += ["--idle-timeout", value] if name == "idle_timeout" else []
        else:
            out.append(option)
    return out


if __name__ == "__main__":
    os.execv(sys.argv[1], [sys.argv[1], *translated(sys.argv[2:])])
