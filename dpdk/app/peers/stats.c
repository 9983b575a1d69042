/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The generator's statistics: the slow paths, and the histogram of round trips. */
#include "stats.h"

#include <string.h>

void stats_out_of_order(struct stats *stats, uint64_t seq)
{
	if (seq > stats->expected && seq < stats->next) {
		stats->lost += seq - stats->expected;
		stats->expected = seq + 1;
	} else {
		stats->corrupt++;
	}
}

/* Each octave above STATS_EXACT has half as many bins. */
static unsigned int bin_of(uint64_t value)
{
	unsigned int octave, bin;

	if (value < STATS_EXACT)
		return (unsigned int)value;
	octave = 63 - (unsigned int)__builtin_clzll(value) - 7; /* 256 to 511: octave 1, steps of 2 */
	bin = STATS_EXACT + (octave - 1) * STATS_EXACT / 2 + ((value >> octave) & (STATS_EXACT / 2 - 1));
	return bin < STATS_BINS ? bin : STATS_BINS - 1;
}

/* The middle of a bin. */
static uint64_t value_of(unsigned int bin)
{
	unsigned int octave;

	if (bin < STATS_EXACT)
		return bin;
	bin -= STATS_EXACT;
	octave = bin / (STATS_EXACT / 2) + 1;
	return ((uint64_t)(STATS_EXACT / 2 + bin % (STATS_EXACT / 2)) << octave) + (1ull << octave) / 2;
}

void stats_flush(struct stats *stats)
{
	stats->bins[bin_of(stats->run_rtt)] += stats->run_length;
	stats->run_length = 0;
}

void stats_forget(struct stats *stats)
{
	stats->run_length = 0;
	memset(stats->bins, 0, sizeof(stats->bins));
}

uint64_t stats_quantile(struct stats *stats, double share)
{
	uint64_t all = 0, so_far = 0, wanted;

	stats_flush(stats);
	for (unsigned int bin = 0; bin < STATS_BINS; bin++)
		all += stats->bins[bin];
	wanted = (uint64_t)((double)all * share);
	for (unsigned int bin = 0; bin < STATS_BINS; bin++) {
		so_far += stats->bins[bin];
		if (so_far > wanted)
			return value_of(bin);
	}
	return 0;
}
