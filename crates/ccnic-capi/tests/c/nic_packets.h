/* Packets between a program and a NIC in C: made, checked and expected back. */
#ifndef NIC_PACKETS_H
#define NIC_PACKETS_H

#include "check.h"

#include <ccnic_nic.h>

static inline uint8_t byte(int packet, int at)
{
	return (uint8_t)(packet * 31 + at * 7 + (at >> 6));
}

/* By send_some(). */
static unsigned long long packets_sent;

/* The program sends packets of `len` bytes. */
static inline void send_some(struct ccnic_queue *queue, uint16_t len, int packets)
{
	struct ccnic_buf bufs[64];
	int n = ccnic_buf_alloc(queue, len, bufs, (uint16_t)(packets * CCNIC_SEGMENTS(len)));

	EXPECT(n, packets * CCNIC_SEGMENTS(len));
	for (int i = 0, packet = 0, at = 0; i < n; i++) {
		uint8_t *data = ccnic_buf_data(queue, &bufs[i]);
		for (int j = 0; j < ccnic_buf_len(&bufs[i]); j++)
			data[j] = byte(packet, at + j);
		bufs[i].meta = (uint64_t)packet;
		at = ccnic_buf_more(&bufs[i]) ? at + ccnic_buf_len(&bufs[i]) : 0;
		packet += at == 0;
	}
	EXPECT(ccnic_tx_burst(queue, bufs, (uint16_t)n), n);
	packets_sent += (unsigned)packets;
}

/* Checks packets of `len` bytes in a row of buffers; `nic_side`: the queue is a struct ccnic_nic_queue. Returns the packets. */
static inline int check_some(const void *queue, bool nic_side, const struct ccnic_buf *bufs, int n, uint16_t len)
{
	int packet = 0, at = 0;

	for (int i = 0; i < n; i++) {
		const uint8_t *data = nic_side ? ccnic_nic_buf_data(queue, &bufs[i]) : ccnic_buf_data(queue, &bufs[i]);
		for (int j = 0; j < ccnic_buf_len(&bufs[i]); j++)
			if (data[j] != byte(packet, at + j))
				EXPECT(data[j], byte(packet, at + j));
		EXPECT(bufs[i].meta, packet);
		at += ccnic_buf_len(&bufs[i]);
		if (!ccnic_buf_more(&bufs[i])) {
			EXPECT(at, len);
			packet++;
			at = 0;
		}
	}
	EXPECT(at, 0);
	return packet;
}

static inline int receive_all(struct ccnic_nic_queue *side, struct ccnic_buf *bufs)
{
	int n = 0, got;

	while ((got = ccnic_nic_rx_burst(side, bufs + n, (uint16_t)(64 - n))) > 0)
		n += got;
	EXPECT(got, 0);
	return n;
}

static inline void expect_back(struct ccnic_queue *queue, uint16_t len, int packets)
{
	struct ccnic_buf bufs[64];
	int n = 0;

	while (n < packets * CCNIC_SEGMENTS(len)) {
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		n += ccnic_rx_burst(queue, bufs + n, (uint16_t)(64 - n));
	}
	EXPECT(check_some(queue, false, bufs, n, len), packets);
	EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)n), 0);
}

#endif
