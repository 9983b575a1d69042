# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Frames of TCP and UDP for the tests of offloads, and what is in them."""

import random
import struct

TCP, UDP = 6, 17


def checksum(data):
    """RFC 1071. Of data with a right checksum in it: 0."""
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class Frame:
    """A frame that was received: its fields, and whether its checksums are right."""

    def __init__(self, data):
        at = 12
        self.vlan = None
        if data[at : at + 2] == b"\x81\x00":
            self.vlan = struct.unpack_from("!H", data, at + 2)[0]
            at += 4
        self.version = {b"\x08\x00": 4, b"\x86\xdd": 6}[data[at : at + 2]]
        ip = data[at + 2 :]
        if self.version == 4:
            size = (ip[0] & 15) * 4
            total = struct.unpack_from("!H", ip, 2)[0]
            self.identification, self.ip_right = struct.unpack_from("!H", ip, 4)[0], checksum(ip[:size]) == 0
            self.protocol, addresses = ip[9], ip[12:20]
        else:
            size, total = 40, 40 + struct.unpack_from("!H", ip, 4)[0]
            self.ip_right, self.protocol, addresses = True, ip[6], ip[8:40]
        l4 = ip[size:total]
        pseudo = addresses + struct.pack("!II", len(l4), self.protocol)
        self.l4_right = checksum(pseudo + l4) == 0
        self.port = struct.unpack_from("!H", l4, 0)[0]
        if self.protocol == TCP:
            self.sequence, self.flags = struct.unpack_from("!I", l4, 4)[0], l4[13]
        self.payload = l4[(l4[12] >> 4) * 4 if self.protocol == TCP else 8 :]

    @property
    def right(self):
        return self.ip_right and self.l4_right


def frame(version, protocol, port, payload, to=b"\x02\0\0\0\0\x63", by=b"\x02\0\0\0\0\x62"):
    """A frame with checksums that are wrong, and not zero."""
    if protocol == TCP:
        l4 = struct.pack("!HHIIBBHHH", port, 80, 1000, 0, 0x50, 0x19, 512, 0xBAD1, 0) + payload
    else:
        l4 = struct.pack("!HHHH", port, 80, 8 + len(payload), 0xBAD2) + payload
    if version == 4:
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(l4), 100, 0x4000, 64, protocol, 0xBAD3, b"\x0a\0\0\1", b"\x0a\0\0\2")
        return to + by + b"\x08\x00" + ip + l4
    ip = struct.pack("!IHBB16s16s", 6 << 28, len(l4), protocol, 64, b"\xfd" + bytes(14) + b"\1", b"\xfd" + bytes(14) + b"\2")
    return to + by + b"\x86\xdd" + ip + l4


def completed(data):
    """A frame of `frame()` with right checksums."""
    four = data[12:14] == b"\x08\x00"
    at, protocol, addresses = (34, data[23], data[26:34]) if four else (54, data[20], data[22:54])
    field = at + (16 if protocol == TCP else 6)
    l4 = data[at:field] + bytes(2) + data[field + 2 :]
    l4 = l4[: field - at] + struct.pack("!H", checksum(addresses + struct.pack("!II", len(l4), protocol) + l4)) + l4[field - at + 2 :]
    ip = data[14:at]
    if four:
        ip = ip[:10] + bytes(2) + ip[12:]
        ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    return data[:14] + ip + l4


def all_kinds(lengths):
    """Frames of both protocols and versions, with so many bytes of payload each; their port is their number."""
    kinds = [(version, protocol, length) for length in lengths for version in (4, 6) for protocol in (TCP, UDP)]
    random.seed(815)
    return [frame(version, protocol, 1024 + i, random.randbytes(length)) for i, (version, protocol, length) in enumerate(kinds)]
