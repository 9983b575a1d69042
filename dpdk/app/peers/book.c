/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The generator's book: what happens off the fast path, and the histogram of round trips. */
#include "book.h"

#include <string.h>

void book_out_of_order(struct book *book, uint64_t seq)
{
	if (seq > book->expected && seq < book->next) {
		book->lost += seq - book->expected;
		book->expected = seq + 1;
	} else {
		book->corrupt++;
	}
}

/* Each octave above BOOK_EXACT has half as many bins. */
static unsigned int bin_of(uint64_t value)
{
	unsigned int octave, bin;

	if (value < BOOK_EXACT)
		return (unsigned int)value;
	octave = 63 - (unsigned int)__builtin_clzll(value) - 7; /* 256 to 511: octave 1, steps of 2 */
	bin = BOOK_EXACT + (octave - 1) * BOOK_EXACT / 2 + ((value >> octave) & (BOOK_EXACT / 2 - 1));
	return bin < BOOK_BINS ? bin : BOOK_BINS - 1;
}

/* The middle of a bin. */
static uint64_t value_of(unsigned int bin)
{
	unsigned int octave;

	if (bin < BOOK_EXACT)
		return bin;
	bin -= BOOK_EXACT;
	octave = bin / (BOOK_EXACT / 2) + 1;
	return ((uint64_t)(BOOK_EXACT / 2 + bin % (BOOK_EXACT / 2)) << octave) + (1ull << octave) / 2;
}

void book_flush(struct book *book)
{
	book->bins[bin_of(book->run_rtt)] += book->run_length;
	book->run_length = 0;
}

void book_forget(struct book *book)
{
	book->run_length = 0;
	memset(book->bins, 0, sizeof(book->bins));
}

uint64_t book_quantile(struct book *book, double share)
{
	uint64_t all = 0, so_far = 0, wanted;

	book_flush(book);
	for (unsigned int bin = 0; bin < BOOK_BINS; bin++)
		all += book->bins[bin];
	wanted = (uint64_t)((double)all * share);
	for (unsigned int bin = 0; bin < BOOK_BINS; bin++) {
		so_far += book->bins[bin];
		if (so_far > wanted)
			return value_of(bin);
	}
	return 0;
}
