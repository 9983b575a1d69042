/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The net driver's own structures: a device, its queue pairs, and the queues that DPDK sees of them. */
#ifndef CCNIC_NET_H
#define CCNIC_NET_H

#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_lcore.h>
#include <rte_spinlock.h>

#include <ccnic_attach.h>
#include <ccnic_mbuf.h>
#include <ccnic_mempool.h>

extern int ccnic_net_logtype;

#define NET_LOG(level, ...) \
	rte_log(RTE_LOG_ ## level, ccnic_net_logtype, RTE_FMT(RTE_FMT_HEAD(__VA_ARGS__, "") "\n", RTE_FMT_TAIL(__VA_ARGS__, "")))

#define CCNIC_MAX_QUEUES 256
#define CCNIC_MAX_MACS 16
#define CCNIC_MAX_MCAST 64
#define CCNIC_MAX_FRAME 9600
/* Rings as ethdev sees them with role=nic: the program chooses. */
#define CCNIC_NIC_RING 1024
#define CCNIC_OVERHEAD RTE_ETHER_HDR_LEN
/* Two VLAN tags may make a frame longer than the MTU says. */
#define CCNIC_TAGS (2 * RTE_VLAN_HLEN)
/* Packets, or buffers, that a loop of the data path deals with at once. */
#define CCNIC_BURST 32
/* Buffers of large packets that are received at once. libccnic requests the lines of packets ahead, some in each call. */
#define CCNIC_REFILL 8

/* Sizes as other drivers bin them. */
enum ccnic_bin {
	CCNIC_BIN_UNDERSIZE,
	CCNIC_BIN_64,
	CCNIC_BIN_65_127,
	CCNIC_BIN_128_255,
	CCNIC_BIN_256_511,
	CCNIC_BIN_512_1023,
	CCNIC_BIN_1024_1518,
	CCNIC_BIN_1519_MAX,
	CCNIC_BINS
};

/* What a receive queue has done. Written by its thread alone; never reset, others subtract. All are uint64_t. */
struct ccnic_rx_stats {
	uint64_t packets;
	uint64_t bytes;
	uint64_t bins[CCNIC_BINS];
	uint64_t inlined;   /* small packets, copied */
	uint64_t zero_copy; /* large packets, not copied */
	uint64_t copied;    /* large packets, copied */
	uint64_t no_mbuf;   /* times that a packet waited for an mbuf */
	uint64_t oversize;  /* dropped: longer than the MTU allows */
	uint64_t filtered;  /* dropped: to another address */
};

/* What a transmit queue has done. As above. */
struct ccnic_tx_stats {
	uint64_t packets;
	uint64_t bytes;
	uint64_t bins[CCNIC_BINS];
	uint64_t inlined;
	uint64_t zero_copy;
	uint64_t copied;
	uint64_t ring_full; /* packets left to the application */
	uint64_t no_buffer; /* the same, for want of a buffer in the region */
	uint64_t too_long;  /* dropped: longer than the region's packets */
	uint64_t broken;    /* dropped: lengths or segments that cannot be */
};

/*
 * A queue pair of the region. libccnic has one thread use it at a time, DPDK lets one thread receive and another transmit, and
 * control operations come from anywhere: ccnic_pair.c tells who may. `paused` turns bursts away for as long as it is set.
 */
struct ccnic_pair {
	uintptr_t owner; /* CCNIC_OWNER_..., or the thread that the pair is biased to */
	uint32_t busy;   /* that thread is in a burst */
	uint32_t paused; /* CCNIC_PAUSED_... */
	union {
		struct ccnic_queue *queue;
		struct ccnic_nic_queue *nic_queue; /* role=nic: while a program is served */
	};
	/* Read by control operations alone: what libccnic dropped, as last seen and at the last reset. */
	struct ccnic_drops {
		uint64_t descriptors;
		uint64_t chains;
		uint64_t missed; /* by the NIC, for want of room */
	} drops, drops_base;
	uintptr_t biased_to; /* while a control operation has it */
	bool biased;         /* the kernel allows it */
	uint32_t disowned;   /* times that a second thread came */
	uint32_t alone;      /* bursts of the same thread in a row, while the pair is shared */
	uintptr_t last;      /* that thread */
	/* role=nic: what has been fetched from the program and waits for mbufs, from `next` on. */
	uint16_t waiting;
	uint16_t next;
	uint32_t empty;      /* times that the program had sent nothing */
	uint32_t empty_then; /* the same when the program was seen to be gone */
	struct ccnic_buf bufs[CCNIC_BURST];
	rte_spinlock_t lock;
} __rte_cache_aligned;

#define CCNIC_OWNER_NONE ((uintptr_t)0)
#define CCNIC_OWNER_SHARED ((uintptr_t)1)
#define CCNIC_OWNER_CONTROL ((uintptr_t)2)

#define CCNIC_PAUSED_CONTROL 1u
#define CCNIC_PAUSED_LINK_DOWN 2u

/*
 * Fields of an mbuf that are set eight bytes at once: from data_off on (with reference count, segments, port), and from packet_type
 * on (with lengths, VLAN, hash).
 */
typedef uint64_t __attribute__((may_alias)) ccnic_word;

static inline ccnic_word *
ccnic_words_at(struct rte_mbuf *m, size_t field)
{
	return RTE_PTR_ADD(m, field);
}

/* A field in the half of such a word that comes first in memory, and in the other; the rest is zero. */
#if RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN
#define CCNIC_FIRST(value) ((uint64_t)(value))
#define CCNIC_SECOND(value) ((uint64_t)(value) << 32)
#else
#error "struct ccnic_buf has the byte order of little-endian machines"
#endif

struct ccnic_dev;

struct ccnic_rxq {
	/* Packets on their way from the ring to the application. */
	struct ccnic_buf bufs[CCNIC_REFILL];
	uint16_t next;
	uint16_t len;
	bool large;          /* the last of them was no small packet */

	/* Mbufs for the next small packets, and where in them those go. The first ones have been used. */
	uint16_t fresh_used;
	struct rte_mbuf *fresh[CCNIC_BURST];
	void *fresh_room[CCNIC_BURST];

	uint16_t index;
	uint16_t turn;      /* of the pairs: which one is polled */
	uint16_t pairs;     /* how many this queue polls: index, index + stride, ... */
	uint16_t stride;
	uint16_t max_len;   /* longer packets are dropped */
	bool zero_copy;     /* mbufs of mp may be bound to the region */
	bool own_pool;      /* mp has the ops "ccnic" */
	bool hash;          /* the application wants to know the hash */
	uint16_t priv_size; /* of mp's mbufs */
	uint16_t room;
	uint64_t rearm;     /* mbuf fields of a packet whose data begins after the headroom */
	uint8_t *base;      /* of the region */
	struct ccnic_pair *pair; /* that bufs came from */
	struct rte_mempool *mp;
	struct ccnic_dev *dev;
	struct ccnic_rx_stats stats;
	struct ccnic_rx_stats base_stats; /* at the last reset */
} __rte_cache_aligned;

struct ccnic_txq {
	uint16_t index;
	bool zero_copy;
	bool fast_free; /* the application promises that mbufs are of one pool, and nobody else's */
	uint16_t max_len; /* the region's longest packet */
	uint8_t *base;
	struct ccnic_view view;
	struct ccnic_pair *pair;
	struct ccnic_attach *att;
	struct ccnic_dev *dev;
	struct ccnic_tx_stats stats;
	struct ccnic_tx_stats base_stats;
} __rte_cache_aligned;

/* The devargs of a device. */
struct ccnic_args {
	struct ccnic_attach_conf attach;
	bool nic; /* role=nic */
};

struct ccnic_side;

/* rte_eth_dev_data.dev_private */
struct ccnic_dev {
	struct rte_eth_dev_data *data;
	struct ccnic_side *side; /* role=nic: the programs' side of the device; NULL otherwise */
	struct ccnic_attach *att; /* role=program, as `user` */
	struct ccnic_user user; /* of att */
	uint16_t queues;        /* pairs that there are at most */
	uint16_t mtu_frame;     /* the region's longest packet; with role=nic that of any program */
	bool zero_copy;
	bool started;
	bool link_down; /* by rte_eth_dev_set_link_down() */
	struct ccnic_rss rss; /* as the application wants it */
	uint16_t rss_queues;  /* that its table was made for */
	uint32_t mcasts;
	struct rte_ether_addr mcast[CCNIC_MAX_MCAST];
	struct rte_intr_handle *intr; /* receive interrupts, once they have been used */
	bool peer_up;   /* the NIC, or the program, when the watch looked last */
	bool told_up;   /* what the application was told last */
	uint64_t link_downs;
	struct ccnic_pair pair[];
};

static inline struct ccnic_dev *
ccnic_dev_of(const struct rte_eth_dev *dev)
{
	return dev->data->dev_private;
}

static inline enum ccnic_bin
ccnic_bin_of(uint32_t len)
{
	if (len <= RTE_ETHER_MIN_LEN)
		return len == RTE_ETHER_MIN_LEN ? CCNIC_BIN_64 : CCNIC_BIN_UNDERSIZE;
	if (len < 1024)
		return CCNIC_BIN_65_127 + (31 - __builtin_clz(len)) - 6;
	return len <= RTE_ETHER_MAX_LEN ? CCNIC_BIN_1024_1518 : CCNIC_BIN_1519_MAX;
}

/* Lengths and segments of a packet: its length, or 0 when they contradict each other. */
static inline uint32_t
ccnic_checked_len(const struct rte_mbuf *pkt)
{
	const struct rte_mbuf *m = pkt;
	uint32_t len = 0;
	uint16_t segs = 0;

	for (; m != NULL && segs < pkt->nb_segs; m = m->next) {
		if (unlikely((uint32_t)m->data_off + m->data_len > m->buf_len))
			return 0;
		len += m->data_len;
		segs++;
	}
	return m == NULL && segs == pkt->nb_segs && len == pkt->pkt_len ? len : 0;
}

/* The shortest and the longest of some packets. */
struct ccnic_span {
	uint16_t shortest, longest;
};

static __rte_always_inline struct ccnic_span
ccnic_span_of(const uint16_t *len, uint16_t n)
{
	struct ccnic_span span = { UINT16_MAX, 0 };
	uint16_t i;

	for (i = 0; i < n; i++) {
		span.shortest = RTE_MIN(span.shortest, len[i]);
		span.longest = RTE_MAX(span.longest, len[i]);
	}
	return span;
}

/* Counts n packets into bins, at once when they are of one size; returns their bytes. */
static inline uint64_t
ccnic_count_sizes(uint64_t *bins, const uint16_t *len, uint16_t n, struct ccnic_span span)
{
	uint64_t bytes = 0;
	uint16_t i;

	if (likely(span.shortest == span.longest)) {
		bins[ccnic_bin_of(span.longest)] += n;
		return (uint64_t)n * span.longest;
	}
	for (i = 0; i < n; i++) {
		bins[ccnic_bin_of(len[i])]++;
		bytes += len[i];
	}
	return bytes;
}

/*
 * Frees mbufs that have been sent, all at once where they are alike. `plain`: each has one segment and no external buffer, which
 * RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE (`fast`) does not promise; all else it does, and no second line of an mbuf is looked at.
 */
static __rte_always_inline void
ccnic_free_sent(struct rte_mbuf **pkts, uint16_t n, bool plain, bool fast)
{
	bool alike = plain && n > 0;
	uint16_t i;

	for (i = 0; alike && !fast && i < n; i++)
		alike &= (rte_mbuf_refcnt_read(pkts[i]) == 1) & (pkts[i]->pool == pkts[0]->pool);
	if (likely(alike))
		/* As the application allocated them: refcnt 1, one segment, no next one. */
		rte_mempool_put_bulk(pkts[0]->pool, (void **)pkts, n);
	else
		rte_pktmbuf_free_bulk(pkts, n);
}

/* Sixteen bytes, anywhere, of anything. */
typedef uint64_t __attribute__((vector_size(16), aligned(1), may_alias)) ccnic_lane;

static __rte_always_inline void
ccnic_copy_64(uint8_t *to, const uint8_t *from)
{
	const ccnic_lane *f = (const ccnic_lane *)from;
	ccnic_lane *t = (ccnic_lane *)to;
	ccnic_lane a = f[0], b = f[1], c = f[2], d = f[3];

	t[0] = a;
	t[1] = b;
	t[2] = c;
	t[3] = d;
}

/* Copies 0 to 128 bytes, with stores that may overlap and never touch a byte beyond. */
static __rte_always_inline void
ccnic_copy_small(uint8_t *to, const uint8_t *from, uint16_t len)
{
	if (likely(len >= 32)) {
		ccnic_lane a, b, c, d;

		/* All loads before all stores of 32 bytes at either end: for up to 64 bytes that is all. */
		if (len > 64) {
			ccnic_copy_64(to, from);
			ccnic_copy_64(to + len - 64, from + len - 64);
			return;
		}
		a = *(const ccnic_lane *)from;
		b = *(const ccnic_lane *)(from + 16);
		c = *(const ccnic_lane *)(from + len - 32);
		d = *(const ccnic_lane *)(from + len - 16);
		*(ccnic_lane *)to = a;
		*(ccnic_lane *)(to + 16) = b;
		*(ccnic_lane *)(to + len - 32) = c;
		*(ccnic_lane *)(to + len - 16) = d;
		return;
	}
	memcpy(to, from, len);
}

/* ccnic_pair.c */
bool ccnic_pair_init(struct ccnic_pair *pairs, uint16_t n);
/* Takes a pair for less than a burst takes, while transmitting waits; false when the data path holds it for too long. */
bool ccnic_pair_lock(struct ccnic_pair *pair);
void ccnic_pair_unlock(struct ccnic_pair *pair);
/* The same for longer: bursts meanwhile move nothing. */
bool ccnic_pair_pause(struct ccnic_pair *pair);
void ccnic_pair_resume(struct ccnic_pair *pair);
bool ccnic_pair_enter_slowly(struct ccnic_pair *pair, uintptr_t self, bool wait);

/* Begins a burst; false when the pair cannot be had. */
static __rte_always_inline bool
ccnic_pair_enter(struct ccnic_pair *pair, bool wait)
{
	/* An address that no other thread has. */
	const uintptr_t self = (uintptr_t)&RTE_PER_LCORE(_lcore_id);

	if (unlikely(__atomic_load_n(&pair->paused, __ATOMIC_RELAXED) != 0))
		return false;
	if (likely(__atomic_load_n(&pair->owner, __ATOMIC_RELAXED) == self)) {
		__atomic_store_n(&pair->busy, 1, __ATOMIC_RELAXED);
		/* membarrier() makes this the full barrier that it has to be. */
		rte_compiler_barrier();
		if (likely(__atomic_load_n(&pair->owner, __ATOMIC_ACQUIRE) == self))
			return true;
		__atomic_store_n(&pair->busy, 0, __ATOMIC_RELEASE);
	}
	return ccnic_pair_enter_slowly(pair, self, wait);
}

/* Ends a burst. */
static __rte_always_inline void
ccnic_pair_leave(struct ccnic_pair *pair)
{
	if (likely(pair->busy != 0))
		__atomic_store_n(&pair->busy, 0, __ATOMIC_RELEASE);
	else
		rte_spinlock_unlock(&pair->lock);
}

/* ccnic_args.c */
int ccnic_args_parse(struct rte_vdev_device *vdev, struct ccnic_args *args);
void ccnic_args_reachable(const char *device, const struct ccnic_args *args, int error);

/* ccnic_link.c */
int ccnic_link_update(struct rte_eth_dev *dev, int wait_to_complete);
int ccnic_link_up(struct rte_eth_dev *dev);
int ccnic_link_down(struct rte_eth_dev *dev);
/* Tells the application when the link has changed; it may stop the device meanwhile. */
void ccnic_link_tell(struct rte_eth_dev *dev);
int ccnic_link_watch(struct rte_eth_dev *dev);
void ccnic_link_unwatch(struct rte_eth_dev *dev);
bool ccnic_link_pause(struct ccnic_user *user);
void ccnic_link_resume(struct ccnic_user *user);

/* ccnic_queue.c */
int ccnic_rx_queue_setup(struct rte_eth_dev *dev, uint16_t index, uint16_t desc, unsigned int socket,
			 const struct rte_eth_rxconf *conf, struct rte_mempool *mp);
int ccnic_tx_queue_setup(struct rte_eth_dev *dev, uint16_t index, uint16_t desc, unsigned int socket,
			 const struct rte_eth_txconf *conf);
void ccnic_rx_queue_release(struct rte_eth_dev *dev, uint16_t index);
void ccnic_tx_queue_release(struct rte_eth_dev *dev, uint16_t index);
/* Which queue polls which pairs; with role=nic no pair need be there. */
void ccnic_queues_deal(struct rte_eth_dev *dev);
void ccnic_queues_state(struct rte_eth_dev *dev, uint8_t state);
int ccnic_queues_start(struct rte_eth_dev *dev);
void ccnic_queues_stop(struct rte_eth_dev *dev);
void ccnic_rxq_info(struct rte_eth_dev *dev, uint16_t index, struct rte_eth_rxq_info *info);
void ccnic_txq_info(struct rte_eth_dev *dev, uint16_t index, struct rte_eth_txq_info *info);
int ccnic_rx_burst_mode(struct rte_eth_dev *dev, uint16_t index, struct rte_eth_burst_mode *mode);
int ccnic_tx_burst_mode(struct rte_eth_dev *dev, uint16_t index, struct rte_eth_burst_mode *mode);
uint32_t ccnic_rx_queue_count(void *queue);
int ccnic_rx_descriptor_status(void *queue, uint16_t offset);
int ccnic_tx_descriptor_status(void *queue, uint16_t offset);

/* ccnic_rss.c */
void ccnic_rss_info(struct rte_eth_dev_info *info);
int ccnic_rss_configure(struct rte_eth_dev *dev);
int ccnic_rss_start(struct rte_eth_dev *dev);
int ccnic_rss_hash_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int ccnic_rss_hash_conf_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int ccnic_rss_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *reta, uint16_t size);
int ccnic_rss_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *reta, uint16_t size);

/* ccnic_intr.c */
int ccnic_rx_intr_enable(struct rte_eth_dev *dev, uint16_t index);
int ccnic_rx_intr_disable(struct rte_eth_dev *dev, uint16_t index);
/* Receive interrupts for queues that are open, if the application wants them. */
int ccnic_intr_start(struct rte_eth_dev *dev);
void ccnic_intr_stop(struct rte_eth_dev *dev);
void ccnic_intr_close(struct rte_eth_dev *dev);
/* Wakes whoever sleeps. */
void ccnic_intr_wake(struct rte_eth_dev *dev);

/* ccnic_rx.c, ccnic_tx.c */
uint16_t ccnic_recv(void *queue, struct rte_mbuf **pkts, uint16_t n);
uint16_t ccnic_xmit(void *queue, struct rte_mbuf **pkts, uint16_t n);
/* Without promiscuous mode: drops packets that are not for this station; returns how many are left. */
uint16_t ccnic_filter(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n);

/* ccnic_side.c: role=nic */
struct ccnic_nic_stats;
int ccnic_side_open(const struct ccnic_args *args, struct ccnic_side **side);
void ccnic_side_free(struct ccnic_side *side);
/* From now on programs can attach. */
int ccnic_side_watch(struct rte_eth_dev *dev);
/* The opposite of both. */
void ccnic_side_close(struct rte_eth_dev *dev);
void ccnic_side_start(struct rte_eth_dev *dev);
void ccnic_side_stop(struct rte_eth_dev *dev);
/* What libccnic has counted of all programs since the last reset. */
void ccnic_side_sum(struct ccnic_dev *dev, struct ccnic_nic_stats *sum, uint64_t *programs);
void ccnic_side_reset(struct ccnic_dev *dev);
void ccnic_side_dump(struct ccnic_dev *dev, FILE *out);

/* ccnic_side_burst.c: role=nic */
uint16_t ccnic_side_recv(void *queue, struct rte_mbuf **pkts, uint16_t n);
uint16_t ccnic_side_xmit(void *queue, struct rte_mbuf **pkts, uint16_t n);

/* ccnic_stats.c */
int ccnic_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats);
int ccnic_stats_reset(struct rte_eth_dev *dev);
int ccnic_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *xstats, unsigned int n);
int ccnic_xstats_get_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names, unsigned int n);

#endif /* CCNIC_NET_H */
