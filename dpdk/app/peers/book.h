/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The generator's book: which packets have come back, and how long each was under way. The same rules as
 * crates/ccnic-load/src/book.rs: all drivers keep order, so a number too high means packets lost, one too low a repetition.
 */
#ifndef BOOK_H
#define BOOK_H

#include <stdint.h>

/** Values below this are exact, above it 1 in 128 to 1 in 256 of their size out. */
#define BOOK_EXACT 256
#define BOOK_OCTAVES 40
#define BOOK_BINS (BOOK_EXACT + BOOK_OCTAVES * BOOK_EXACT / 2)

struct book {
	uint64_t next;	   /**< number of the next packet to send */
	uint64_t expected; /**< number of the next packet to come back */
	uint64_t lost;	   /**< sent and never received */
	uint64_t corrupt;  /**< came back damaged, twice or out of order */
	uint64_t received; /**< came back */
	uint64_t run_rtt, run_length; /**< a round trip, and how many in a row were equal */
	uint64_t bins[BOOK_BINS];     /**< round trips in clock ticks */
};

/** Packets under way. */
static inline uint64_t book_outstanding(const struct book *book)
{
	return book->next - book->expected;
}

/** A packet whose number was not the expected one. */
void book_out_of_order(struct book *book, uint64_t seq);

/** Records the run of equal round trips. */
void book_flush(struct book *book);

/** Forgets the round trips so far. */
void book_forget(struct book *book);

/** The round trip that this share of packets did not exceed, in ticks; 0 when there was none. */
uint64_t book_quantile(struct book *book, double share);

/** Books a packet that came back after `rtt` ticks. Packets of a burst often have equal ones, which are recorded at once. */
static inline __attribute__((always_inline)) void book_arrived(struct book *book, uint64_t seq, uint64_t rtt)
{
	if (__builtin_expect(seq == book->expected, 1))
		book->expected++;
	else
		book_out_of_order(book, seq);
	book->received++;
	if (rtt != book->run_rtt) {
		book_flush(book);
		book->run_rtt = rtt;
	}
	book->run_length++;
}

#endif /* BOOK_H */
