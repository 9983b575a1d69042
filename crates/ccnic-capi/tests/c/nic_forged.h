/* What a NIC in C does wrong with buffers and segments: every call says so, and counts it. */
#ifndef NIC_FORGED_H
#define NIC_FORGED_H

#include "nic_packets.h"

/* Handles that name no buffer, and packets that cannot be. */
static void forged(struct ccnic_nic_queue *side)
{
	static const uint32_t offsets[] = {0, 4096, 0x7fffffff, UINT32_MAX, UINT32_MAX - 63};
	struct ccnic_buf bufs[9], bad;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		EXPECT(ccnic_nic_buf_alloc(side, 64, bufs, 2), 2);
		bad = bufs[1];
		bad.offset = offsets[i];
		EXPECT(ccnic_nic_buf_data(side, &bad) == NULL, true);
		EXPECT(ccnic_nic_tx_burst(side, &bad, 1), -EFAULT);
		struct ccnic_buf mixed[3] = {bufs[0], bad, bufs[1]};
		EXPECT(ccnic_nic_buf_free(side, mixed, 3), -EFAULT); /* the others are free */
	}
	EXPECT(ccnic_nic_buf_alloc(side, 64, bufs, 1), 1);
	bad = bufs[0];
	bad.len = 4097;
	EXPECT(ccnic_nic_tx_burst(side, &bad, 1), -EFAULT);
	bad.len = 0;
	EXPECT(ccnic_nic_tx_burst(side, &bad, 1), -EFAULT);
	bad.len = 64;
	bad.flags = bad.reserved = 0xff;
	EXPECT(ccnic_nic_tx_burst(side, &bad, 1), -EINVAL); /* a chain without an end */
	EXPECT(ccnic_nic_buf_free(side, bufs, 1), 0);
	EXPECT(ccnic_nic_buf_alloc(side, 64, bufs, 9), 9);
	for (int i = 0; i < 8; i++)
		ccnic_buf_set_more(&bufs[i], true);
	EXPECT(ccnic_nic_tx_burst(side, bufs, 9), -EMSGSIZE); /* nine buffers in a packet */
	EXPECT(ccnic_nic_buf_free(side, bufs, 9), 0);
	EXPECT(ccnic_nic_buf_alloc(side, 9001, bufs, 9), -EMSGSIZE); /* the MTU is 9000 */
	EXPECT(ccnic_nic_buf_alloc(side, 9000, bufs, 2), -EINVAL);   /* too few entries for three buffers */
}

static void bad_segments(struct ccnic_nic_queue *side)
{
	static const uint8_t memory[9001];
	struct ccnic_segment segments[CCNIC_SEGMENTS_MAX + 1] = {{memory, 0, 0, 0}};

	EXPECT(ccnic_nic_tx_copy(side, segments, 1), -EINVAL); /* no bytes */
	segments[0] = (struct ccnic_segment){NULL, 0, 1, 0};
	EXPECT(ccnic_nic_tx_copy(side, segments, 1), -EINVAL);
	segments[0] = (struct ccnic_segment){memory, 0, 9001, 0};
	EXPECT(ccnic_nic_tx_copy(side, segments, 1), -EMSGSIZE);
	segments[0] = (struct ccnic_segment){memory, 0, UINT32_MAX, 0};
	EXPECT(ccnic_nic_tx_copy(side, segments, 1), -EMSGSIZE);
	segments[0] = (struct ccnic_segment){memory, 0, 1, CCNIC_SEGMENT_MORE};
	EXPECT(ccnic_nic_tx_copy(side, segments, 1), -EINVAL); /* no end */
	for (int i = 0; i <= CCNIC_SEGMENTS_MAX; i++)
		segments[i] = (struct ccnic_segment){memory, 0, 1, i < CCNIC_SEGMENTS_MAX ? CCNIC_SEGMENT_MORE : 0};
	EXPECT(ccnic_nic_tx_copy(side, segments, CCNIC_SEGMENTS_MAX + 1), -EMSGSIZE);
}

#endif
