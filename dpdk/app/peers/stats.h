/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The generator's statistics: which packets have come back, and their round-trip times. The same rules as
 * crates/ccnic-load/src/book.rs: all drivers keep the order, so a sequence number that is too high means lost packets, and one that
 * is too low a repeated packet.
 */
#ifndef STATS_H
#define STATS_H

#include <stdint.h>

/** Values below this are exact; others have an error of 1/256 to 1/128. */
#define STATS_EXACT 256
#define STATS_OCTAVES 40
#define STATS_BINS (STATS_EXACT + STATS_OCTAVES * STATS_EXACT / 2)

struct stats {
	uint64_t next;	   /**< number of the next packet to send */
	uint64_t expected; /**< number of the next packet to come back */
	uint64_t lost;	   /**< sent and never received */
	uint64_t corrupt;  /**< packets that were damaged, repeated or out of order */
	uint64_t received; /**< packets that came back */
	uint64_t run_rtt, run_length; /**< a round trip, and how many equal ones in a row */
	uint64_t bins[STATS_BINS];     /**< round trips in clock ticks */
};

/** Packets in flight. */
static inline uint64_t stats_outstanding(const struct stats *stats)
{
	return stats->next - stats->expected;
}

/** A packet whose number was not the expected one. */
void stats_out_of_order(struct stats *stats, uint64_t seq);

/** Adds the run of equal round trips to the histogram. */
void stats_flush(struct stats *stats);

/** Clears the histogram. */
void stats_forget(struct stats *stats);

/** The quantile `share` of the round trips, in ticks; 0 if there was none. */
uint64_t stats_quantile(struct stats *stats, double share);

/** Counts a packet that came back after `rtt` ticks. Equal round trips in a row, as in a burst, are added to the histogram at once. */
static inline __attribute__((always_inline)) void stats_arrived(struct stats *stats, uint64_t seq, uint64_t rtt)
{
	if (__builtin_expect(seq == stats->expected, 1))
		stats->expected++;
	else
		stats_out_of_order(stats, seq);
	stats->received++;
	if (rtt != stats->run_rtt) {
		stats_flush(stats);
		stats->run_rtt = rtt;
	}
	stats->run_length++;
}

#endif /* STATS_H */
