/* A program that overwrites its own region with random words and ends: SOCKET DESIGN SEED. The NIC must survive it. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

#define WORDS 60000

static uint64_t state;

static uint64_t random_word(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* A word that is close to a valid one: a descriptor with length, flags and signal; an offset near a buffer; a small number. */
static uint64_t plausible_word(const struct ccnic_view *view)
{
	const uint64_t offset = view->first + random_word() % (2ull * view->span);

	switch (random_word() % 4) {
	case 0:
		return random_word();
	case 1:
		return random_word() % 1024;
	case 2:
		return offset & ~127ull;
	default:
		return (offset & 0xffffffff) | random_word() % 5000 << 32 | random_word() % 4 << 48 | random_word() << 56;
	}
}

int main(int argc, char **argv)
{
	const struct timespec nap = {0, 200000};
	struct ccnic_options options;
	struct ccnic_queue *queue;
	struct ccnic_buf bufs[32];
	struct ccnic *nic;

	EXPECT(argc, 4);
	state = strtoull(argv[3], NULL, 10);
	ccnic_options_init(&options);
	options.design = (uint32_t)atoi(argv[2]);
	options.ring = 64;
	options.buffers = 64;
	options.pages = CCNIC_PAGES_SMALL;
	EXPECT(ccnic_open(argv[1], &options, &nic), 0);
	EXPECT(ccnic_queue_open(nic, 0, &queue), 0);
	for (int i = 0; i < 20; i++) {
		int n = ccnic_buf_alloc(queue, 100, bufs, 8);
		ccnic_tx_burst(queue, bufs, (uint16_t)n);
		n = ccnic_rx_burst(queue, bufs, 32);
		ccnic_buf_free(queue, bufs, (uint16_t)n);
	}
	/* No call of the library from here on: its own state is inconsistent now. The first lines are the header, which is not read
	 * after the attachment; rings and lists follow. One word in four goes into buffers. */
	const struct ccnic_view *view = (const struct ccnic_view *)(const void *)queue;
	for (int i = 0; i < WORDS; i++) {
		const uint64_t words = (i % 4 != 0 ? view->first : view->first + view->span) / 8;
		((volatile uint64_t *)(void *)view->base)[random_word() % words] = plausible_word(view);
		if (i % 256 == 0)
			nanosleep(&nap, NULL);
	}
	return 0;
}
