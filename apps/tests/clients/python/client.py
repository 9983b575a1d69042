"""pymemcache: goes through a script of operations and prints the answers. `client.py HOST:PORT SCRIPT`."""

import sys
import time

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError


def value_of(word):
    """The value that a word of the script stands for."""
    if not word.startswith("@"):
        return word.encode()
    alphabet = b"abcdefghijklmnopqrstuvwxyz"
    length = int(word[1:])
    return (alphabet * (length // 26 + 1))[:length]


def shown(value):
    if value is None:
        return "miss"
    return f"value {value.decode()}" if len(value) <= 60 else f"value of {len(value)} bytes, sum {sum(value)}"


def stored(answer):
    return {True: "stored", False: "not stored", None: "miss"}[answer]


def number(answer):
    return "miss" if answer is None else f"number {answer}"


def cas(client, key, value, between):
    _, token = client.gets(key)
    if token is None:
        return "miss"
    if between:
        client.set(key, between, noreply=False)
    return {True: "stored", False: "exists", None: "miss"}[client.cas(key, value, token, noreply=False)]


def do(client, words):
    op, args = words[0], words[1:]
    if op in ("set", "add", "replace"):
        store = getattr(client, op)
        return stored(store(args[0], value_of(args[1]), expire=int(args[2]), noreply=False))
    if op in ("append", "prepend"):
        return stored(getattr(client, op)(args[0], value_of(args[1]), noreply=False))
    if op == "get":
        return shown(client.get(args[0]))
    if op == "getmulti":
        found = client.get_many(args)
        return " ".join(f"{key}={found[key].decode()}" for key in sorted(found))
    if op in ("incr", "decr"):
        return number(getattr(client, op)(args[0], int(args[1]), noreply=False))
    if op == "cas":
        return cas(client, args[0], args[1].encode(), None)
    if op == "stalecas":
        return cas(client, args[0], args[1].encode(), b"meanwhile")
    if op == "delete":
        return "deleted" if client.delete(args[0], noreply=False) else "miss"
    if op == "touch":
        return "touched" if client.touch(args[0], int(args[1]), noreply=False) else "miss"
    if op == "flush":
        return "ok" if client.flush_all(noreply=False) else "refused"
    time.sleep(int(args[0]) / 1000)
    return "slept"


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    client = Client((host, int(port)), connect_timeout=10, timeout=10)
    with open(sys.argv[2], encoding="ascii") as script:
        lines = [line.split() for line in script if not line.startswith("#")]
    for words in lines:
        try:
            answer = do(client, words)
        except MemcacheError as error:
            answer = f"{type(error).__name__}: {error}"
        print(answer)


main()
