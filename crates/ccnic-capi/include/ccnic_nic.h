/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ccnic_nic.h
 * libccnic, the NIC's side: for NICs in C. Programs that use ccnic.h attach to them as to ccnicd.
 *
 *     ccnic_nic_listen -> ccnic_nic_poll -> ccnic_nic_accept -> ccnic_nic_queue_open      (control)
 *     ccnic_nic_rx_burst -> read the data -> ccnic_nic_buf_free                           (packets from a program)
 *     ccnic_nic_tx_copy, or ccnic_nic_buf_alloc -> write -> ccnic_nic_tx_burst            (packets to a program)
 *
 * Receive and transmit are named from the NIC's point of view: it receives what a program has sent. The NIC chooses the queue of
 * a packet: a program's ccnic_rss_set() fails with -EOPNOTSUPP unless the NIC has @ref CCNIC_NIC_RSS and asks ccnic_nic_steer().
 *
 * @par Trust
 * A program may be defective or hostile. ccnic_nic_rx_burst() checks what it returns: every buffer lies inside the program's pool,
 * every chain has an end and at most @ref CCNIC_CHAIN_MAX buffers, no packet is empty or longer than the program's MTU. Everything
 * else is dropped and counted. A program can still change a packet while the NIC reads it: copy the bytes that a decision
 * depends on, and read only the copy. `n` bounds the work of every call; no call waits for a program's memory.
 *
 * @par Errors and units
 * As in ccnic.h: functions return 0 or a count, or a negative errno value; ccnic_last_error() returns the details. Counts are
 * buffers or segments, not packets.
 *
 * @par Threads
 * A queue belongs to one thread at a time: only that thread may call functions that take a struct ccnic_nic_queue. Any thread may
 * call functions that take a struct ccnic_nic or a struct ccnic_program at any time, except for ccnic_nic_close() and
 * ccnic_program_release(); one thread at a time may be in ccnic_nic_poll(). After fork() the child must not use any of them.
 *
 * @par Notifications
 * A program that waits for a notification gets it from a NIC's burst on its queue: from the burst that sends packets to it, or from
 * the next one (neither side uses memory fences). So keep calling ccnic_nic_rx_burst() for each open queue, also if the NIC only
 * sends. Notifications are rate-limited per program, to about an eighth of the time of the threads that serve it.
 *
 * @par Buffers
 * A struct ccnic_buf names a buffer of one program; it is meaningless for queues of other programs. The NIC owns the buffers that it
 * has received or allocated until it frees them or sends them to the program. If the NIC dies, the program reclaims them. With the
 * environment variable CCNIC_DEBUG=1, read by ccnic_nic_accept(), a call that frees or sends a buffer which the NIC does not hold does
 * nothing and returns -EINVAL; the first of a program is told on standard error, too.
 *
 * @par Handles
 * Void once closed or released, those of queues also with their program: calls then return -EBADF, as ccnic.h says.
 */
#ifndef CCNIC_NIC_H
#define CCNIC_NIC_H

#include <ccnic.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A NIC: a socket, and the programs that have attached. */
struct ccnic_nic;
/** An attached program, with its region. */
struct ccnic_program;
/** The NIC's side of a queue pair. Belongs to one thread at a time. */
struct ccnic_nic_queue;

/** Flag: ccnic_nic_listen() does not install a SIGBUS handler. */
#define CCNIC_NIC_KEEP_SIGBUS 1u
/** Flag: programs may ask for RSS (ccnic_rss.h): the NIC sends each packet on the queue that ccnic_nic_steer() says. */
#define CCNIC_NIC_RSS 2u
/**
 * Flag: programs wake the NIC (ccnic_nic_rx_arm()), which costs them, and the NIC's bursts, the load of a word that stays in their caches.
 * A program that has attached to another NIC before, without this, does not.
 */
#define CCNIC_NIC_SLEEPS 4u

/**
 * Options of ccnic_nic_listen(). Set them up with ccnic_nic_options_init(), then change fields. Zero means the default. Later
 * versions append fields.
 */
struct ccnic_nic_options {
	size_t size;	     /**< sizeof(struct ccnic_nic_options) */
	const char *name;    /**< shown by `ccnic status`, at most 255 bytes; copied. Default: the executable's name */
	uint32_t flags;	     /**< CCNIC_NIC_KEEP_SIGBUS, CCNIC_NIC_RSS, CCNIC_NIC_SLEEPS, or 0 */
	uint32_t node;	     /**< NUMA node of the cores that will poll; programs place the NIC's lines there. Default 0 */
	uint32_t region_max; /**< largest region that a program may attach, in MiB, up to 4095. Default 1280 */
	uint32_t memory_max; /**< most memory of all regions together, in MiB. Default: half of the machine's memory */
};

/** What a program announced when it attached, checked. It does not change. Later versions append fields. */
struct ccnic_program_info {
	char name[256];	   /**< its name, a string; not unique */
	int32_t pid;	   /**< its process; 0: in a PID namespace that this process does not see */
	uint32_t design;   /**< enum ccnic_design */
	uint32_t queues;   /**< queue pairs */
	uint32_t ring;	   /**< descriptors per ring */
	uint32_t buffers;  /**< large buffers in its pool */
	uint32_t mtu;	   /**< longest packet in bytes, in both directions */
	uint32_t flags;	   /**< CCNIC_HOST_MANAGED, or 0 */
	uint8_t mac[6];	   /**< its Ethernet address, or all zero; not checked, not unique */
	uint8_t reserved[2];
};

/** A part of a packet in the NIC's own memory, for ccnic_nic_tx_copy(). */
struct ccnic_segment {
	const void *data; /**< the first byte; may be NULL if `len` is 0 */
	uint64_t meta;	  /**< metadata of the packet, in its first segment; ignored in the others */
	uint32_t len;	  /**< bytes */
	uint32_t flags;	  /**< CCNIC_SEGMENT_MORE, or 0 */
};

/** Flag: the packet continues in the next segment. */
#define CCNIC_SEGMENT_MORE 1u
/** The most segments of one packet in the NIC's own memory. */
#define CCNIC_SEGMENTS_MAX 64

/** Counters of the NIC's side of a queue since it was first opened. Later versions append fields. */
struct ccnic_nic_stats {
	uint64_t rx_packets;	    /**< packets from the program, including those that were dropped */
	uint64_t rx_bytes;	    /**< their bytes */
	uint64_t tx_packets;	    /**< packets sent to the program */
	uint64_t tx_bytes;	    /**< their bytes */
	uint64_t rx_bad_descriptor; /**< dropped: a descriptor names bytes outside the program's buffers, or is empty */
	uint64_t rx_bad_chain;	    /**< dropped: descriptors of chains of more than CCNIC_CHAIN_MAX buffers */
	uint64_t rx_too_long;	    /**< dropped: longer than the program's MTU */
	uint64_t rx_dropped_close;  /**< dropped: fetched, and not received when the queue was closed */
	uint64_t tx_ring_full;	    /**< times that a packet was not sent because the program's ring was full */
	uint64_t tx_no_buffer;	    /**< times that a packet was not sent because the program's pool was empty */
	uint64_t tx_bad_buffer;	    /**< calls of ccnic_nic_tx_burst() that returned -EFAULT */
	uint64_t tx_bad_packet;	    /**< transmit bursts that returned -EMSGSIZE or -EINVAL for a packet */
	uint64_t free_bad_buffer;   /**< handles passed to ccnic_nic_buf_free() that name no buffer */
	uint64_t alloc_failed;	    /**< buffers that could not be allocated because the pool was empty */
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
 * A program may remove pages from its region while the NIC uses it; the NIC's next access may then raise SIGBUS. Therefore this call
 * installs a SIGBUS handler for the whole process, unless CCNIC_NIC_KEEP_SIGBUS is set: it maps a zeroed page in place of a missing
 * page of a region; any other SIGBUS ends the process as before.
 *
 * Starts threads: one accepts, and each connection has one, which maps and unmaps its program's region. They run on the CPUs that the
 * calling thread may run on: call this before that thread is pinned to a CPU that polls, or from another one. The programs of one user
 * may have 512 connections, 256 regions with 1024 queues, and three quarters of options->memory_max.
 *
 * @param options the options, or NULL for the defaults; copied
 * @param nic     receives the NIC, to be closed with ccnic_nic_close(); unchanged on failure
 * @return 0; -EADDRINUSE: another NIC listens there; -EEXIST: the file is not a socket; -EINVAL: NULL, or an option is out of range;
 *         -E2BIG: an option is unknown to this library; -ENOENT, -EACCES and others from the kernel
 *
 * Any thread.
 */
int ccnic_nic_listen(const char *socket, const struct ccnic_nic_options *options, struct ccnic_nic **nic);

/**
 * Stops listening and removes the socket file. Programs that have attached and were not accepted are disconnected.
 *
 * @return 0; -EBUSY: a program is accepted and not released; -EBADF: it is already closed; -EINVAL: NULL
 *
 * Any thread, while no other thread uses `nic`.
 */
int ccnic_nic_close(struct ccnic_nic *nic);

/**
 * Processes requests of programs: attaches them, answers `ccnic status`, detects that they have ended. Programs wait for the answers;
 * ten calls a second suffice.
 *
 * @param timeout_ns nanoseconds to wait for a request; 0 does not wait, a negative number waits without a limit
 * @return the number of programs that wait for ccnic_nic_accept(); -EBUSY: another thread is in this call; -EINVAL: NULL
 *
 * Any thread, one at a time. It makes system calls, so do not call it in a polling loop. With a timeout of 0 it does not block.
 */
int ccnic_nic_poll(struct ccnic_nic *nic, int64_t timeout_ns);

/**
 * Accepts the next program that has attached. It may have sent packets since it attached; they are in its rings.
 *
 * @param program receives the program, to be released with ccnic_program_release(); unchanged on failure
 * @return 0; -EAGAIN: none waits; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_nic_accept(struct ccnic_nic *nic, struct ccnic_program **program);

/**
 * Copies the description of a program.
 *
 * @param size sizeof(struct ccnic_program_info)
 * @return 0; -EINVAL: NULL
 *
 * Any thread.
 */
int ccnic_program_info(const struct ccnic_program *program, struct ccnic_program_info *info, size_t size);

/**
 * @return 1 while the program is running; 0 after ccnic_nic_poll() has detected its end: receive the packets that it has still
 *         sent, close its queues, release it; -EINVAL for NULL. Any thread. No system call.
 */
int ccnic_program_link_state(const struct ccnic_program *program);

/**
 * Sets what the NIC takes of what programs request in the metadata of their packets (ccnic_offload.h): at first nothing. Programs learn
 * it when they attach; one that has attached before keeps to what it was told. Whatever this says, hand a program no packet that
 * requests what ccnic_program_takes() does not say.
 *
 * @param takes CCNIC_TAKES_IP and so on, or 0
 * @return 0; -EINVAL: NULL; -E2BIG: a bit is unknown to this library
 *
 * Any thread.
 */
int ccnic_nic_takes_set(struct ccnic_nic *nic, uint32_t takes);

/**
 * @return what the program takes of what is requested in the metadata of packets: @ref CCNIC_TAKES_IP and so on. It may change at any
 *         time; a program that has said nothing takes nothing. -EINVAL for NULL. Any thread. No system call.
 */
int ccnic_program_takes(const struct ccnic_program *program);

/**
 * Releases a program and has its region unmapped by another thread; pointers into it become invalid at once. A program that is still running is disconnected,
 * reclaims the buffers that the NIC owned, and may attach again.
 *
 * @return 0; -EBUSY: one of its queues is open; -EBADF: it is already released; -EINVAL: NULL
 *
 * Any thread, while no other thread uses `program` or its queues.
 */
int ccnic_program_release(struct ccnic_program *program);

/**
 * Opens the NIC's side of queue pair `index`, 0 to info.queues - 1, for the calling thread.
 *
 * @param queue receives the queue, which `program` owns, to be closed with ccnic_nic_queue_close(); unchanged on failure
 * @return 0; -EBUSY: it is already open; -EINVAL: NULL, or no such queue
 *
 * Any thread.
 */
int ccnic_nic_queue_open(struct ccnic_program *program, uint16_t index, struct ccnic_nic_queue **queue);

/**
 * Closes a queue; the free buffers of its magazine return to the program's pool. Packets that were fetched and not received are
 * dropped: to avoid this, call ccnic_nic_rx_burst() until it returns 0. Packets in the rings stay. Free or send the buffers that
 * the NIC owns first.
 *
 * @return 0; -EBADF: it is already closed; -EINVAL: NULL
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

/* ---- sleeping ------------------------------------------------------------------------------------------------------- */

/**
 * Returns a file descriptor for poll() and epoll that becomes readable when the program wakes the NIC. Call ccnic_nic_rx_arm() before each
 * wait. It stays the same until ccnic_program_release(), also while the queue is closed and opened again. There is nothing to read from it.
 * Once the program has ended it may stay readable: ccnic_program_link_state() says so.
 *
 * @return the descriptor, which the program owns: do not close it; -EMFILE: too many open files; -EINVAL: NULL; -EBADF: the queue is
 *         closed
 *
 * The queue's thread; any thread may wait for the descriptor.
 */
int ccnic_nic_rx_fd(struct ccnic_nic_queue *queue);

/**
 * Has the program wake the NIC with its next packet: it makes ccnic_nic_rx_fd() readable, which this call has made unreadable before. It
 * may do so without a packet. Call it after a burst that found none, for all queues that are not polled meanwhile. Sleep for ten milliseconds
 * at a time at most, and look: where the kernel lacks membarrier(2), a packet that is sent just now may go unnoticed.
 *
 * @return 0: sleep; 1: there is a packet, or a program that has to be notified: poll on; -EAGAIN: the program does not wake the NIC, or not
 *         yet, for the NIC may not have got what it is woken by: look every ten milliseconds; -EMFILE: too many open files;
 *         -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread. It makes system calls.
 */
int ccnic_nic_rx_arm(struct ccnic_nic_queue *queue);

/**
 * Withdraws the request of ccnic_nic_rx_arm(). Not necessary, but saves the program system calls while the NIC polls.
 *
 * @return 0; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_rx_disarm(struct ccnic_nic_queue *queue);

/* ---- bursts --------------------------------------------------------------------------------------------------------- */

/**
 * Receives as many whole packets of the program as there are and as fit `n` entries; does not wait. Every packet fits
 * @ref CCNIC_CHAIN_MAX entries. The first lines of the packets are prefetched.
 *
 * @param bufs receives the buffers, which the NIC owns from now on: free them, or send them with ccnic_nic_tx_burst()
 * @param n    entries of `bufs`: buffers, not packets
 * @return the number of buffers, 0 if there are none; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_rx_burst(struct ccnic_nic_queue *queue, struct ccnic_buf *bufs, uint16_t n);

/**
 * Receives packets of one buffer and at most `size` bytes into the NIC's own memory, in order, up to the first that is longer or a
 * chain; does not wait. Each is copied once, from the program's ring or buffer, which is free again at once. The lines of the packets
 * that the next call receives are prefetched.
 *
 * @param room where to copy each packet: `size` bytes, not NULL
 * @param size bytes of each room
 * @param len  receives the bytes of each packet
 * @param meta receives the metadata of each packet; may be NULL
 * @param n    entries of `room`, `len` and `meta`: packets
 * @return the number of packets, 0 if there are none; -EMSGSIZE: the next packet is longer or a chain: receive it with
 *         ccnic_nic_rx_burst(); -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_rx_copy(struct ccnic_nic_queue *queue, void *const *room, uint16_t size, uint16_t *len, uint64_t *meta, uint16_t n);

/**
 * Frees buffers of this program, received or allocated. All buffers of a chain must be passed; a chain is not followed. With
 * CCNIC_HOST_MANAGED the program can reuse them once all received buffers have been freed.
 *
 * @return 0; -EFAULT: some handles name no buffer of this program and were skipped, the others are freed; -EINVAL: NULL; -EBADF:
 *         the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_buf_free(struct ccnic_nic_queue *queue, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Allocates buffers from the program's pool for packets of `len` bytes each: as many whole packets as fit `n` entries, which is
 * n / CCNIC_SEGMENTS(len). Lengths and chains are set; the data are undefined.
 *
 * @param len  bytes of each packet, at most the program's MTU
 * @param bufs receives the buffers, which the NIC owns from now on
 * @param n    entries of `bufs`: buffers, not packets
 * @return the number of buffers, fewer than requested (or 0) if the pool is empty; -EMSGSIZE: `len` is above the MTU; -EOPNOTSUPP:
 *         the program manages its buffers itself (CCNIC_HOST_MANAGED); -EINVAL: NULL, or `n` is too small for one packet; -EBADF:
 *         the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_buf_alloc(struct ccnic_nic_queue *queue, uint16_t len, struct ccnic_buf *bufs, uint16_t n);

/**
 * Sends packets to the program without a copy, in its own buffers: those received or allocated from the same program. Sends in
 * order, as many whole packets as its ring has room for. The program owns the buffers that were sent. If the result is not negative,
 * the NIC still owns the others, from bufs[result] on; after an error it still owns all of them.
 *
 * A packet that can never be sent ends the burst before it; if it is the first packet, the call fails.
 *
 * @param n entries of `bufs`: buffers, not packets
 * @return the number of buffers sent; -EFAULT: a handle of the first packet names no bytes of this program's buffers; -EMSGSIZE: the
 *         first packet is longer than the MTU or has more than CCNIC_CHAIN_MAX buffers; -EOPNOTSUPP: the program manages its buffers
 *         itself; -EINVAL: NULL, or the first packet has no end within `n` entries; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_tx_burst(struct ccnic_nic_queue *queue, const struct ccnic_buf *bufs, uint16_t n);

/**
 * Sends copies of packets in the NIC's own memory (or in another program's buffers), in order, as many whole packets as the
 * program's ring and pool have room for. The segments are not used after the call. Works with every program. Each packet is copied
 * once; bursts of packets of one segment are the fastest.
 *
 * @param n entries of `segments`, not packets
 * @return the number of segments of the packets that were sent; -EMSGSIZE: the first packet is longer than the MTU or has more than
 *         CCNIC_SEGMENTS_MAX segments; -EINVAL: NULL, or the first packet is empty or has no end within `n` entries; -EBADF: the
 *         queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_tx_copy(struct ccnic_nic_queue *queue, const struct ccnic_segment *segments, uint16_t n);

/**
 * Tells by a program's RSS which of its queues packets go to, and sets `meta` to what they are received with: the hash, if the program
 * wants it, in place of what `meta` has said of one. Send each with ccnic_nic_tx_copy() on its queue; what that queue has no room for is
 * lost, for no queue may wait for another: pass their number to ccnic_nic_missed().
 *
 * A change by the program is followed from the next call on; other queues may still follow the old setting.
 *
 * @param queue   any open queue of the program
 * @param packets the first segment of each packet: their first 128 bytes are looked at
 * @param to      receives a queue number for each, below info.queues
 * @param n       entries of `packets` and `to`; with 0 both may be NULL
 * @return 1; 0: the program has not asked for RSS, and nothing was written: send on the queue that you like; -EINVAL: NULL; -EBADF: the
 *         queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_steer(struct ccnic_nic_queue *queue, struct ccnic_segment *packets, uint16_t *to, uint16_t n);

/**
 * Counts packets that were lost because this queue had no room: the program reads it as `rx_dropped` of its struct ccnic_stats.
 *
 * @return 0; -EINVAL: NULL; -EBADF: the queue is closed
 *
 * The queue's thread.
 */
int ccnic_nic_missed(struct ccnic_nic_queue *queue, uint32_t packets);

/**
 * Returns the data of a buffer: ccnic_buf_len() bytes to read, ccnic_buf_capacity() bytes to write. Valid until the buffer is freed
 * or sent.
 *
 * @return NULL if the handle names no buffer of this queue's program. The queue's thread.
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
