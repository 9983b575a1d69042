/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ccnic.h
 * libccnic: a packet interface over cache-coherent memory, between a program and a software NIC (ccnicd).
 *
 * The four calls of CC-NIC (Schuh et al., ASPLOS '24, figure 5), with the semantics of DPDK's mempool and ethdev bursts:
 *
 *     ccnic_buf_alloc -> write the data -> ccnic_tx_burst
 *     ccnic_rx_burst  -> read the data  -> ccnic_buf_free
 *
 * and, for programs that keep packets in memory of their own, ccnic_tx_small() and ccnic_rx_small().
 *
 * @par Errors
 * Functions return a count or 0, or a negative errno value; ccnic_last_error() says more. Nothing here ends the process: a
 * defect of the library itself is -ENOTRECOVERABLE.
 *
 * @par Threads
 * A queue belongs to one thread at a time: the functions that take a struct ccnic_queue may be called by that thread only
 * (hand it over with the synchronisation you would use for any object). Functions that take a struct ccnic may be called by
 * any thread at any time, apart from ccnic_close() and ccnic_reconnect(). Nothing survives fork() in the child.
 *
 * @par Buffers
 * A packet is one buffer or a chain of up to @ref CCNIC_CHAIN_MAX of them, in consecutive places of an array, all but the last
 * with ccnic_buf_more(). Lengths are bytes; every count is a count of buffers. What alloc and receive return is the program's
 * until it is freed or sent. Buffers belong to the NIC attachment, not to a queue: any queue of the same NIC may send or free
 * them. A buffer that is used after it was freed or sent, or freed twice, damages packets of this program, and nothing else.
 */
#ifndef CCNIC_H
#define CCNIC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The most buffers in one packet. A receive array with so many places always makes progress. */
#define CCNIC_CHAIN_MAX 8
/** Bytes of a large buffer: a longer packet is a chain. */
#define CCNIC_LARGE 4096
/** Bytes of a small buffer. */
#define CCNIC_SMALL 128
/** Buffers that ccnic_buf_alloc() needs for a packet of `len` bytes. */
#define CCNIC_SEGMENTS(len) ((len) > CCNIC_LARGE ? ((len) + CCNIC_LARGE - 1) / CCNIC_LARGE : 1)

/** An attachment to a NIC, with a region of memory of its own. */
struct ccnic;
/** A queue pair: one transmit and one receive ring. Belongs to one thread. */
struct ccnic_queue;
/** Buffers without a queue. Belongs to one thread at a time. */
struct ccnic_pool;

/** The ring designs; see ARCHITECTURE.md. Both sides understand all of them. */
enum ccnic_design {
	CCNIC_DESIGN_CCNIC = 0,  /**< grouped descriptors, epoch signals: the default, the fastest */
	CCNIC_DESIGN_PAPER = 1,  /**< grouped descriptors, cleared signals: the CC-NIC paper's */
	CCNIC_DESIGN_PACKED = 2, /**< a signal per packed descriptor */
	CCNIC_DESIGN_PADDED = 3, /**< a descriptor per line */
	CCNIC_DESIGN_E810 = 4    /**< doorbells and host-managed buffers, as an Intel E810 has them */
};

/** What the region is made of. */
enum ccnic_pages {
	CCNIC_PAGES_AUTO = 0, /**< 2 MiB pages where there are any, ordinary ones otherwise */
	CCNIC_PAGES_SMALL = 1,
	CCNIC_PAGES_HUGE = 2 /**< 2 MiB pages, or ccnic_open() fails */
};

#define CCNIC_NO_RECYCLE 1u     /**< no private stacks of freed buffers */
#define CCNIC_NO_SMALL 2u       /**< no small buffers */
#define CCNIC_SEQUENTIAL 4u     /**< buffers in address order */
#define CCNIC_HOST_MANAGED 8u   /**< the program's side posts and frees every buffer */
#define CCNIC_DEMOTE_ALWAYS 16u /**< writers always demote what they wrote (CLDEMOTE) */
#define CCNIC_DEMOTE_NEVER 32u  /**< writers never do; default: when the other side waits */

/**
 * What can be chosen at ccnic_open(). Fill it with ccnic_options_init(), then change what you want. Zero means the default.
 * Later versions append fields; `size` tells the library which ones the program knows.
 */
struct ccnic_options {
	size_t size;      /**< sizeof(struct ccnic_options) */
	const char *name; /**< in `ccnic status`, at most 255 bytes; copied. Default: the executable's name */
	uint32_t design;  /**< enum ccnic_design */
	uint32_t flags;   /**< CCNIC_NO_RECYCLE and so on */
	uint32_t queues;  /**< queue pairs, 1 to 256. Default 1 */
	uint32_t ring;    /**< descriptors per ring, a power of two, 64 to 32768. Default 1024 */
	uint32_t buffers; /**< large buffers, 16 to 262144, 4 KiB of memory each. Default 1024 */
	uint32_t mtu;     /**< largest packet in bytes, 64 to 9600. Default 9600 */
	uint32_t pages;   /**< enum ccnic_pages */
	uint8_t mac[6];   /**< address for ccnic_mac(). Default: random, locally administered */
	uint8_t reserved[2];
};

/**
 * A buffer, and the part of a packet in it: a plain value, to be copied and moved in arrays. Whoever has it has the buffer.
 * Use the functions below; only `meta` is for the program to read and write directly: 64 bits that go with the packet (those
 * of its first buffer count), unless the program asks for hashes in it (@ref CCNIC_RSS_META).
 */
struct ccnic_buf {
	uint32_t offset; /**< of the first byte, from the region's start */
	uint16_t len;    /**< bytes of data */
	uint8_t flags;
	uint8_t reserved;
	uint64_t meta;
};

/** Counters of a queue since it was first opened. Later versions append fields. */
struct ccnic_stats {
	uint64_t tx_packets;        /**< packets handed to the NIC */
	uint64_t tx_bytes;          /**< their bytes */
	uint64_t rx_packets;        /**< packets received */
	uint64_t rx_bytes;          /**< their bytes */
	uint64_t tx_ring_full;      /**< buffers that ccnic_tx_burst() left because the ring was full */
	uint64_t alloc_failed;      /**< buffers that ccnic_buf_alloc() did not get because the pool was dry */
	uint64_t tx_bad_buffer;     /**< times that ccnic_tx_burst() returned -EFAULT */
	uint64_t tx_bad_packet;     /**< times that ccnic_tx_burst() returned -EMSGSIZE or -EINVAL for a packet */
	uint64_t free_bad_buffer;   /**< handles given to ccnic_buf_free() that name no buffer */
	uint64_t rx_bad_descriptor; /**< received and dropped: names no buffer; the NIC is broken */
	uint64_t rx_bad_chain;      /**< received and dropped: more than CCNIC_CHAIN_MAX buffers; the NIC is broken */
	uint64_t rx_missed;         /**< dropped by the NIC, with RSS: the ring was full or the pool dry; since ccnic_open() */
};

/** Sets all options to their defaults. Any thread. */
static inline void ccnic_options_init(struct ccnic_options *options)
{
	memset(options, 0, sizeof(*options));
	options->size = sizeof(*options);
}

/* ---- the NIC -------------------------------------------------------------------------------------------------------- */

/**
 * Makes a region and attaches it to the NIC that listens at `socket`.
 *
 * @param socket  path of ccnicd's socket
 * @param options what to choose, or NULL for the defaults; not kept
 * @param nic     receives the attachment; untouched on failure. Give it to ccnic_close()
 * @return 0; -ENOENT or -ECONNREFUSED: no NIC there; -EACCES: its socket is not for this user; -EINVAL: NULL, or an option out
 *         of its range; -E2BIG: the region is too large, or an option is unknown to this library; -EPERM: the NIC refused;
 *         -EPROTO: another release; -ENOMEM and others from the kernel
 *
 * Any thread. Blocks until the NIC has answered.
 */
int ccnic_open(const char *socket, const struct ccnic_options *options, struct ccnic **nic);

/**
 * Ends an attachment. What was sent is still delivered; buffers that the program holds are gone, as are its queues.
 *
 * @return 0; -EBUSY: a queue or a pool is open; -EINVAL: NULL
 *
 * Any thread, while no other one uses `nic`.
 */
int ccnic_close(struct ccnic *nic);

/**
 * Attaches to the NIC that now listens at the same socket, after the old one has gone (ccnic_wait() said -ENOTCONN, or
 * ccnic_link_state() 0). Queues and buffers stay valid. Packets in the rings arrive, once; those that a killed NIC had in its
 * hands, at most 64 buffers, are lost, and its buffers come back.
 *
 * @return the number of buffers that came back; -EISCONN: the NIC lives; otherwise as ccnic_open(): try again later
 *
 * Any thread, while no other one uses `nic` or any of its queues and pools.
 */
int ccnic_reconnect(struct ccnic *nic);

/** @return 1 while the NIC lives, 0 when it has gone, -EINVAL for NULL. Any thread. A system call: not for every burst. */
int ccnic_link_state(const struct ccnic *nic);

/** @return the largest packet in bytes, as chosen at ccnic_open(); -EINVAL for NULL. Any thread. */
int ccnic_mtu(const struct ccnic *nic);

/** @return the number of queue pairs; -EINVAL for NULL. Any thread. */
int ccnic_queues(const struct ccnic *nic);

/**
 * The address that the program goes by: the one in its options, or a random, locally administered one that stays the same
 * until ccnic_close(). The loopback NIC does not look at addresses.
 *
 * @param mac receives 6 bytes
 * @return 0; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_mac(const struct ccnic *nic, uint8_t mac[6]);

/* ---- receive-side scaling ------------------------------------------------------------------------------------------- */

/** Bytes of a key. */
#define CCNIC_RSS_KEY 40
/** Entries of a table, which the hash's low 7 bits choose among. */
#define CCNIC_RSS_TABLE 128

/* What is hashed: addresses and ports, or, of packets of no type below that is chosen and of fragments, addresses alone. */
#define CCNIC_RSS_IPV4 1u
#define CCNIC_RSS_IPV4_TCP 2u
#define CCNIC_RSS_IPV4_UDP 4u
#define CCNIC_RSS_IPV4_SCTP 8u
#define CCNIC_RSS_IPV6 16u
#define CCNIC_RSS_IPV6_TCP 32u
#define CCNIC_RSS_IPV6_UDP 64u
#define CCNIC_RSS_IPV6_SCTP 128u
#define CCNIC_RSS_ALL 255u

/**
 * Flag: `meta` of received packets is their hash in the low 32 bits and @ref CCNIC_META_HASHED, or 0 when they have none. What the
 * sender put there is lost.
 */
#define CCNIC_RSS_META 1u
/** In `meta` of a received packet: its low 32 bits are the hash. */
#define CCNIC_META_HASHED (UINT64_C(1) << 32)

/**
 * How the NIC spreads received packets over queues: by Toeplitz's hash of addresses and ports, as NDIS defines it, and a table. What
 * is not hashed goes to the queue in table[0]. Up to two VLAN tags are passed over. Fill it with ccnic_rss_init(), then change what
 * you want. Later versions append fields.
 */
struct ccnic_rss {
	size_t size;                     /**< sizeof(struct ccnic_rss) */
	uint32_t types;                  /**< CCNIC_RSS_IPV4 and so on */
	uint32_t flags;                  /**< CCNIC_RSS_META, or 0 */
	uint8_t key[CCNIC_RSS_KEY];      /**< of the hash */
	uint16_t table[CCNIC_RSS_TABLE]; /**< queue numbers */
};

/** Sets all types, the key of Microsoft's verification suite, and a table of queues 0 to `queues` - 1 in turn. Any thread. */
static inline void ccnic_rss_init(struct ccnic_rss *rss, uint16_t queues)
{
	static const uint8_t key[CCNIC_RSS_KEY] = {
		0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
		0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
	};

	memset(rss, 0, sizeof(*rss));
	rss->size = sizeof(*rss);
	rss->types = CCNIC_RSS_ALL;
	memcpy(rss->key, key, sizeof(key));
	for (uint16_t i = 0; i < CCNIC_RSS_TABLE; i++)
		rss->table[i] = (uint16_t)(queues > 0 ? i % queues : 0);
}

/**
 * Has the NIC spread received packets over the queues of `nic` from now on, and every NIC that ccnic_reconnect() attaches to. Without
 * it, and with NULL, each packet comes back on the queue pair that it was sent on. May be called again at any time, while packets
 * flow: those under way may still come by the old table.
 *
 * With RSS no queue waits for another: what finds a queue's ring full, or the pool dry, is dropped and counted (rx_missed).
 *
 * @param rss how, or NULL; not kept
 * @return 0; -EINVAL: NULL for `nic`, or a field that cannot be, such as a queue that is not there; -E2BIG: a field is unknown to this
 *         library; -ENOTCONN: the NIC has gone, -EOPNOTSUPP: it can do no RSS, and in both cases `rss` is kept for its successor;
 *         -EPERM: the NIC refused. After all other errors it goes on as before
 *
 * Any thread. Blocks until the NIC has answered.
 */
int ccnic_rss_set(struct ccnic *nic, const struct ccnic_rss *rss);

/**
 * Tells whether the NIC spreads packets now; after ccnic_reconnect() to one that can do no RSS it does not.
 *
 * @return 1 or 0; -EINVAL for NULL. Any thread.
 */
int ccnic_rss_active(const struct ccnic *nic);

/* ---- queues --------------------------------------------------------------------------------------------------------- */

/**
 * Opens queue pair `index`, 0 to ccnic_queues() - 1, for the calling thread.
 *
 * @param queue receives the queue, which `nic` owns; untouched on failure. Give it to ccnic_queue_close()
 * @return 0; -EBUSY: it is open already; -EINVAL: NULL, or no such queue
 *
 * Any thread.
 */
int ccnic_queue_open(struct ccnic *nic, uint16_t index, struct ccnic_queue **queue);

/**
 * Closes a queue: packets that ccnic_wait() announced are dropped; the free buffers it kept at hand go back to the pool. Nobody is
 * woken for it any more.
 * Packets in its rings stay and can be received after it is opened again. Buffers in the program's hands stay valid.
 *
 * @return 0; -EBADF: it is closed already; -EINVAL: NULL
 *
 * The queue's thread.
 */
int ccnic_queue_close(struct ccnic_queue *queue);

/**
 * Copies the counters of a queue.
 *
 * @param size sizeof(struct ccnic_stats)
 * @return 0; -EBADF: the queue is closed; -EINVAL: NULL
 *
 * The queue's thread.
 */
int ccnic_queue_stats(const struct ccnic_queue *queue, struct ccnic_stats *stats, size_t size);

/**
 * Counts the buffers that can be received now, by walking them: not for every burst.
 *
 * @return their number; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_ready(const struct ccnic_queue *queue);

/**
 * Counts the buffers sent that the NIC has not taken yet, by walking them: not for every burst.
 *
 * @return their number; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_tx_waiting(const struct ccnic_queue *queue);

/* ---- bursts --------------------------------------------------------------------------------------------------------- */

/**
 * Allocates buffers for packets of `len` bytes each, as many whole packets as `n` places hold: n / CCNIC_SEGMENTS(len).
 * Lengths and chains are set; contents are not. The buffers' lines are fetched for writing. How far into a large buffer the data
 * begin differs from buffer to buffer, which spreads them over the sets of a cache; ccnic_buf_capacity() says what fits beyond `len`.
 *
 * @param len  bytes of each packet, at most ccnic_mtu()
 * @param bufs receives the buffers, the program's own from now on
 * @return buffers allocated, fewer than asked for (also 0) when the pool is dry; -EMSGSIZE: `len` is above the MTU; -EINVAL:
 *         NULL, or too few places for one packet; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_buf_alloc(struct ccnic_queue *queue, uint16_t len, struct ccnic_buf *bufs, uint16_t n);

/**
 * Returns buffers to the pool. A chain's buffers are freed one by one: give all of them.
 *
 * @return 0; -EFAULT: some handles name no buffer of this NIC and were skipped, the others are free; -EINVAL: NULL; -EBADF: the
 *         queue is closed
 *
 * The queue's thread.
 */
int ccnic_buf_free(struct ccnic_queue *queue, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Sends packets, in order, as many whole ones as the ring has room for. Buffers sent are the NIC's; the others, from
 * bufs[result] on, stay the program's: send them again later, or free them.
 *
 * A packet that can never be sent ends the burst before it; when it is the first, that is the error. While the NIC is gone,
 * packets are taken until the ring is full.
 *
 * @return buffers sent; -EFAULT: a handle of the first packet names no buffer of this NIC; -EMSGSIZE: the first packet is
 *         longer than the MTU or has more than CCNIC_CHAIN_MAX buffers; -EINVAL: NULL, or the first packet has no end within
 *         `n`; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_tx_burst(struct ccnic_queue *queue, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Receives packets, as many whole ones as there are and as fit in `n` places; does not wait. A packet with more buffers than
 * `n` waits: CCNIC_CHAIN_MAX places always suffice.
 *
 * @param bufs receives the buffers, the program's own from now on
 * @return buffers received, 0 when there are none; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_burst(struct ccnic_queue *queue, struct ccnic_buf *bufs, uint16_t n);

/**
 * Sends copies of packets of at most @ref CCNIC_SMALL bytes that lie in the program's own memory, in order, as many as there are
 * buffers and places in the ring for. For programs that keep packets elsewhere this is faster than ccnic_buf_alloc(), memcpy() and
 * ccnic_tx_burst(). Their `meta` is 0. A packet that can never be sent ends the burst before it; when it is the first, that is the
 * error.
 *
 * @param data where each packet lies, none of them NULL; the program's own again when this returns
 * @param len  bytes of each, at most ccnic_mtu()
 * @return packets sent, 0 when the ring is full; -ENOBUFS: the pool is dry; -EMSGSIZE: the first packet is longer; -EINVAL: it has
 *         no bytes, or NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_tx_small(struct ccnic_queue *queue, const void *const *data, const uint16_t *len, uint16_t n);

/**
 * Receives packets of at most @ref CCNIC_SMALL bytes into the program's own memory, in order, as many as there are up to one that is
 * longer or a chain; does not wait.
 *
 * @param room where to copy each packet, CCNIC_SMALL bytes, none of them NULL
 * @param len  receives the bytes of each
 * @param meta receives the metadata of each, or NULL
 * @return packets received, 0 when there are none; -EMSGSIZE: the first that waits is no such packet: ccnic_rx_burst() receives it;
 *         -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_small(struct ccnic_queue *queue, void *const *room, uint16_t *len, uint64_t *meta, uint16_t n);

/**
 * Waits until packets can be received: polls for some ten microseconds, then sleeps until the NIC wakes this thread. (Naps of up
 * to 1 ms instead, as long as the NIC has not said that it does: it, or this program, may have no descriptor left.)
 *
 * @param timeout_ns nanoseconds to wait at most; 0 only looks, a negative number waits for ever
 * @return buffers ready (greater than 0) for ccnic_rx_burst(); 0: none came in time; -ENOTCONN: the NIC has gone and nothing is
 *         left to receive; -EINTR: a signal came; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_wait(struct ccnic_queue *queue, int64_t timeout_ns);

/**
 * Gives the descriptor to sleep on, for programs that wait for several things at once (poll(), epoll, an event loop): it can be read
 * when the NIC wakes this thread. Before each sleep call ccnic_rx_arm(); what is read from the descriptor means nothing, and need not
 * be read. The first byte comes once the NIC has taken its end; a program that never gets one cannot rely on being woken.
 *
 * The descriptor stays the same until ccnic_close(), also with the NIC's successor. That the NIC has gone does not show in it:
 * ccnic_link_state() says so.
 *
 * @return the descriptor, which the queue owns: do not close it; -EMFILE: too many open files; -EINVAL: NULL; -EBADF: the queue is
 *         closed
 *
 * The queue's thread; any may sleep on the descriptor.
 */
int ccnic_rx_fd(struct ccnic_queue *queue);

/**
 * Asks the NIC to make ccnic_rx_fd() readable when there is something to receive; empties it first. To be called before each sleep: a
 * wake-up is good for one. The NIC may wake this thread for nothing.
 *
 * @return 0: sleep; buffers that can be received already (greater than 0), then nothing has been asked; -EMFILE: too many open files;
 *         -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_arm(struct ccnic_queue *queue);

/**
 * Takes back what ccnic_rx_arm() asked for: this thread is awake. Not necessary, but it spares the NIC from waking a thread that polls.
 *
 * @return 0; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_disarm(struct ccnic_queue *queue);

/**
 * Makes ccnic_rx_fd() readable, as the NIC does. (ccnic_wait() goes on waiting.)
 *
 * @return 0; -EMFILE: too many open files; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_wake(struct ccnic_queue *queue);

/* ---- a buffer in the program's hands -------------------------------------------------------------------------------- */

/**
 * Where a NIC's buffers lie: `span` bytes from `base + first` on. A buffer's data is at `base + offset`; large buffers begin at
 * multiples of @ref CCNIC_LARGE. The inline functions find it at the start of a queue; ccnic_memory() tells others.
 */
struct ccnic_view {
	uint8_t *base;
	uint32_t first;
	uint32_t span;
};

/**
 * The data of a buffer: ccnic_buf_len() bytes to read, ccnic_buf_capacity() bytes to write. Valid until the buffer is freed or
 * sent. On a 64-byte line unless the program moved it.
 *
 * @return NULL when the handle names no buffer of this queue's NIC. The queue's thread.
 */
static inline void *ccnic_buf_data(const struct ccnic_queue *queue, const struct ccnic_buf *buf)
{
	const struct ccnic_view *view = (const struct ccnic_view *)(const void *)queue;
	return buf->offset - view->first < view->span ? view->base + buf->offset : NULL;
}

/** @return bytes of data in this buffer. Any thread that holds the buffer, here and below. */
static inline uint16_t ccnic_buf_len(const struct ccnic_buf *buf)
{
	return buf->len;
}

/** @return bytes from the first byte of data to the end of the buffer. */
static inline uint16_t ccnic_buf_capacity(const struct ccnic_buf *buf)
{
	const uint32_t size = buf->flags & 2u ? CCNIC_SMALL : CCNIC_LARGE;
	return (uint16_t)(size - (buf->offset & (size - 1)));
}

/** Sets the bytes of data. @return 0; -EMSGSIZE: more than ccnic_buf_capacity(), nothing is set. */
static inline int ccnic_buf_set_len(struct ccnic_buf *buf, uint16_t len)
{
	if (len > ccnic_buf_capacity(buf))
		return -EMSGSIZE;
	buf->len = len;
	return 0;
}

/** @return true when the packet goes on in the next buffer of the array. */
static inline bool ccnic_buf_more(const struct ccnic_buf *buf)
{
	return buf->flags & 1u;
}

/** Says whether the packet goes on in the next buffer of the array. */
static inline void ccnic_buf_set_more(struct ccnic_buf *buf, bool more)
{
	buf->flags = (uint8_t)((buf->flags & ~1u) | (more ? 1u : 0u));
}

/* ---- buffers without a queue ---------------------------------------------------------------------------------------- */

/**
 * Opens a handle on the buffers of a NIC, for threads that allocate or free them and have no queue. It keeps some free buffers
 * at hand, as a queue does.
 *
 * @param pool receives the handle, which `nic` owns; untouched on failure. Give it to ccnic_pool_close()
 * @return 0; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_pool_open(struct ccnic *nic, struct ccnic_pool **pool);

/**
 * Closes a handle: the free buffers it kept at hand go back. Buffers in the program's hands stay valid.
 *
 * @return 0; -EBADF: it is closed already; -EINVAL: NULL
 *
 * The pool's thread.
 */
int ccnic_pool_close(struct ccnic_pool *pool);

/**
 * Allocates large buffers, without data and at their first byte.
 *
 * @param bufs receives the buffers, the program's own from now on
 * @return buffers allocated, fewer than `n` (also 0) when the pool is dry; -EINVAL: NULL; -EBADF: the handle is closed
 *
 * The pool's thread.
 */
int ccnic_pool_alloc(struct ccnic_pool *pool, struct ccnic_buf *bufs, uint16_t n);

/**
 * Returns buffers to the pool, wherever they came from: ccnic_pool_alloc(), ccnic_buf_alloc() or ccnic_rx_burst().
 *
 * @return 0; -EFAULT: some handles name no buffer of this NIC and were skipped, the others are free; -EINVAL: NULL; -EBADF: the
 *         handle is closed
 *
 * The pool's thread.
 */
int ccnic_pool_free(struct ccnic_pool *pool, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Says where the buffers lie, for programs that keep them by address.
 *
 * @return 0; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_memory(const struct ccnic *nic, struct ccnic_view *view);

/* ---- the rest ------------------------------------------------------------------------------------------------------- */

/** @return what went wrong in the last call of this thread that failed, and what to do about it; valid until the next. */
const char *ccnic_last_error(void);

/** @return the version of the library, such as "0.1.0". Any thread. */
const char *ccnic_version(void);

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_H */
