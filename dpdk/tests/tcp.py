# SPDX-License-Identifier: Apache-2.0 OR MIT
"""TCP of the kernel for the tests, run in a network namespace: `tcp.py serve ADDRESS` returns what it gets, after all of it;
`tcp.py send ADDRESS BYTES` sends so many and compares what comes back."""

import random
import socket
import sys

PORT, PATIENCE = 4000, 60


def receive(link, number):
    data = bytearray()
    while len(data) < number and (part := link.recv(number - len(data))):
        data += part
    return bytes(data)


def serve(address):
    with socket.create_server((address, PORT)) as listener:
        print("ready", flush=True)
        link, _ = listener.accept()
        with link:
            link.settimeout(PATIENCE)
            number = int.from_bytes(receive(link, 8), "big")
            link.sendall(receive(link, number))


def send(address, number):
    data = random.randbytes(number)
    with socket.create_connection((address, PORT), PATIENCE) as link:
        link.sendall(number.to_bytes(8, "big") + data)
        if receive(link, number) != data:
            sys.exit("other bytes came back")


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "serve" else send(sys.argv[2], int(sys.argv[3]))
