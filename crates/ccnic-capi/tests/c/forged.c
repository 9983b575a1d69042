/*
 * A NIC and a program in one process. The NIC delivers packets of 64 bytes, which lie in the receive ring; then their descriptors are
 * overwritten with other lengths, as a NIC of another release or a hostile one may write them: up to 448 bytes, and more. None may
 * overflow the CCNIC_SMALL_SIZE bytes that the program gives to ccnic_rx_small(). Each room ends where an allocation ends, so that
 * the sanitizer and valgrind detect it.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <ccnic_nic.h>
#include <pthread.h>
#include <stdatomic.h>

#define AREA 448 /* bytes beside each unit of the ring */
#define ROOMS 8

static struct ccnic_nic *nic;
static atomic_bool ended;
static uint32_t size; /* of the region */

/* The control thread. */
static void *control(void *nothing)
{
	while (!atomic_load(&ended))
		EXPECT(ccnic_nic_poll(nic, SECOND / 100) >= 0, true);
	return nothing;
}

/* The rings that the NIC writes lie behind the buffers: the end of the memory that is mapped from `base` on. */
static uint32_t size_of_region(const uint8_t *base)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uintptr_t end = (uintptr_t)base;
	unsigned long long from, to;
	char line[512], how[8];

	EXPECT(maps != NULL, true);
	while (fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%llx-%llx %7s", &from, &to, how) == 3 && from == end && how[1] == 'w' && how[3] == 's')
			end = to;
	fclose(maps);
	return (uint32_t)(end - (uintptr_t)base);
}

/* The 64 bytes in an area of the ring. */
static uint32_t find_payload(const struct ccnic_view *view, const uint8_t *packet)
{
	for (uint32_t at = view->first + view->span; at + 64 <= size; at += 64)
		if (memcmp(view->base + at, packet, 64) == 0)
			return at;
	EXPECT(0, 1); /* the packet is not inline */
	return 0;
}

/* The first word of the descriptor of `len` bytes at that offset. */
static volatile uint64_t *find_descriptor(const struct ccnic_view *view, uint32_t offset, uint16_t len)
{
	for (uint32_t at = view->first + view->span; at + 16 <= size; at += 16) {
		volatile uint64_t *word = (volatile uint64_t *)(void *)(view->base + at);

		if ((uint32_t)*word == offset && (uint16_t)(*word >> 32) == len)
			return word;
	}
	EXPECT(0, 1);
	return NULL;
}

/* Delivers a packet whose bytes occur nowhere else, and changes its length. */
static void deliver(struct ccnic_nic_queue *side, const struct ccnic_view *view, uint32_t number, uint16_t len)
{
	volatile uint64_t *word;
	uint8_t packet[64];
	struct ccnic_segment segment = {.data = packet, .len = sizeof(packet)};

	memset(packet, 0x5a, sizeof(packet));
	memcpy(packet, &number, sizeof(number));
	EXPECT(ccnic_nic_tx_copy(side, &segment, 1), 1);
	word = find_descriptor(view, find_payload(view, packet), sizeof(packet));
	*word = (*word & ~(0xffffull << 32)) | (uint64_t)len << 32;
}

/* Receives one packet with ccnic_rx_small(). */
static int receive_small(struct ccnic_queue *queue, uint32_t number, uint16_t len)
{
	void *room[ROOMS];
	uint16_t lens[ROOMS];
	uint64_t meta[ROOMS];
	int got;

	for (int i = 0; i < ROOMS; i++)
		room[i] = malloc(CCNIC_SMALL_SIZE);
	got = ccnic_rx_small(queue, room, lens, meta, ROOMS);
	if (got == 1) {
		EXPECT(lens[0], len);
		if (len >= sizeof(number))
			EXPECT(memcmp(room[0], &number, sizeof(number)), 0);
	}
	for (int i = 0; i < ROOMS; i++)
		free(room[i]);
	return got;
}

static void receive_large(struct ccnic_queue *queue, uint32_t number, uint16_t len)
{
	struct ccnic_buf buf;

	EXPECT(ccnic_rx_burst(queue, &buf, 1), 1);
	EXPECT(ccnic_buf_len(&buf), len);
	EXPECT(memcmp(ccnic_buf_data(queue, &buf), &number, sizeof(number)), 0);
	EXPECT(ccnic_buf_free(queue, &buf, 1), 0);
}

static uint64_t dropped(struct ccnic_queue *queue)
{
	struct ccnic_stats stats;

	EXPECT(ccnic_queue_stats(queue, &stats, sizeof(stats)), 0);
	return stats.rx_bad_descriptor;
}

/* One packet of each length, received at once or after ccnic_wait() has taken it from the ring. */
static void lengths(struct ccnic_nic_queue *side, const struct ccnic_view *view, struct ccnic_queue *queue, bool waits)
{
	static const uint16_t beyond[] = {0, AREA + 1, 1500, 4096, 9600, UINT16_MAX};
	uint32_t number = waits ? 10000 : 1;

	for (uint16_t len = 1; len <= AREA; len++, number++) {
		deliver(side, view, number, len);
		if (waits)
			EXPECT(ccnic_wait(queue, 20 * SECOND), 1);
		EXPECT(receive_small(queue, number, len), len <= CCNIC_SMALL_SIZE ? 1 : -EMSGSIZE);
		if (len > CCNIC_SMALL_SIZE)
			receive_large(queue, number, len);
	}
	for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++, number++) {
		const uint64_t before = dropped(queue);

		deliver(side, view, number, beyond[i]);
		if (waits)
			EXPECT(ccnic_wait(queue, 0), 0);
		EXPECT(receive_small(queue, number, beyond[i]), 0);
		EXPECT(dropped(queue) - before, 1);
	}
}

/* Honest packets before and behind a long one in a unit and a burst. */
static void mixed(struct ccnic_nic_queue *side, const struct ccnic_view *view, struct ccnic_queue *queue)
{
	for (uint32_t i = 0; i < 200; i++) {
		const uint32_t number = 20000 + 3 * i;
		const uint16_t len = (uint16_t)(CCNIC_SMALL_SIZE + 1 + i);

		deliver(side, view, number, 60);
		deliver(side, view, number + 1, len);
		deliver(side, view, number + 2, 128);
		EXPECT(receive_small(queue, number, 60), 1);
		EXPECT(receive_small(queue, number + 1, len), -EMSGSIZE);
		receive_large(queue, number + 1, len);
		EXPECT(receive_small(queue, number + 2, 128), 1);
	}
}

int main(int argc, char **argv)
{
	struct ccnic_program *program = NULL;
	struct ccnic_options options;
	struct ccnic_nic_queue *side;
	struct ccnic_queue *queue;
	struct ccnic_view view;
	struct ccnic *host;
	pthread_t thread;

	EXPECT(argc, 2);
	EXPECT(ccnic_nic_listen(argv[1], NULL, &nic), 0);
	EXPECT(pthread_create(&thread, NULL, control, NULL), 0);
	ccnic_options_init(&options);
	options.ring = 64;
	options.buffers = 64;
	EXPECT(ccnic_open(argv[1], &options, &host), 0);
	EXPECT(ccnic_nic_accept(nic, &program), 0);
	EXPECT(ccnic_queue_open(host, 0, &queue), 0);
	EXPECT(ccnic_nic_queue_open(program, 0, &side), 0);
	EXPECT(ccnic_memory(host, &view), 0);
	size = size_of_region(view.base);
	EXPECT(size > view.first + view.span, true);
	lengths(side, &view, queue, false);
	lengths(side, &view, queue, true);
	mixed(side, &view, queue);
	EXPECT(ccnic_nic_queue_close(side), 0);
	EXPECT(ccnic_program_release(program), 0);
	EXPECT(ccnic_queue_close(queue), 0);
	EXPECT(ccnic_close(host), 0);
	atomic_store(&ended, true);
	EXPECT(pthread_join(thread, NULL), 0);
	EXPECT(ccnic_nic_close(nic), 0);
	puts("forged");
	return 0;
}
