#!/usr/bin/env python3
"""Starts ccnic-kv with the options that memcached's tests give to memcached: `as-memcached.py CCNIC-KV OPTION ...`."""

import os
import sys

# Options with a value that say how memcached works inside: the sizes of its slabs.
WITHOUT_MEANING = {"-f", "-n"}


def translated(options):
    # memcached lets every client change its limit on memory.
    rest, out = iter(options), ["--enable-cache-memlimit"]
    for option in rest:
        if option in WITHOUT_MEANING:
            next(rest)
        elif option == "-o":
            for part in next(rest).split(","):
                name, _, value = part.partition("=")
                out += ["--idle-timeout", value] if name == "idle_timeout" else []
        else:
            out.append(option)
    return out


if __name__ == "__main__":
    os.execv(sys.argv[1], [sys.argv[1], *translated(sys.argv[2:])])
