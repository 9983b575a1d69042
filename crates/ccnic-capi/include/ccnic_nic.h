/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ccnic_nic.h
 * libccnic, the other side: a NIC in C. Programs that use ccnic.h attach to it as they do to ccnicd.
 *
 *     ccnic_nic_listen -> ccnic_nic_poll -> ccnic_nic_accept -> ccnic_nic_queue_open      (control)
 *     ccnic_nic_rx_burst -> read the data -> ccnic_nic_buf_free                           (packets that a program sent)
 *     ccnic_nic_tx_copy, or ccnic_nic_buf_alloc -> write -> ccnic_nic_tx_burst            (packets to a program)
 *
 * Receive and transmit are the NIC's here: what it receives, the program has sent. Which of the program's queues a packet goes to is the
 * NIC's choice alone: ccnic_rss_set() of its programs is -EOPNOTSUPP.
 *
 * @par Trust
 * A program may be broken or hostile. What comes out of ccnic_nic_rx_burst() is checked: every buffer lies inside the program's
 * pool, every chain has an end and at most @ref CCNIC_CHAIN_MAX buffers, every packet has data and is within the program's MTU. All
 * else is dropped and counted. A program can still write into a packet while the NIC reads it: decide nothing on bytes that you
 * will read again, copy them first. Work in every call is bounded by `n`; no call waits for a program's memory.
 *
 * @par Errors
 * As in ccnic.h: a count or 0, or a negative errno value; ccnic_last_error() says more.
 *
 * @par Threads
 * A queue belongs to one thread at a time: the functions that take a struct ccnic_nic_queue may be called by that thread only.
 * Functions that take a struct ccnic_nic or a struct ccnic_program may be called by any thread at any time, apart from
 * ccnic_nic_close() and ccnic_program_release(); one thread at a time may be in ccnic_nic_poll(). Nothing survives fork() in the
 * child.
 *
 * @par Programs that sleep
 * A program that sleeps is woken by a burst of this side on its queue: the one that hands it packets, or the next (both sides work
 * without fences). So call ccnic_nic_rx_burst() for each open queue again and again, also when you only send. What a program can
 * cost by being woken is limited to about an eighth of the time of the threads that serve it.
 *
 * @par Buffers
 * A struct ccnic_buf of ccnic.h is a buffer of one program; it means nothing to the queues of another. What receive and alloc
 * return is the NIC's until it is freed or handed to the program. Should the NIC die, the program takes back whatever it held.
 */
#ifndef CCNIC_NIC_H
#define CCNIC_NIC_H

#include <ccnic.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A NIC: a socket, and the programs that have come to it. */
struct ccnic_nic;
/** A program that has attached, with its region of memory. */
struct ccnic_program;
/** The NIC's side of a queue pair. Belongs to one thread. */
struct ccnic_nic_queue;

/** ccnic_nic_listen() leaves SIGBUS alone. */
#define CCNIC_NIC_KEEP_SIGBUS 1u

/**
 * What can be chosen at ccnic_nic_listen(). Fill it with ccnic_nic_options_init(), then change what you want. Zero means the
 * default. Later versions append fields.
 */
struct ccnic_nic_options {
	size_t size;	     /**< sizeof(struct ccnic_nic_options) */
	const char *name;    /**< the wire in `ccnic status`, at most 255 bytes; copied. Default: the executable's name */
	uint32_t flags;	     /**< CCNIC_NIC_KEEP_SIGBUS */
	uint32_t node;	     /**< NUMA node of the cores that will poll: programs home the NIC's lines there. Default 0 */
	uint32_t region_max; /**< the largest region that a program may bring, in MiB, up to 4095. Default 1280 */
	uint32_t memory_max; /**< what all regions together may take, in MiB. Default: half of the machine's memory */
};

/** What a program said of itself when it attached, checked; it does not change. Later versions append fields. */
struct ccnic_program_info {
	char name[256];	   /**< its name, a string; not unique */
	int32_t pid;	   /**< its process */
	uint32_t design;   /**< enum ccnic_design */
	uint32_t queues;   /**< queue pairs */
	uint32_t ring;	   /**< descriptors per ring */
	uint32_t buffers;  /**< large buffers in its pool */
	uint32_t mtu;	   /**< largest packet in bytes, both ways */
	uint32_t flags;	   /**< CCNIC_HOST_MANAGED: the program posts and frees every buffer; or 0 */
	uint8_t mac[6];	   /**< the address it goes by; all zero when it did not say. Its word: not checked, not unique */
	uint8_t reserved[2];
};

/** Bytes of a packet in the NIC's own memory, for ccnic_nic_tx_copy(). */
struct ccnic_segment {
	const void *data; /**< the first byte; may be NULL when `len` is 0 */
	uint64_t meta;	  /**< 64 bits that go with the packet; those of its first segment count */
	uint32_t len;	  /**< bytes */
	uint32_t flags;	  /**< CCNIC_SEGMENT_MORE: the packet goes on in the next segment; or 0 */
};

/** The packet goes on in the next segment. */
#define CCNIC_SEGMENT_MORE 1u
/** The most segments of one packet in the NIC's own memory. */
#define CCNIC_SEGMENTS_MAX 64

/** Counters of the NIC's side of a queue since it was first opened. Later versions append fields. */
struct ccnic_nic_stats {
	uint64_t rx_packets;	    /**< packets that the program sent, those dropped among them */
	uint64_t rx_bytes;	    /**< their bytes */
	uint64_t tx_packets;	    /**< packets handed to the program */
	uint64_t tx_bytes;	    /**< their bytes */
	uint64_t rx_bad_descriptor; /**< dropped: a descriptor names no bytes of the program's buffers, or none */
	uint64_t rx_bad_chain;	    /**< dropped: descriptors of chains with more than CCNIC_CHAIN_MAX buffers */
	uint64_t rx_too_long;	    /**< dropped: longer than the program's MTU */
	uint64_t rx_dropped_close;  /**< dropped: fetched, and not handed out when the queue was closed */
	uint64_t tx_ring_full;	    /**< times that a packet did not go since the program's ring was full */
	uint64_t tx_no_buffer;	    /**< times that a packet did not go since the program's pool was dry */
	uint64_t tx_bad_buffer;	    /**< times that ccnic_nic_tx_burst() returned -EFAULT */
	uint64_t tx_bad_packet;	    /**< times that a transmit burst returned -EMSGSIZE or -EINVAL for a packet */
	uint64_t free_bad_buffer;   /**< handles given to ccnic_nic_buf_free() that name no buffer */
	uint64_t alloc_failed;	    /**< buffers that ccnic_nic_buf_alloc() did not get because the pool was dry */
};

/** Sets all options to their defaults. Any thread. */
static inline void ccnic_nic_options_init(struct ccnic_nic_options *options)
{
	memset(options, 0, sizeof(*options));
	options->size = sizeof(*options);
}

/* ---- control -------------------------------------------------------------------------------------------------------- */

/**
 * Listens for programs at `socket`. A stale socket file is replaced.
 *
 * A program may take memory out of its region while the NIC uses it, and on huge pages the next access then ends in SIGBUS. Unless
 * told otherwise this call therefore takes over that signal for the whole process: pages of regions come back zeroed, and any other
 * SIGBUS ends the process as before.
 *
 * @param options what to choose, or NULL for the defaults; not kept
 * @param nic     receives the NIC; untouched on failure. Give it to ccnic_nic_close()
 * @return 0; -EADDRINUSE: a NIC listens there; -EEXIST: the file is no socket; -EINVAL: NULL, or an option out of its range;
 *         -E2BIG: an option is unknown to this library; -ENOENT, -EACCES and others from the kernel
 *
 * Any thread.
 */
int ccnic_nic_listen(const char *socket, const struct ccnic_nic_options *options, struct ccnic_nic **nic);

/**
 * Stops listening and removes the socket file. Programs that have come and were not accepted see the NIC go.
 *
 * @return 0; -EBUSY: a program is accepted and not released; -EINVAL: NULL
 *
 * Any thread, while no other one uses `nic`.
 */
int ccnic_nic_close(struct ccnic_nic *nic);

/**
 * Deals with what programs ask: lets them attach, answers `ccnic status`, notices that they have gone. Programs wait for that, so
 * call it often: ten times a second is plenty.
 *
 * @param timeout_ns nanoseconds to wait for somebody to ask; 0 only looks, a negative number waits for ever
 * @return programs that wait for ccnic_nic_accept(); -EBUSY: another thread is in here; -EINVAL: NULL
 *
 * Any thread, one at a time; not a polling core's, for it makes system calls. With a timeout of 0 it does not block.
 */
int ccnic_nic_poll(struct ccnic_nic *nic, int64_t timeout_ns);

/**
 * Takes over the next program that has attached. Its packets wait in its rings from the moment it attached.
 *
 * @param program receives the program; untouched on failure. Give it to ccnic_program_release()
 * @return 0; -EAGAIN: none waits; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_nic_accept(struct ccnic_nic *nic, struct ccnic_program **program);

/**
 * Copies what is known of a program.
 *
 * @param size sizeof(struct ccnic_program_info)
 * @return 0; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_program_info(const struct ccnic_program *program, struct ccnic_program_info *info, size_t size);

/**
 * @return 1 while the program lives; 0 when it has gone, as ccnic_nic_poll() has noticed: receive what it had still sent, close its
 *         queues, release it; -EINVAL for NULL. Any thread. No system call.
 */
int ccnic_program_link_state(const struct ccnic_program *program);

/**
 * Lets a program go: its region is unmapped, and pointers into it end. One that lives sees the NIC go, takes back what the NIC
 * held, and may attach again.
 *
 * @return 0; -EBUSY: one of its queues is open; -EINVAL: NULL
 *
 * Any thread, while no other one uses `program` or its queues.
 */
int ccnic_program_release(struct ccnic_program *program);

/**
 * Opens the NIC's side of queue pair `index`, 0 to info.queues - 1, for the calling thread.
 *
 * @param queue receives the queue, which `program` owns; untouched on failure. Give it to ccnic_nic_queue_close()
 * @return 0; -EBUSY: it is open already; -EINVAL: NULL, or no such queue
 *
 * Any thread.
 */
int ccnic_nic_queue_open(struct ccnic_program *program, uint16_t index, struct ccnic_nic_queue **queue);

/**
 * Closes a queue: the free buffers that it kept at hand go back to the program's pool. Packets that it had fetched and not handed out
 * are dropped (call ccnic_nic_rx_burst() until it returns 0 before); those still in the rings stay. Free or send the buffers in
 * your hands before.
 *
 * @return 0; -EBADF: it is closed already; -EINVAL: NULL
 *
 * The queue's thread.
 */
int ccnic_nic_queue_close(struct ccnic_nic_queue *queue);

/**
 * Copies the counters of a queue.
 *
 * @param size sizeof(struct ccnic_nic_stats)
 * @return 0; -EBADF: the queue is closed; -EINVAL: NULL
 *
 * The queue's thread.
 */
int ccnic_nic_queue_stats(const struct ccnic_nic_queue *queue, struct ccnic_nic_stats *stats, size_t size);

/* ---- bursts --------------------------------------------------------------------------------------------------------- */

/**
 * Receives packets that the program has sent, as many whole ones as there are and as fit in `n` places; does not wait.
 * @ref CCNIC_CHAIN_MAX places always suffice for one. Their lines are fetched, with ownership where buffers are recycled.
 *
 * @param bufs receives the buffers, the NIC's own from now on: free them, or hand them back with ccnic_nic_tx_burst()
 * @return buffers received, 0 when there are none; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_rx_burst(struct ccnic_nic_queue *queue, struct ccnic_buf *bufs, uint16_t n);

/**
 * Frees buffers of this program, received or allocated. A chain's buffers are freed one by one: give all of them. With
 * CCNIC_HOST_MANAGED the program may use them again once all that was received has been freed.
 *
 * @return 0; -EFAULT: some handles name no buffer of this program and were skipped, the others are free; -EINVAL: NULL; -EBADF:
 *         the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_buf_free(struct ccnic_nic_queue *queue, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Allocates buffers from the program's pool for packets of `len` bytes each, as many whole packets as `n` places hold:
 * n / CCNIC_SEGMENTS(len). Lengths and chains are set; contents are not.
 *
 * @param len  bytes of each packet, at most the program's MTU
 * @param bufs receives the buffers, the NIC's own from now on
 * @return buffers allocated, fewer than asked for (also 0) when the pool is dry; -EMSGSIZE: `len` is above the MTU; -EOPNOTSUPP:
 *         the program manages its buffers itself (CCNIC_HOST_MANAGED); -EINVAL: NULL, or too few places for one packet; -EBADF:
 *         the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_buf_alloc(struct ccnic_nic_queue *queue, uint16_t len, struct ccnic_buf *bufs, uint16_t n);

/**
 * Hands packets to the program in its own buffers, received or allocated from the same program, without a copy: in order, as many
 * whole ones as its ring has room for. Buffers handed over are the program's; the others, from bufs[result] on, stay the NIC's.
 *
 * A packet that can never go ends the burst before it; when it is the first, that is the error.
 *
 * @return buffers handed over; -EFAULT: a handle of the first packet names no bytes of this program's buffers; -EMSGSIZE: the first
 *         packet is longer than the MTU or has more than CCNIC_CHAIN_MAX buffers; -EOPNOTSUPP: the program manages its buffers
 *         itself; -EINVAL: NULL, or the first packet has no end within `n`; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_tx_burst(struct ccnic_nic_queue *queue, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Copies packets from the NIC's own memory (or from another program's buffers) to the program, in order, as many whole ones as its
 * ring and its pool have room for. The segments may be used again when the call returns. Works with every program.
 *
 * @return segments of the packets that went; -EMSGSIZE: the first packet is longer than the MTU or has more than
 *         CCNIC_SEGMENTS_MAX segments; -EINVAL: NULL, or the first packet has no bytes or no end within `n`; -EBADF: the queue is
 *         closed
 *
 * The queue's thread.
 */
int ccnic_nic_tx_copy(struct ccnic_nic_queue *queue, const struct ccnic_segment *segments, uint16_t n);

/**
 * The data of a buffer: ccnic_buf_len() bytes to read, ccnic_buf_capacity() bytes to write. Valid until the buffer is freed or handed
 * over.
 *
 * @return NULL when the handle names no buffer of this queue's program. The queue's thread.
 */
static inline void *ccnic_nic_buf_data(const struct ccnic_nic_queue *queue, const struct ccnic_buf *buf)
{
	const struct ccnic_view *view = (const struct ccnic_view *)(const void *)queue;
	return buf->offset - view->first < view->span ? view->base + buf->offset : NULL;
}

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_NIC_H */
