/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tests of what decides whether a packet is good: the payload and the book. */
#include <stdio.h>
#include <stdlib.h>

#include "book.h"
#include "payload.h"

#define EXPECT(condition) expect(condition, #condition, __LINE__)

static void expect(bool condition, const char *what, int line)
{
	if (!condition) {
		fprintf(stderr, "check.c:%d: not so: %s\n", line, what);
		exit(EXIT_FAILURE);
	}
}

/* The buffer is exactly as long as the packet, so that the sanitizer sees what reads or writes beyond it. */
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
	static struct book book;

	book.next = 10;
	book_arrived(&book, 0, 7);
	book_arrived(&book, 1, 7);
	book_arrived(&book, 4, 9);
	book_arrived(&book, 4, 9);
	book_arrived(&book, 99, 9);
	EXPECT(book.lost == 2 && book.corrupt == 2 && book.received == 5 && book_outstanding(&book) == 5);
	EXPECT(book_quantile(&book, 0) == 7 && book_quantile(&book, 0.5) == 9 && book_quantile(&book, 0.99) == 9);
	book_forget(&book);
	EXPECT(book_quantile(&book, 0.5) == 0);
}

static void round_trips_are_less_than_a_percent_out(void)
{
	for (uint64_t rtt = 1; rtt < 1ull << 40; rtt += 1 + rtt / 3) {
		static struct book book;
		uint64_t told;

		book_forget(&book);
		book_arrived(&book, 0, rtt);
		told = book_quantile(&book, 0.5);
		EXPECT((told > rtt ? told - rtt : rtt - told) * 100 <= rtt);
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
	puts("payload and book: ok");
	return EXIT_SUCCESS;
}
