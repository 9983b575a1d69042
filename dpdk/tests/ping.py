# SPDX-License-Identifier: Apache-2.0 OR MIT
"""ping.py INTERFACE OWN_ADDRESS ADDRESS: sets the interface's address and sends echo requests of several sizes; 0 when all are answered."""

import fcntl
import socket
import struct
import sys

SIOCSIFADDR, SIOCSIFNETMASK = 0x8916, 0x891C
PATIENCE = 10


def set_address(interface, address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for request, value in (SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.0"):
            fcntl.ioctl(control, request, struct.pack("16sHH4s8x", interface.encode(), socket.AF_INET, 0, socket.inet_aton(value)))


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def ping(raw, address, sequence, body):
    """Sends one request and waits for its answer, which carries the same body."""
    header = struct.pack(">BBHHH", 8, 0, 0, 4711, sequence)
    request = struct.pack(">BBHHH", 8, 0, checksum(header + body), 4711, sequence) + body
    raw.sendto(request, (address, 0))
    while True:
        data, (sender, _) = raw.recvfrom(65536)
        kind, _, _, _, number = struct.unpack_from(">BBHHH", data, 20)
        if sender == address and kind == 0 and number == sequence:
            return data[28:] == body


def main(interface, own, address):
    set_address(interface, own)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.settimeout(PATIENCE)
        bodies = [bytes(i % 251 for i in range(size)) for size in (0, 22, 86, 500, 1472)]
        return all([ping(raw, address, i, body) for i, body in enumerate(bodies * 10)])


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
