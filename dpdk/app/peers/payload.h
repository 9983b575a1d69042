/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The payload of packets: the same bytes as in `ccnic bench loopback` (crates/ccnic-load/src/payload.rs).
 *
 * Word 0 is the time of sending and word 1 the sequence number. Every other 8-byte word depends on the sequence number and the
 * word's index, which reveals lost, repeated, torn and misplaced cache lines. Every byte is written, and checked when the packet
 * has come back.
 */
#ifndef PAYLOAD_H
#define PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/** The shortest packet: the first two words. */
#define PAYLOAD_MIN 16
/** Words of a cache line, which is written and checked at a time, in vector registers. */
#define PAYLOAD_WORDS 8
#define PAYLOAD_LINE (8 * PAYLOAD_WORDS)

/** Word `index` of packet `seq`. */
static inline uint64_t payload_word(uint64_t seq, uint64_t index)
{
	return seq * 0x9e3779b97f4a7c15u + index;
}

static inline __attribute__((always_inline)) void payload_line(uint64_t *to, uint64_t first)
{
	for (unsigned int i = 0; i < PAYLOAD_WORDS; i++)
		to[i] = first + i;
}

/** Non-zero if a line differs from payload_line() from word `from` on. */
static inline __attribute__((always_inline)) uint64_t payload_differs(const uint64_t *found, uint64_t first,
								      unsigned int from)
{
	uint64_t differ = 0;

	for (unsigned int i = from; i < PAYLOAD_WORDS; i++)
		differ |= found[i] ^ (first + i);
	return differ;
}

/** Fills a segment that starts `at` bytes (a multiple of 8) into its packet. */
static inline __attribute__((always_inline)) void payload_fill(void *data, uint32_t len, uint32_t at, uint64_t seq,
							       uint64_t time)
{
	uint64_t *words = data, first = payload_word(seq, at / 8);
	uint32_t done = 0;

	for (; done + PAYLOAD_LINE <= len; done += PAYLOAD_LINE, first += PAYLOAD_WORDS)
		payload_line(words + done / 8, first);
	if (done < len) {
		uint64_t line[PAYLOAD_WORDS];

		payload_line(line, first);
		memcpy((char *)data + done, line, len - done);
	}
	if (at == 0) {
		words[0] = time;
		words[1] = seq;
	}
}

/** True if every byte of a segment is what payload_fill() wrote, except for the first two words. */
static inline __attribute__((always_inline)) bool payload_intact(const void *data, uint32_t len, uint32_t at, uint64_t seq)
{
	const uint64_t *words = data;
	uint64_t first = payload_word(seq, at / 8), differ = 0;
	uint32_t done = 0, header = at == 0 ? PAYLOAD_MIN : 0;

	if (at == 0 && len >= PAYLOAD_LINE) {
		differ = payload_differs(words, first, PAYLOAD_MIN / 8);
		done = PAYLOAD_LINE;
		first += PAYLOAD_WORDS;
		header = 0;
	}
	for (; done + PAYLOAD_LINE <= len; done += PAYLOAD_LINE, first += PAYLOAD_WORDS)
		differ |= payload_differs(words + done / 8, first, 0);
	if (done + header < len) {
		uint64_t line[PAYLOAD_WORDS];

		payload_line(line, first);
		differ |= memcmp((const char *)data + done + header, (const char *)line + header, len - done - header) != 0;
	}
	return differ == 0;
}

#endif /* PAYLOAD_H */
