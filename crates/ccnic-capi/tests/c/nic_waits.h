/* Either side of a NIC in C waits for the other: the program for notifications, the NIC until the program wakes it. */
#ifndef NIC_WAITS_H
#define NIC_WAITS_H

#include "nic_packets.h"

#include <pthread.h>
#include <stdatomic.h>

/* An armed queue is notified once, by the burst that sends packets or the next one; a disarmed one is not. */
static void notify(struct ccnic_nic_queue *side, struct ccnic_queue *queue)
{
	static const uint8_t memory[64];
	const struct ccnic_segment segment = {memory, 0, sizeof(memory), 0};
	struct ccnic_buf bufs[4];
	const int fd = ccnic_rx_fd(queue);

	EXPECT(fd >= 0, true);
	for (int i = 0; !readable(fd, 1); i++) {
		EXPECT(i < 20000, true); /* until the queue's thread has got the notifier */
		EXPECT(ccnic_nic_rx_burst(side, bufs, 4), 0);
	}
	for (int i = 0; i < 300; i++) {
		EXPECT(ccnic_rx_fd(queue), fd);
		EXPECT(ccnic_rx_arm(queue), 0);
		EXPECT(ccnic_nic_rx_burst(side, bufs, 4), 0);
		EXPECT(readable(fd, 0), false);
		EXPECT(ccnic_nic_tx_copy(side, &segment, 1), 1);
		/* One thread does both, so nothing is reordered; but notifications are rate-limited. */
		while (!readable(fd, 0))
			EXPECT(ccnic_nic_rx_burst(side, bufs, 4), 0);
		EXPECT(ccnic_rx_arm(queue), 1);
		EXPECT(readable(fd, 0), false);
		EXPECT(ccnic_nic_tx_copy(side, &segment, 1), 1);
		EXPECT(readable(fd, 0), false);
		EXPECT(ccnic_rx_arm(queue), 2);
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		EXPECT(ccnic_rx_arm(queue) > 0, true); /* packets that ccnic_wait() has received count */
		EXPECT(ccnic_rx_disarm(queue), 0);
		for (int received = 0, n; received < 2; received += n) {
			n = ccnic_rx_burst(queue, bufs, 4);
			EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)n), 0);
		}
	}
	EXPECT(ccnic_rx_notify(queue), 0);
	EXPECT(readable(fd, 0), true);
	EXPECT(ccnic_rx_arm(queue), 0);
	EXPECT(readable(fd, 0), false);
	EXPECT(ccnic_rx_disarm(queue), 0);
}

/* Sends packets to a program that waits for each. */
struct sender {
	struct ccnic_nic_queue *side;
	int packets;
	atomic_int received;
};

static void *send_one_by_one(void *argument)
{
	static const uint8_t memory[64];
	const struct ccnic_segment segment = {memory, 0, sizeof(memory), 0};
	struct sender *sender = argument;
	struct ccnic_buf bufs[4];
	int sent = 0, received;

	while ((received = atomic_load(&sender->received)) < sender->packets) {
		/* The next one only when the program has received the last. */
		if (sent == received)
			sent += ccnic_nic_tx_copy(sender->side, &segment, 1);
		else
			EXPECT(ccnic_nic_rx_burst(sender->side, bufs, 4), 0);
	}
	return NULL;
}

static void wait_for_each(struct ccnic_nic_queue *side, struct ccnic_queue *queue)
{
	struct sender sender = {.side = side, .packets = 500};
	struct ccnic_buf bufs[4];
	pthread_t thread;

	EXPECT(pthread_create(&thread, NULL, send_one_by_one, &sender), 0);
	for (int i = 0; i < sender.packets; i++) {
		EXPECT(ccnic_wait(queue, 60 * SECOND), 1);
		EXPECT(ccnic_rx_burst(queue, bufs, 4), 1);
		EXPECT(ccnic_buf_free(queue, bufs, 1), 0);
		atomic_fetch_add(&sender.received, 1);
	}
	EXPECT(pthread_join(thread, NULL), 0);
}

/* The NIC sleeps until the program wakes it, and the program until the NIC has sent the packet back: no wake-up is lost. */
static void *sleep_and_return(void *argument)
{
	struct sender *sender = argument;
	const int fd = ccnic_nic_rx_fd(sender->side);
	struct ccnic_buf bufs[4];
	uint8_t copy[64];
	void *room = copy;
	uint16_t len;

	for (int returned = 0; returned < sender->packets;) {
		const struct ccnic_segment segment = {copy, 0, sizeof(copy), 0};
		const int got = ccnic_nic_rx_copy(sender->side, &room, sizeof(copy), &len, NULL, 1);

		if (got > 0) {
			EXPECT(len, sizeof(copy));
			EXPECT(ccnic_nic_tx_copy(sender->side, &segment, 1), 1);
			returned++;
		} else if (ccnic_nic_rx_arm(sender->side) == 0) {
			EXPECT(readable(fd, 60000), true);
			EXPECT(ccnic_nic_rx_disarm(sender->side), 0);
		}
	}
	/* Until the program has the last one. */
	while (atomic_load(&sender->received) < sender->packets)
		EXPECT(ccnic_nic_rx_burst(sender->side, bufs, 4), 0);
	return NULL;
}

static void sleep_for_each(struct ccnic_nic_queue *side, struct ccnic_queue *queue)
{
	static const uint8_t packet[64];
	struct sender sender = {.side = side, .packets = 500};
	const void *data = packet;
	const uint16_t len = sizeof(packet);
	struct ccnic_buf buf;
	pthread_t thread;

	EXPECT(pthread_create(&thread, NULL, sleep_and_return, &sender), 0);
	for (int i = 0; i < sender.packets; i++) {
		EXPECT(ccnic_tx_small(queue, &data, &len, 1), 1);
		packets_sent++;
		EXPECT(ccnic_wait(queue, 60 * SECOND), 1);
		EXPECT(ccnic_rx_burst(queue, &buf, 1), 1);
		EXPECT(ccnic_buf_free(queue, &buf, 1), 0);
		atomic_fetch_add(&sender.received, 1);
	}
	EXPECT(pthread_join(thread, NULL), 0);
}

/* What the calls say, in one thread. */
static void sleep_and_wake(struct ccnic_nic_queue *side, struct ccnic_queue *queue)
{
	const int fd = ccnic_nic_rx_fd(side);
	struct ccnic_buf bufs[4];

	EXPECT(fd >= 0 && ccnic_nic_rx_fd(side) == fd, true);
	for (int i = 0; i < 300; i++) {
		EXPECT(ccnic_nic_rx_arm(side), 0);
		EXPECT(readable(fd, 0), false);
		send_some(queue, 60, 1);
		EXPECT(readable(fd, 0), true);
		EXPECT(ccnic_nic_rx_arm(side), 1);
		EXPECT(ccnic_nic_rx_burst(side, bufs, 4), 1);
		EXPECT(ccnic_nic_buf_free(side, bufs, 1), 0);
		/* A packet that was fetched and not received. */
		send_some(queue, 60, 2);
		EXPECT(ccnic_nic_rx_burst(side, bufs, 1), 1);
		EXPECT(ccnic_nic_rx_arm(side), 1);
		EXPECT(ccnic_nic_rx_burst(side, bufs + 1, 1), 1);
		EXPECT(ccnic_nic_buf_free(side, bufs, 2), 0);
		/* Nobody is woken who has not asked. */
		EXPECT(ccnic_nic_rx_arm(side), 0);
		EXPECT(readable(fd, 0), false);
		EXPECT(ccnic_nic_rx_disarm(side), 0);
		send_some(queue, 60, 1);
		EXPECT(readable(fd, 0), false);
		EXPECT(ccnic_nic_rx_burst(side, bufs, 4), 1);
		EXPECT(ccnic_nic_buf_free(side, bufs, 1), 0);
	}
}

#endif
