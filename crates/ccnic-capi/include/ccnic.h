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
 * Programs that keep packets in memory of their own use ccnic_tx_small() and ccnic_rx_small(); programs that make packets write them
 * where the NIC reads them with ccnic_tx_reserve() and ccnic_tx_commit(). ccnic_buf.h has the functions that
 * read and change a buffer, ccnic_rss.h receive-side scaling,
 * ccnic_flow.h flow rules, ccnic_offload.h checksums, segmentation and VLAN tags. ccnic_call.h has calls to another program, without a
 * NIC.
 *
 * @par Errors
 * Functions return 0 or a count, or a negative errno value. Check for a negative value before you use a count.
 * ccnic_last_error() returns a text with the details. The library never ends the process: a defect in it is -ENOTRECOVERABLE.
 *
 * @par Units
 * Lengths are bytes. Counts are buffers: `n` is the number of entries of an array of struct ccnic_buf, and results are numbers of
 * entries. A packet is one buffer, or a chain of up to @ref CCNIC_CHAIN_MAX buffers in consecutive entries; all but the last have
 * ccnic_buf_more(). ccnic_tx_small(), ccnic_rx_small(), ccnic_tx_mixed(), ccnic_tx_reserve() and ccnic_tx_commit() count packets, each of which is one
 * buffer.
 *
 * @par Threads
 * A queue belongs to one thread at a time: only that thread may call functions that take a struct ccnic_queue. (Hand a queue to
 * another thread with the synchronisation that any object needs.) Any thread may call functions that take a struct ccnic at any
 * time, except for ccnic_close() and ccnic_reconnect(). After fork() the child must not use any of them.
 *
 * @par Buffers
 * The program owns the buffers that it has allocated or received until it sends or frees them. Buffers belong to the attachment,
 * not to a queue: any queue of the same NIC may send or free them. Using a buffer after it was sent or freed, or freeing it
 * twice, corrupts packets of this program, but no other memory.
 *
 * With the environment variable CCNIC_DEBUG=1, read by ccnic_open(), a call that frees or sends a buffer which the program does not
 * hold does nothing and returns -EINVAL; ccnic_last_error() says which buffer, and whether it was freed or sent before. The first of
 * an attachment is also told on standard error. Without it the library keeps no such record.
 *
 * @par Handles
 * A handle is void once it has been closed; a queue or pool, also when its NIC has been. Calls with a void handle return -EBADF. (Its memory
 * serves for another one when 64 of its kind have been closed after it: a program that uses it then uses that other one.)
 */
#ifndef CCNIC_H
#define CCNIC_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ccnic_buf.h>
#include <ccnic_call.h>
#include <ccnic_flow.h>
#include <ccnic_offload.h>
#include <ccnic_rss.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An attachment to a NIC, with a region of memory of its own. */
struct ccnic;
/** A queue pair: one transmit and one receive ring. Belongs to one thread at a time. */
struct ccnic_queue;
/** Allocates and frees buffers without a queue. Belongs to one thread at a time. */
struct ccnic_pool;

/** The most packets that ccnic_tx_reserve() reserves places for. */
#define CCNIC_RESERVE_MAX 64

/** Ring designs. Every NIC supports all of them. */
enum ccnic_design {
	CCNIC_DESIGN_CCNIC = 0,  /**< groups of descriptors with epoch signals: the default */
	CCNIC_DESIGN_PAPER = 1,  /**< groups of descriptors with cleared signals, as in the CC-NIC paper */
	CCNIC_DESIGN_PACKED = 2, /**< packed descriptors, each with its own signal */
	CCNIC_DESIGN_PADDED = 3, /**< one descriptor per cache line */
	CCNIC_DESIGN_E810 = 4    /**< tail registers and host-managed buffers, as an Intel E810 */
};

/** Pages of the region. */
enum ccnic_pages {
	CCNIC_PAGES_AUTO = 0, /**< 2 MiB pages if there are enough, else ordinary ones */
	CCNIC_PAGES_SMALL = 1, /**< ordinary pages */
	CCNIC_PAGES_HUGE = 2   /**< 2 MiB pages, or ccnic_open() fails */
};

/* Flags of struct ccnic_options: they switch features of the pool and the rings off, to measure what each is worth. */
#define CCNIC_NO_RECYCLE 1u     /**< no magazines: each buffer is freed to and allocated from the shared depot */
#define CCNIC_NO_SMALL 2u       /**< no small buffers */
#define CCNIC_SEQUENTIAL 4u     /**< buffers are allocated in address order */
#define CCNIC_HOST_MANAGED 8u   /**< the host posts receive buffers and frees sent ones, as with PCIe NICs */
#define CCNIC_DEMOTE_ALWAYS 16u /**< writers always demote the lines they wrote (CLDEMOTE) */
#define CCNIC_DEMOTE_NEVER 32u  /**< writers never demote; the default is to demote while the reader is idle */
/** ccnic_open() succeeds if no NIC listens yet, as if it had ended at once: call ccnic_reconnect() until it is there. */
#define CCNIC_LATER 64u

/**
 * Options of ccnic_open(). Set them up with ccnic_options_init(), then change fields. Zero means the default. Later versions append
 * fields; `size` tells the library which ones the program knows. How the machine is used (prefetching, demotion, pauses) is told by the
 * NIC, which has measured it; the environment variable CCNIC_TUNING changes it, see ccnicd(8).
 */
struct ccnic_options {
	size_t size;      /**< sizeof(struct ccnic_options) */
	const char *name; /**< shown by `ccnic status`, at most 255 bytes; copied. Default: the executable's name */
	uint32_t design;  /**< enum ccnic_design */
	uint32_t flags;   /**< CCNIC_NO_RECYCLE and so on */
	uint32_t queues;  /**< queue pairs, 1 to 256. Default 1 */
	uint32_t ring;    /**< descriptors per ring, a power of two, 64 to 32768. Default 1024 */
	uint32_t buffers; /**< large buffers, 16 to 262144, 4 KiB of memory each. Default 1024 */
	uint32_t mtu;     /**< longest packet in bytes, 64 to 9600. Default 9600 */
	uint32_t pages;   /**< enum ccnic_pages */
	uint8_t mac[6];   /**< Ethernet address. Default: random, locally administered */
	uint8_t reserved[2];
};

/** Counters of a queue since it was first opened. Later versions append fields. */
struct ccnic_stats {
	uint64_t tx_packets;        /**< packets sent */
	uint64_t tx_bytes;          /**< their bytes */
	uint64_t rx_packets;        /**< packets received */
	uint64_t rx_bytes;          /**< their bytes */
	uint64_t tx_ring_full;      /**< buffers that a transmit burst did not send because the ring was full */
	uint64_t alloc_failed;      /**< buffers that could not be allocated because the pool was empty */
	uint64_t tx_bad_buffer;     /**< transmit bursts that returned -EFAULT */
	uint64_t tx_bad_packet;     /**< sending calls that returned -EMSGSIZE or -EINVAL for a packet */
	uint64_t free_bad_buffer;   /**< handles passed to ccnic_buf_free() that name no buffer */
	uint64_t rx_bad_descriptor; /**< packets dropped by the library: a descriptor names no buffer; the NIC is defective */
	uint64_t rx_bad_chain;      /**< descriptors dropped by the library: packets of more than CCNIC_CHAIN_MAX; NIC defective */
	uint64_t rx_dropped;        /**< dropped by the NIC, with RSS only: ring full or pool empty; since ccnic_open() */
	uint64_t rx_too_long;       /**< packets dropped by the library: longer than the MTU; the NIC is defective */
	uint64_t rx_too_few_entries; /**< packets dropped by ccnic_rx_burst() with fewer entries than they have buffers */
	uint64_t rx_no_buffer;      /**< packets dropped by ccnic_rx_burst(): pool empty, buffers in the ring behind them */
};

/** Sets all options to their defaults. Any thread. */
static inline void ccnic_options_init(struct ccnic_options *options)
{
	memset(options, 0, sizeof(*options));
	options->size = sizeof(*options);
}

/* ---- the NIC -------------------------------------------------------------------------------------------------------- */

/**
 * Creates a region and attaches it to the NIC that listens at `socket`.
 *
 * @param socket  path of the NIC's socket; NULL: $CCNIC_SOCKET, else /run/ccnic.sock for root, else $XDG_RUNTIME_DIR/ccnic.sock
 * @param options the options, or NULL for the defaults; copied
 * @param nic     receives the attachment, to be closed with ccnic_close(); unchanged on failure
 * @return 0; -ENOENT or -ECONNREFUSED: no NIC listens there; -EACCES: this user may not connect; -EINVAL: an argument is NULL, or an
 *         option is out of range; -E2BIG: the region is too large, or an option is unknown to this library; -EPERM: the NIC
 *         refused; -EPROTO: the NIC is of another release; -ENOMEM and others from the kernel
 *
 * Any thread. Blocks until the NIC has answered.
 */
int ccnic_open(const char *socket, const struct ccnic_options *options, struct ccnic **nic);

/**
 * Ends an attachment and frees its queues and pools. Packets that were sent are still delivered. Buffers that the program still
 * owns become invalid.
 *
 * @return 0; -EBUSY: a queue or a pool is open; -EBADF: it is already closed; -EINVAL: NULL
 *
 * Any thread, while no other thread uses `nic`.
 */
int ccnic_close(struct ccnic *nic);

/**
 * Attaches to the NIC that now listens at the same socket, after the old one has ended (ccnic_wait() returned -ENOTCONN, or
 * ccnic_link_state() returned 0). Queues and buffers stay valid. Packets in the rings arrive once. Packets that a killed NIC
 * was processing, at most 64 buffers, are lost; their buffers return to the pool.
 *
 * A NIC seals the region, unless its operator trusts this user, and no other NIC can map a sealed one. Then the call first copies
 * the memory, to the same addresses: 70 ms of CPU time per 64 MiB on ordinary pages, 6 ms on huge ones, and the same memory
 * again until the copy is made. A thread that writes into a buffer meanwhile waits for the copy; where the process may not use
 * userfaultfd(2), what it writes is lost. A system call that writes into a buffer may fail with EFAULT, and devices that have mapped
 * the buffers for DMA keep the old memory: let neither happen during the call, and map the buffers again after it.
 *
 * @return the number of buffers that returned to the pool; -EISCONN: the NIC is still running; otherwise as ccnic_open(): try
 *         again later. A copy that was made is not made again.
 *
 * Any thread, while no other thread uses `nic` or any of its queues and pools.
 */
int ccnic_reconnect(struct ccnic *nic);

/** @return 1 while the NIC is running, 0 after it has ended, -EINVAL for NULL. Any thread. A system call: not for every burst. */
int ccnic_link_state(const struct ccnic *nic);

/** @return the longest packet in bytes, as chosen at ccnic_open(); -EINVAL for NULL. Any thread. */
int ccnic_mtu(const struct ccnic *nic);

/** @return the number of queue pairs; -EINVAL for NULL. Any thread. */
int ccnic_queues(const struct ccnic *nic);

/**
 * Copies the program's Ethernet address: the one in its options, or a random, locally administered one that stays the same until
 * ccnic_close(). The loopback NIC ignores addresses.
 *
 * @param mac receives 6 bytes
 * @return 0; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_mac(const struct ccnic *nic, uint8_t mac[6]);

/* ---- queues --------------------------------------------------------------------------------------------------------- */

/**
 * Opens queue pair `index`, 0 to ccnic_queues() - 1, for the calling thread.
 *
 * @param queue receives the queue, which `nic` owns, to be closed with ccnic_queue_close(); unchanged on failure
 * @return 0; -EBUSY: it is already open; -EINVAL: NULL, or no such queue
 *
 * Any thread.
 */
int ccnic_queue_open(struct ccnic *nic, uint16_t index, struct ccnic_queue **queue);

/**
 * Closes a queue. Packets that ccnic_wait() announced and that were not received are dropped; the free buffers of the queue's
 * magazine return to the pool; a requested notification is withdrawn. Packets in the rings stay and can be received after the queue
 * is opened again. Buffers that the program owns stay valid.
 *
 * @return 0; -EBADF: it is already closed; -EINVAL: NULL
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
 * Tells which word the NIC writes with the next packet, for processors that can wait for a write to a line (UMONITOR and UMWAIT, MONITORX):
 * packets can be received once the word does not hold `*value` any more. Look once more after the line is monitored. The address is valid
 * until packets are received or waited for (ccnic_wait()), or ccnic_reconnect() is called.
 *
 * @param word  receives the address of the word, 8 bytes; read it only
 * @param value receives what it held
 * @return 0; 1: buffers can be received now, and nothing was written; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread. No system call.
 */
int ccnic_rx_monitor(const struct ccnic_queue *queue, const uint64_t **word, uint64_t *value);

/**
 * Counts the buffers that can be received now. Walks the ring: not for every burst.
 *
 * @return their number; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_ready(const struct ccnic_queue *queue);

/**
 * Counts the sent buffers that the NIC has not fetched yet. Walks the ring: not for every burst.
 *
 * @return their number; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_tx_waiting(const struct ccnic_queue *queue);

/* ---- bursts --------------------------------------------------------------------------------------------------------- */

/**
 * Allocates buffers for packets of `len` bytes each: as many whole packets as fit `n` entries, which is n / CCNIC_SEGMENTS(len).
 * Lengths and chains are set; the data are undefined. The first lines of the data are prefetched for writing. The offset of the
 * data in a large buffer differs from buffer to buffer (cache colouring); ccnic_buf_capacity() tells how many bytes fit.
 *
 * @param len  bytes of each packet, at most ccnic_mtu()
 * @param bufs receives the buffers, which the program owns from now on
 * @param n    entries of `bufs`: buffers, not packets
 * @return the number of buffers, fewer than requested (or 0) if the pool is empty; -EMSGSIZE: `len` is above the MTU; -EINVAL:
 *         NULL, or `n` is too small for one packet; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_buf_alloc(struct ccnic_queue *queue, uint16_t len, struct ccnic_buf *bufs, uint16_t n);

/**
 * Returns buffers to the pool. All buffers of a chain must be passed; a chain is not followed.
 *
 * @param n entries of `bufs`: buffers, not packets
 * @return 0; -EFAULT: some handles name no buffer of this NIC and were skipped, the others are freed; -EINVAL: NULL; -EBADF: the
 *         queue is closed
 *
 * The queue's thread.
 */
int ccnic_buf_free(struct ccnic_queue *queue, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Sends packets in order, as many whole ones as the ring has room for. The NIC owns the buffers that were sent. If the result is
 * not negative, the program still owns the others, from bufs[result] on: it sends them again later or frees them. After an error it
 * still owns all of them.
 *
 * A packet that can never be sent ends the burst before it; if it is the first packet, the call fails. While the NIC is not running,
 * packets are sent until the ring is full.
 *
 * @param n entries of `bufs`: buffers, not packets
 * @return the number of buffers sent, 0 if the ring is full; -EFAULT: a handle of the first packet names no buffer of this NIC;
 *         -EMSGSIZE: the first packet is longer than the MTU or has more than CCNIC_CHAIN_MAX buffers; -EINVAL: NULL, or the first
 *         packet has no end within `n` entries; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_tx_burst(struct ccnic_queue *queue, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Receives as many whole packets as there are and as fit `n` entries; does not wait. A packet that does not fit behind others
 * stays. If not even the first one fits, it is dropped and counted (`rx_too_few_entries`), since it would block the queue for ever:
 * pass at least @ref CCNIC_CHAIN_MAX entries, which every packet fits.
 *
 * The NIC is not trusted: every packet has an end and at most CCNIC_CHAIN_MAX buffers, each with data and inside one buffer of the
 * pool, and is no longer than the MTU. Other packets are dropped and counted.
 *
 * A short packet may need a free buffer of the pool. If there is none it waits until the program frees one, unless buffers stand in
 * the ring behind it: then it is dropped and counted (`rx_no_buffer`), since those may be the ones that it waits for.
 *
 * @param bufs receives the buffers, which the program owns from now on
 * @param n    entries of `bufs`: buffers, not packets
 * @return the number of buffers, 0 if there are none; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_burst(struct ccnic_queue *queue, struct ccnic_buf *bufs, uint16_t n);

/**
 * Sends copies of packets of at most @ref CCNIC_SMALL_SIZE bytes from the program's own memory, in order, as many as there are free
 * buffers and ring entries. Programs that keep packets in memory of their own send faster with this call than with
 * ccnic_buf_alloc(), memcpy() and ccnic_tx_burst(). `meta` of the packets is 0. A packet that can never be sent ends the burst
 * before it; if it is the first packet, the call fails.
 *
 * @param data address of each packet, not NULL; not used after the call
 * @param len  bytes of each packet, at most ccnic_mtu()
 * @param n    packets
 * @return the number of packets sent, 0 if the ring is full; -ENOBUFS: the pool is empty; -EMSGSIZE: the first packet is too long;
 *         -EINVAL: the first packet is empty, or NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_tx_small(struct ccnic_queue *queue, const void *const *data, const uint16_t *len, uint16_t n);

/**
 * Sends packets of one buffer each as ccnic_tx_burst(), and copies of packets of at most @ref CCNIC_SMALL_SIZE bytes from the program's
 * own memory as ccnic_tx_small(), in one burst. The NIC owns the buffers of the packets that were sent; the program still owns the
 * others. A packet that can never be sent ends the burst before it; if it is the first packet, the call fails.
 *
 * @param bufs a handle, or, for a packet that is copied, its `len` and `meta` (the other fields are ignored)
 * @param data address of each packet that is copied, not used after the call; NULL for a packet in a buffer
 * @param n    entries of `bufs` and `data`: packets
 * @return the number of packets sent, 0 if the ring is full; -ENOBUFS: the pool is empty; -EFAULT: the handle of the first packet names
 *         no buffer of this NIC; -EMSGSIZE: the first packet is too long; -EINVAL: the first packet is empty or has several buffers, or
 *         NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_tx_mixed(struct ccnic_queue *queue, const struct ccnic_buf *bufs, const void *const *data, uint16_t n);

/**
 * Reserves places for packets of up to `len` bytes, for programs that make their packets: the program writes them where the NIC
 * reads them, and sends them with ccnic_tx_commit(). Packets of up to 64 bytes have their places in the transmit ring (with
 * CCNIC_DESIGN_CCNIC), without a buffer; others in buffers of the pool. A place begins at a multiple of 64 bytes, and holds old data.
 *
 * A queue has one reservation. ccnic_tx_commit(), the next ccnic_tx_reserve() and ccnic_queue_close() end it and give back the
 * places that were not committed; do not write to a place after that. Calls that receive, allocate and free buffers may come in
 * between; if a call that sends comes in between, the reservation is void.
 *
 * @param len  bytes of each place, at most ccnic_mtu() and @ref CCNIC_LARGE_SIZE
 * @param data receives the address of each place
 * @param n    entries of `data`: packets
 * @return the number of places, at most @ref CCNIC_RESERVE_MAX, 0 if the ring is full; -ENOBUFS: the pool is empty; -EMSGSIZE: `len`
 *         is too long; -EINVAL: `len` is 0, or NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_tx_reserve(struct ccnic_queue *queue, uint16_t len, void **data, uint16_t n);

/**
 * Sends the packets in the first `n` places that ccnic_tx_reserve() gave, in order, and gives the others back. There is room for all
 * of them. The NIC owns the places of packets that were sent. `n` = 0 gives all places back.
 *
 * @param len  bytes of each packet, at most as reserved; NULL: as reserved
 * @param meta metadata of each packet; NULL: 0
 * @param n    entries of `len` and `meta`: packets
 * @return `n`; -EMSGSIZE: a packet is longer than its place; -EINVAL: a packet is empty, `queue` is NULL, fewer than `n` places are
 *         reserved, or other packets were sent since; -EBADF: the queue is closed. After an error nothing was sent, and the
 *         program may correct it and call again.
 *
 * The queue's thread.
 */
int ccnic_tx_commit(struct ccnic_queue *queue, const uint16_t *len, const uint64_t *meta, uint16_t n);

/**
 * Receives packets of at most @ref CCNIC_SMALL_SIZE bytes into the program's own memory, in order, up to the first packet that is
 * longer or a chain; does not wait.
 *
 * @param room where to copy each packet: CCNIC_SMALL_SIZE bytes, not NULL
 * @param len  receives the bytes of each packet
 * @param meta receives the metadata of each packet; may be NULL
 * @param n    entries of `room`, `len` and `meta`: packets
 * @return the number of packets, 0 if there are none; -EMSGSIZE: the next packet is not in a small buffer: receive it with
 *         ccnic_rx_burst(); -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_small(struct ccnic_queue *queue, void *const *room, uint16_t *len, uint64_t *meta, uint16_t n);

/**
 * Waits until packets can be received: polls for some ten microseconds, then blocks until the NIC sends a notification. (It sleeps
 * up to 1 ms at a time instead, until the NIC has confirmed that it sends notifications: it, or this program, may be out of file
 * descriptors.)
 *
 * @param timeout_ns nanoseconds to wait at most; 0 does not wait, a negative number waits without a limit
 * @return the number of buffers (above 0) that ccnic_rx_burst() can receive; 0: timeout; -ENOTCONN: the NIC has ended and nothing is
 *         left to receive; -EINTR: a signal was handled; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_wait(struct ccnic_queue *queue, int64_t timeout_ns);

/**
 * Returns a file descriptor that becomes readable when the NIC sends a notification, for programs that wait for several events
 * (poll(), epoll). Call ccnic_rx_arm() before each wait. The bytes in it have no meaning and need not be read. The first byte arrives
 * when the NIC has taken its end of the descriptor; a program that never gets one must not rely on notifications.
 *
 * The descriptor stays the same until ccnic_close(), also after ccnic_reconnect(). It does not show that the NIC has ended:
 * ccnic_link_state() does.
 *
 * @return the descriptor, which the queue owns: do not close it; -EMFILE: too many open files; -EINVAL: NULL; -EBADF: the queue is
 *         closed
 *
 * The queue's thread; any thread may wait for the descriptor.
 */
int ccnic_rx_fd(struct ccnic_queue *queue);

/**
 * Requests one notification: the NIC makes ccnic_rx_fd() readable when there is something to receive. Empties the descriptor first.
 * Call it before each wait. A notification may arrive without a packet.
 *
 * @return 0: requested; the number of buffers (above 0) if some can be received already, and then nothing is requested; -EMFILE: too
 *         many open files; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_arm(struct ccnic_queue *queue);

/**
 * Withdraws the request of ccnic_rx_arm(). Not necessary, but saves the NIC a notification to a thread that polls.
 *
 * @return 0; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_disarm(struct ccnic_queue *queue);

/**
 * Makes ccnic_rx_fd() readable, as the NIC does. ccnic_wait() does not return because of it.
 *
 * @return 0; -EMFILE: too many open files; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_rx_notify(struct ccnic_queue *queue);

/* ---- buffers without a queue ---------------------------------------------------------------------------------------- */

/**
 * Opens a handle on the buffers of an attachment, for threads that allocate or free them and have no queue. Like a queue, it keeps
 * some free buffers in a magazine.
 *
 * @param pool receives the handle, which `nic` owns, to be closed with ccnic_pool_close(); unchanged on failure
 * @return 0; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_pool_open(struct ccnic *nic, struct ccnic_pool **pool);

/**
 * Closes a handle; the free buffers of its magazine return to the pool. Buffers that the program owns stay valid.
 *
 * @return 0; -EBADF: it is already closed; -EINVAL: NULL
 *
 * The pool's thread.
 */
int ccnic_pool_close(struct ccnic_pool *pool);

/**
 * Allocates large buffers. Their length is 0 and their data begin at their first byte.
 *
 * @param bufs receives the buffers, which the program owns from now on
 * @return the number of buffers, fewer than `n` (or 0) if the pool is empty; -EINVAL: NULL; -EBADF: the handle is closed
 *
 * The pool's thread.
 */
int ccnic_pool_alloc(struct ccnic_pool *pool, struct ccnic_buf *bufs, uint16_t n);

/**
 * Returns buffers to the pool. They may come from ccnic_pool_alloc(), ccnic_buf_alloc() or ccnic_rx_burst().
 *
 * @return 0; -EFAULT: some handles name no buffer of this NIC and were skipped, the others are freed; -EINVAL: NULL; -EBADF: the
 *         handle is closed
 *
 * The pool's thread.
 */
int ccnic_pool_free(struct ccnic_pool *pool, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Returns where the buffers lie, for programs that refer to buffers by address.
 *
 * @return 0; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_memory(const struct ccnic *nic, struct ccnic_view *view);

/* ---- the rest ------------------------------------------------------------------------------------------------------- */

/** @return why this thread's last failed call failed, and what to do about it. Valid until its next failure. */
const char *ccnic_last_error(void);

/** @return the version of the library, such as "0.1.0". Any thread. */
const char *ccnic_version(void);

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_H */
