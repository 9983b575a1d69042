/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ccnic_buf.h
 * libccnic: buffers and the handles that name them. Included by ccnic.h.
 */
#ifndef CCNIC_BUF_H
#define CCNIC_BUF_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ccnic_queue;

/** The most buffers in one packet. A receive burst of this size never fails to receive a packet for want of entries. */
#define CCNIC_CHAIN_MAX 8
/** Bytes of a large buffer. A longer packet is a chain. */
#define CCNIC_LARGE_SIZE 4096
/** Bytes of a small buffer. */
#define CCNIC_SMALL_SIZE 128
/** Buffers of a packet of `len` bytes that ccnic_buf_alloc() allocates. */
#define CCNIC_SEGMENTS(len) ((len) > CCNIC_LARGE_SIZE ? ((len) + CCNIC_LARGE_SIZE - 1) / CCNIC_LARGE_SIZE : 1)

/**
 * A handle: names a buffer and the part of a packet in it. It is a plain value; the program may copy it and move it in arrays.
 * Access it with the functions below. The program itself reads and writes only `meta`: 64 bits that travel with the packet (those
 * of its first buffer), unless RSS replaces them by the hash (@ref CCNIC_RSS_META). To another program a switch passes on what they
 * request (@ref CCNIC_META_REQUESTS), and nothing else.
 */
struct ccnic_buf {
	uint32_t offset; /**< of the first byte, from the start of the region */
	uint16_t len;    /**< bytes of data */
	uint8_t flags;   /**< CCNIC_BUF_MORE and CCNIC_BUF_SMALL */
	uint8_t reserved;
	uint64_t meta;   /**< metadata of the packet */
};

#define CCNIC_BUF_MORE 1u  /**< the packet continues in the next buffer */
#define CCNIC_BUF_SMALL 2u /**< a buffer of CCNIC_SMALL_SIZE bytes */

/**
 * Where the buffers of an attachment lie: `span` bytes from `base + first` on. The data of a buffer are at `base + offset`; large
 * buffers begin at offsets that are multiples of @ref CCNIC_LARGE_SIZE. ccnic_memory() returns it; the inline functions read it at
 * the start of a queue.
 */
struct ccnic_view {
	uint8_t *base;  /**< start of the region */
	uint32_t first; /**< offset of the first buffer */
	uint32_t span;  /**< bytes of all buffers */
};

/**
 * Returns the data of a buffer: ccnic_buf_len() bytes to read, ccnic_buf_capacity() bytes to write. Valid until the buffer is freed
 * or sent. Aligned to 64 bytes unless the program changed the offset.
 *
 * @return NULL if the handle names no buffer of this queue's NIC. The queue's thread.
 */
static inline void *ccnic_buf_data(const struct ccnic_queue *queue, const struct ccnic_buf *buf)
{
	const struct ccnic_view *view = (const struct ccnic_view *)(const void *)queue;
	return buf->offset - view->first < view->span ? view->base + buf->offset : NULL;
}

/** @return bytes of data in this buffer. Any thread that owns the buffer; the same below. */
static inline uint16_t ccnic_buf_len(const struct ccnic_buf *buf)
{
	return buf->len;
}

/** @return bytes from the first byte of data to the end of the buffer. */
static inline uint16_t ccnic_buf_capacity(const struct ccnic_buf *buf)
{
	const uint32_t size = buf->flags & CCNIC_BUF_SMALL ? CCNIC_SMALL_SIZE : CCNIC_LARGE_SIZE;
	return (uint16_t)(size - (buf->offset & (size - 1)));
}

/** Sets the bytes of data. @return 0; -EMSGSIZE: `len` exceeds ccnic_buf_capacity(), and nothing is changed. */
static inline int ccnic_buf_set_len(struct ccnic_buf *buf, uint16_t len)
{
	if (len > ccnic_buf_capacity(buf))
		return -EMSGSIZE;
	buf->len = len;
	return 0;
}

/** @return true if the packet continues in the next buffer of the array. */
static inline bool ccnic_buf_more(const struct ccnic_buf *buf)
{
	return buf->flags & CCNIC_BUF_MORE;
}

/** Sets whether the packet continues in the next buffer of the array. */
static inline void ccnic_buf_set_more(struct ccnic_buf *buf, bool more)
{
	buf->flags = (uint8_t)((buf->flags & ~CCNIC_BUF_MORE) | (more ? CCNIC_BUF_MORE : 0u));
}

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_BUF_H */
