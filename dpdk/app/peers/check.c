/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tests of what decides whether a packet is intact: the payload and the statistics. */
#include <stdio.h>
#include <stdlib.h>

#include "stats.h"
#include "payload.h"

#define EXPECT(condition) expect(condition, #condition, __LINE__)

static void expect(bool condition, const char *what, int line)
{
	if (!condition) {
		fprintf(stderr, "check.c:%d: not so: %s\n", line, what);
		exit(EXIT_FAILURE);
	}
}

/* The buffer is exactly as long as the packet, so that the sanitizer detects accesses beyond it. */
static void any_changed_byte_shows(uint32_t len)
{
	uint8_t *packet = malloc(len);

	EXPECT(packet != NULL);
	payload_fill(packet, len, 0, 77, 5);
	EXPECT(((uint64_t *)packet)[0] == 5 && ((uint64_t *)packet)[1] == 77);
	EXPECT(payload_intact(packet, len, 0, 77));
	EXPECT(len == PAYLOAD_MIN || !payload_intact(packet, len, 0, 78));
	for (uint32_t i = PAYLOAD_MIN; i < len; i++) {
		packet[i] ^= 1;
		EXPECT(!payload_intact(packet, len, 0, 77));
		packet[i] ^= 1;
	}
	free(packet);
}

static void segments_continue_the_pattern(void)
{
	static uint64_t whole[9000 / 8], second[2048 / 8];

	payload_fill(whole, sizeof(whole), 0, 3, 1);
	payload_fill(second, sizeof(second), 2048, 3, 1);
	EXPECT(memcmp(second, (char *)whole + 2048, sizeof(second)) == 0);
	EXPECT(payload_intact((char *)whole + 2048, 2048, 2048, 3));
	EXPECT(!payload_intact((char *)whole + 2048, 2048, 4096, 3));
}

static void gaps_are_losses_and_repetitions_corruption(void)
{
	static struct stats stats;

	stats.next = 10;
	stats_arrived(&stats, 0, 7);
	stats_arrived(&stats, 1, 7);
	stats_arrived(&stats, 4, 9);
	stats_arrived(&stats, 4, 9);
	stats_arrived(&stats, 99, 9);
	EXPECT(stats.lost == 2 && stats.corrupt == 2 && stats.received == 5 && stats_outstanding(&stats) == 5);
	EXPECT(stats_quantile(&stats, 0) == 7 && stats_quantile(&stats, 0.5) == 9 && stats_quantile(&stats, 0.99) == 9);
	stats_forget(&stats);
	EXPECT(stats_quantile(&stats, 0.5) == 0);
}

static void round_trips_are_less_than_a_percent_out(void)
{
	for (uint64_t rtt = 1; rtt < 1ull << 40; rtt += 1 + rtt / 3) {
		static struct stats stats;
		uint64_t found;

		stats_forget(&stats);
		stats_arrived(&stats, 0, rtt);
		found = stats_quantile(&stats, 0.5);
		EXPECT((found > rtt ? found - rtt : rtt - found) * 100 <= rtt);
	}
}

int main(void)
{
	static const uint32_t lengths[] = {16, 17, 63, 64, 67, 127, 1500};

	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		any_changed_byte_shows(lengths[i]);
	segments_continue_the_pattern();
	gaps_are_losses_and_repetitions_corruption();
	round_trips_are_less_than_a_percent_out();
	puts("payload and statistics: ok");
	return EXIT_SUCCESS;
}
