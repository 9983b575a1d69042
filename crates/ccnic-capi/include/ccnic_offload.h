/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ccnic_offload.h
 * libccnic: what the metadata of packets (`meta` of struct ccnic_buf) say of checksums, segmentation and VLAN tags. Between memories
 * nothing of it needs to be computed: a sender requests it, and whoever hands the packet to something that cannot take it so computes
 * it. Nothing says where the headers are: they are parsed. Included by ccnic.h.
 *
 * @par Sending
 * Request only what ccnic_offloads() says: a NIC that does not know requests delivers wrong checksums. Of a loopback
 * (CCNIC_OFFLOADS_PASSED) request only what the program itself takes. ccnic_frame_part() does the rest. Requests that the packet's
 * headers contradict make the NIC drop it.
 *
 * @par Receiving
 * A program gets complete packets until it has said with ccnic_takes_set() what it takes.
 */
#ifndef CCNIC_OFFLOAD_H
#define CCNIC_OFFLOAD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ccnic;

/*
 * The checksum of the IPv4 header, and of TCP or UDP. Requested: the field in the packet is undefined; to a receiver: the packet comes
 * from a memory, and nobody has computed it. Good: it is in the packet, and was verified. Neither: it is in the packet.
 */
#define CCNIC_META_IP_REQUESTED (UINT64_C(1) << 35)
#define CCNIC_META_IP_GOOD (UINT64_C(2) << 35)
#define CCNIC_META_IP_MASK (UINT64_C(3) << 35)
#define CCNIC_META_L4_REQUESTED (UINT64_C(1) << 37)
#define CCNIC_META_L4_GOOD (UINT64_C(2) << 37)
#define CCNIC_META_L4_MASK (UINT64_C(3) << 37)

/*
 * A super-packet, to be cut into segments with as many bytes of payload as the low 16 bits say. Its checksum of TCP or UDP must be
 * requested. It has no hash.
 */
#define CCNIC_META_TCP_IPV4 (UINT64_C(1) << 33)
#define CCNIC_META_TCP_IPV6 (UINT64_C(2) << 33)
#define CCNIC_META_UDP (UINT64_C(3) << 33)
#define CCNIC_META_SEGMENT_MASK (UINT64_C(3) << 33)
#define CCNIC_META_SEGMENT_SIZE UINT64_C(0xffff)

/** A VLAN tag (EtherType 0x8100) belongs before the packet's EtherType: to be inserted, or stripped. Bits 48 to 63 are its TCI. */
#define CCNIC_META_VLAN (UINT64_C(1) << 39)
#define CCNIC_META_TCI_SHIFT 48

/**
 * The bits by which a sender requests something. A NIC believes no others of a program's packets: that a checksum is good, a hash and
 * a mark are what a NIC tells a receiver.
 */
#define CCNIC_META_REQUESTS \
	(CCNIC_META_IP_REQUESTED | CCNIC_META_L4_REQUESTED | CCNIC_META_SEGMENT_MASK | CCNIC_META_SEGMENT_SIZE | CCNIC_META_VLAN | \
	 (UINT64_C(0xffff) << CCNIC_META_TCI_SHIFT))

/* What a receiver takes as it is. Who takes super-packets also takes CCNIC_TAKES_L4. */
#define CCNIC_TAKES_IP 1u   /**< the checksum of the IPv4 header requested */
#define CCNIC_TAKES_L4 2u   /**< the checksum of TCP or UDP requested */
#define CCNIC_TAKES_TCP 4u  /**< super-packets of TCP */
#define CCNIC_TAKES_UDP 8u  /**< super-packets of UDP */
#define CCNIC_TAKES_VLAN 16u /**< VLAN tags in the metadata */
#define CCNIC_TAKES_ALL 31u

/** Of ccnic_offloads(): packets arrive as they were sent, whatever their receiver takes. */
#define CCNIC_OFFLOADS_PASSED (1u << 16)

/**
 * Tells what the NIC that is attached now takes of what is requested. What it takes and a receiver does not is done for the receiver,
 * unless @ref CCNIC_OFFLOADS_PASSED is set.
 *
 * @return CCNIC_TAKES_IP and so on, and CCNIC_OFFLOADS_PASSED, or 0; -EINVAL for NULL
 *
 * Any thread.
 */
int ccnic_offloads(const struct ccnic *nic);

/**
 * Has this NIC, and its successors, leave packets as they are of which only this is requested. Packets that are already in the NIC may
 * still arrive by the old setting.
 *
 * @param takes CCNIC_TAKES_IP and so on, or 0
 * @return 0; -EINVAL: NULL; -E2BIG: a bit is unknown to this library; -ENOTCONN: the NIC has ended, its successor will be told; -EPERM: the
 *         NIC refused
 *
 * Any thread. Blocks until the NIC has answered.
 */
int ccnic_takes_set(struct ccnic *nic, uint32_t takes);

/**
 * Writes a part of a frame as somebody gets it who takes less than is requested: the only one, complete, or, of a super-packet, each of
 * the segments. Who takes super-packets, but none of that length, gets shorter ones. Call it with an index of 0, 1, 2 and so on until it
 * returns 0. Nothing is kept between calls.
 *
 * @param frame   the frame, in one piece
 * @param len     its bytes
 * @param meta    its metadata; receives the part's, unless the call returns 0 or an error
 * @param takes   what the receiver takes
 * @param longest bytes of the longest part that it takes
 * @param index   which part
 * @param to      receives the part; does not overlap the frame
 * @param room    bytes of `to`
 * @return bytes of the part; 0: there is no such part; -EBADMSG: the frame is not what the metadata say, or malformed; -EMSGSIZE: the part
 *         would be longer than `longest` or `room`; -EINVAL: NULL; -E2BIG: a bit of `takes` is unknown
 *
 * Any thread.
 */
int ccnic_frame_part(const void *frame, uint32_t len, uint64_t *meta, uint32_t takes, uint32_t longest, uint32_t index, void *to, uint32_t room);

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_OFFLOAD_H */
