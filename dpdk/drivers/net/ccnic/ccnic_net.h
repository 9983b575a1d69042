/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Structures of the net driver: a device, its queue pairs, and the ethdev queues that use them. */
#ifndef CCNIC_NET_H
#define CCNIC_NET_H

#include <ethdev_driver.h>
#include <ethdev_vdev.h>

#include <ccnic_attach.h>
#include <ccnic_mbuf.h>
#include <ccnic_mempool.h>

#include "ccnic_compat.h"
#include "ccnic_pair.h"

extern int ccnic_net_logtype;

#define NET_LOG(level, ...) \
	rte_log(RTE_LOG_ ## level, ccnic_net_logtype, RTE_FMT(RTE_FMT_HEAD(__VA_ARGS__, "") "\n", RTE_FMT_TAIL(__VA_ARGS__, "")))

#define CCNIC_MAX_QUEUES 256
#define CCNIC_MAX_MACS 16
#define CCNIC_MAX_MCAST 64
#define CCNIC_MAX_FRAME 9600
/* The link's speed in Mb/s if nobody says another one: memory has none, but applications divide by it. */
#define CCNIC_SPEED RTE_ETH_SPEED_NUM_100G
/* Ring size reported to ethdev with role=nic, where the program chooses the size. */
#define CCNIC_NIC_RING 1024
#define CCNIC_OVERHEAD RTE_ETHER_HDR_LEN
/* Two VLAN tags may add to the MTU. */
#define CCNIC_TAGS (2 * RTE_VLAN_HLEN)
/* Buffers of large packets that one call receives. libccnic prefetches the lines of some further packets in each call. */
#define CCNIC_REFILL 8

/* Packet sizes, in the classes of other drivers. */
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

/* Counters of a receive queue. Only its thread writes them; a reset stores a base that readers subtract. All are uint64_t. */
struct ccnic_rx_stats {
	uint64_t packets;
	uint64_t bytes;
	uint64_t bins[CCNIC_BINS];
	uint64_t inlined;   /* small packets, copied */
	uint64_t zero_copy; /* large packets, not copied */
	uint64_t copied;    /* large packets, copied */
	uint64_t no_mbuf;   /* times that a packet stayed in the ring for want of an mbuf */
	uint64_t oversize;  /* dropped: longer than the MTU allows */
	uint64_t filtered;  /* dropped: destination address */
	uint64_t foreign;   /* among them: to another station's address, not to a group's */
};

/* Counters of a transmit queue, as above. */
struct ccnic_tx_stats {
	uint64_t packets;
	uint64_t bytes;
	uint64_t bins[CCNIC_BINS];
	uint64_t inlined;
	uint64_t zero_copy;
	uint64_t copied;
	uint64_t ring_full; /* packets returned to the application */
	uint64_t no_buffer; /* the same, because the region had no free buffer */
	uint64_t too_long;  /* dropped: longer than mtu= */
	uint64_t broken;    /* dropped: inconsistent lengths or segments */
	uint64_t bad_offload; /* dropped: what is requested cannot be done */
	uint64_t computed;  /* packets whose offloads the driver computed */
	uint64_t no_room;   /* role=nic: dropped with the program's RSS: the queue's ring was full, or the pool empty */
	uint64_t parts_lost; /* segments of packets that were sent in part: ring full or pool empty */
};

/*
 * Fields of an mbuf that are set eight bytes at a time: from data_off on (with reference count, segments, port), and from packet_type
 * on (with lengths, VLAN, hash).
 */
typedef uint64_t __attribute__((may_alias)) ccnic_word;

static inline ccnic_word *
ccnic_words_at(struct rte_mbuf *m, size_t field)
{
	return RTE_PTR_ADD(m, field);
}

/* A value in the first half in memory of such a word, and in the second; the other half is zero. */
#if RTE_BYTE_ORDER == RTE_LITTLE_ENDIAN
#define CCNIC_FIRST(value) ((uint64_t)(value))
#define CCNIC_SECOND(value) ((uint64_t)(value) << 32)
#else
#error "struct ccnic_buf has the byte order of little-endian machines"
#endif

struct ccnic_dev;
struct ccnic_workspace;

struct ccnic_rxq {
	/* Buffers that were taken from the ring and not returned to the application yet. */
	struct ccnic_buf bufs[CCNIC_REFILL];
	uint16_t next;
	uint16_t len;
	bool large;          /* the last of them was not a small packet */

	/* Mbufs for the next small packets, and the addresses of their data. The first `fresh_used` have been used. */
	uint16_t fresh_used;
	struct rte_mbuf *fresh[CCNIC_BURST];
	void *fresh_room[CCNIC_BURST];

	uint16_t index;
	uint16_t current;   /* which of its pairs the queue polls next */
	uint16_t pairs;     /* how many pairs the queue polls: index, index + stride, ... */
	uint16_t stride;
	uint16_t max_len;   /* longer packets are dropped */
	bool zero_copy;     /* mbufs of mp may be bound to the region */
	bool own_pool;      /* mp has the ops "ccnic" */
	bool deferred;      /* started by the application, not with the port */
	bool told;          /* the metadata of packets matter: one of the next three */
	bool hash;          /* RTE_ETH_RX_OFFLOAD_RSS_HASH */
	bool strip;         /* RTE_ETH_RX_OFFLOAD_VLAN_STRIP */
	bool headers;       /* strip, or ptypes */
	uint32_t takes;     /* CCNIC_TAKES_... */
	uint32_t ptypes;    /* layers whose packet types are wanted, as a mask */
	uint16_t priv_size; /* of mp's mbufs */
	uint16_t room;
	uint64_t rearm;     /* mbuf fields of a packet whose data begin after the headroom */
	uint8_t *base;      /* of the region */
	struct ccnic_pair *pair; /* the pair that bufs belong to */
	struct rte_mempool *mp;
	struct ccnic_dev *dev;
	struct ccnic_rx_stats stats;
	struct ccnic_rx_stats base_stats; /* at the last reset */
	/* role=nic, receive interrupts: no burst reads them. */
	int notifier; /* an eventfd by which the driver wakes the application */
	bool asleep; /* the application waits */
} __rte_cache_aligned;

struct ccnic_txq {
	uint16_t index;
	bool zero_copy;
	bool fast_free; /* RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE: mbufs are of one pool, and not shared */
	uint16_t max_len; /* the region's longest packet */
	bool deferred;    /* started by the application, not with the port */
	uint32_t takes;   /* CCNIC_TAKES_... of the peer */
	struct ccnic_workspace *space; /* with transmit offloads only */
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
	uint32_t speed; /* Mb/s, as the application is told */
	bool partial; /* partial=yes */
};

struct ccnic_nic_role;

/* rte_eth_dev_data.dev_private */
struct ccnic_dev {
	struct rte_eth_dev_data *data;
	struct ccnic_nic_role *nic_role; /* role=nic: the programs; NULL otherwise */
	struct ccnic_attach *att; /* role=program, as `user` */
	struct ccnic_user user; /* of att */
	uint16_t queues;        /* number of pairs */
	uint16_t mtu_frame;     /* longest packet of the region; with role=nic, of any program */
	bool zero_copy;
	bool started;
	bool link_down; /* by rte_eth_dev_set_link_down() */
	bool partial;   /* the application takes checksums that nobody has computed */
	uint32_t speed; /* of the link, in Mb/s */
	bool ptypes_asked;    /* the application has chosen packet types */
	uint32_t ptypes;      /* these */
	struct ccnic_rss rss; /* the setting of the application */
	uint16_t rss_queues;  /* receive queues when its table was made */
	struct rte_flow *flows;
	bool marks; /* a rule marks packets, or has done so */
	uint32_t mcasts;
	struct rte_ether_addr mcast[CCNIC_MAX_MCAST];
	struct rte_intr_handle *intr; /* receive interrupts, once they have been used */
	bool peer_up;     /* the NIC, or the program, was running at the last check */
	bool reported_up; /* link state last reported to the application */
	uint64_t link_downs;
	struct ccnic_pair nowhere; /* paused for ever: what queues use that are stopped */
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

/* The length of a packet, or 0 if its lengths and segments are inconsistent. */
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

/* Adds n packets to their size classes, in one step if all have one size; returns their bytes. */
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
 * Frees mbufs that have been sent, in one step if they are alike. `plain`: each has one segment and no external buffer, which
 * RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE (`fast`) does not guarantee. It guarantees the rest: one pool, not shared. The second cache line
 * of the mbufs is not read.
 */
static __rte_always_inline void
ccnic_free_sent(struct rte_mbuf **pkts, uint16_t n, bool plain, bool fast)
{
	bool alike = plain && n > 0;
	uint16_t i;

	for (i = 0; alike && !fast && i < n; i++)
		alike &= (rte_mbuf_refcnt_read(pkts[i]) == 1) & (pkts[i]->pool == pkts[0]->pool);
	if (likely(alike))
		/* In the state that a mempool requires: refcnt 1, one segment, next NULL. */
		rte_mempool_put_bulk(pkts[0]->pool, (void **)pkts, n);
	else
		rte_pktmbuf_free_bulk(pkts, n);
}

/* Sixteen bytes, of any type and alignment. */
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

/* Copies 0 to 128 bytes. Stores may overlap; no byte beyond `len` is written. */
static __rte_always_inline void
ccnic_copy_small(uint8_t *to, const uint8_t *from, uint16_t len)
{
	if (likely(len >= 32)) {
		ccnic_lane a, b, c, d;

		/* 32 bytes at either end, which cover up to 64 bytes; all loads before all stores. */
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

/* ccnic_ethdev.c */
int ccnic_infos_get(struct rte_eth_dev *dev, struct rte_eth_dev_info *info);

/* ccnic_secondary.c: the device in a process that is not the one that has probed it */
int ccnic_secondary_probe(struct rte_vdev_device *vdev);

/* ccnic_args.c */
int ccnic_args_parse(struct rte_vdev_device *vdev, struct ccnic_args *args);
void ccnic_args_log_error(const char *device, const struct ccnic_args *args, int error);

/* ccnic_link.c */
int ccnic_link_update(struct rte_eth_dev *dev, int wait_to_complete);
int ccnic_link_up(struct rte_eth_dev *dev);
int ccnic_link_down(struct rte_eth_dev *dev);
/* Reports a change of the link to the application, which may stop the device in the callback. */
void ccnic_link_report(struct rte_eth_dev *dev);
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
/* Assigns pairs to receive queues. With role=nic the pairs need not be open. */
void ccnic_queues_assign(struct rte_eth_dev *dev);
/* The longest packet that a receive queue accepts with this MTU. */
uint16_t ccnic_rx_longest(const struct rte_eth_dev *dev, uint16_t mtu);
/* True if packets may arrive in several segments; says so if the application has not asked for that. */
bool ccnic_rx_is_scattered(const struct rte_eth_dev *dev);
void ccnic_queues_state(struct rte_eth_dev *dev, uint8_t state);
int ccnic_rx_queue_start(struct rte_eth_dev *dev, uint16_t index);
int ccnic_rx_queue_stop(struct rte_eth_dev *dev, uint16_t index);
int ccnic_tx_queue_start(struct rte_eth_dev *dev, uint16_t index);
int ccnic_tx_queue_stop(struct rte_eth_dev *dev, uint16_t index);
int ccnic_queues_start(struct rte_eth_dev *dev);
void ccnic_queues_stop(struct rte_eth_dev *dev);
void ccnic_rxq_info(struct rte_eth_dev *dev, uint16_t index, struct rte_eth_rxq_info *info);
void ccnic_txq_info(struct rte_eth_dev *dev, uint16_t index, struct rte_eth_txq_info *info);
int ccnic_rx_burst_mode(struct rte_eth_dev *dev, uint16_t index, struct rte_eth_burst_mode *mode);
int ccnic_tx_burst_mode(struct rte_eth_dev *dev, uint16_t index, struct rte_eth_burst_mode *mode);
ccnic_queue_count ccnic_rx_queue_count(void *queue);
int ccnic_rx_descriptor_status(void *queue, uint16_t offset);
int ccnic_tx_descriptor_status(void *queue, uint16_t offset);
int ccnic_priv_dump(struct rte_eth_dev *dev, FILE *out);

/* ccnic_rss.c */
void ccnic_rss_info(struct rte_eth_dev_info *info);
int ccnic_rss_configure(struct rte_eth_dev *dev);
int ccnic_rss_start(struct rte_eth_dev *dev);
int ccnic_rss_hash_update(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int ccnic_rss_hash_conf_get(struct rte_eth_dev *dev, struct rte_eth_rss_conf *conf);
int ccnic_rss_reta_update(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *reta, uint16_t size);
int ccnic_rss_reta_query(struct rte_eth_dev *dev, struct rte_eth_rss_reta_entry64 *reta, uint16_t size);

/* ccnic_flow.c */
int ccnic_flow_ops_get(struct rte_eth_dev *dev, const struct rte_flow_ops **ops);
/* Destroys all rules. */
void ccnic_flow_close(struct rte_eth_dev *dev);

/* ccnic_intr.c */
int ccnic_rx_intr_enable(struct rte_eth_dev *dev, uint16_t index);
int ccnic_rx_intr_disable(struct rte_eth_dev *dev, uint16_t index);
/* Adds to the epoll instance of a receive queue what notifies it: of role=program. 0 or a negative errno. */
typedef int (*ccnic_intr_joins)(struct ccnic_rxq *rxq, int epoll);
int ccnic_intr_join(struct ccnic_rxq *rxq, int epoll);
/* Adds a descriptor, if it is one and not an error. */
int ccnic_intr_add(int epoll, int fd);
/* Sets up receive interrupts of the queues if they are configured. */
int ccnic_intr_start(struct rte_eth_dev *dev, ccnic_intr_joins join);
void ccnic_intr_stop(struct rte_eth_dev *dev);
void ccnic_intr_close(struct rte_eth_dev *dev);
/* Notifies all threads that wait for receive interrupts. */
void ccnic_intr_notify(struct rte_eth_dev *dev);

/* ccnic_monitor.c */
int ccnic_get_monitor_addr(void *queue, struct rte_power_monitor_cond *pmc);

/* ccnic_rx.c, ccnic_tx.c */
uint16_t ccnic_recv(void *queue, struct rte_mbuf **pkts, uint16_t n);
uint16_t ccnic_xmit(void *queue, struct rte_mbuf **pkts, uint16_t n);
/* ccnic_tx_offload.c: the same with transmit offloads */
uint16_t ccnic_xmit_offloads(void *queue, struct rte_mbuf **pkts, uint16_t n);
/* Without promiscuous mode: drops packets whose destination address does not match; returns the number of the others. */
uint16_t ccnic_filter(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n);

/* ccnic_nic_role.c: role=nic */
struct ccnic_nic_stats;
int ccnic_nic_role_open(const struct ccnic_args *args, struct ccnic_nic_role **role);
void ccnic_nic_role_free(struct ccnic_nic_role *role);
/* Lets programs attach from now on. */
int ccnic_nic_role_watch(struct rte_eth_dev *dev);
/* Undoes both. */
void ccnic_nic_role_close(struct rte_eth_dev *dev);
void ccnic_nic_role_start(struct rte_eth_dev *dev);
void ccnic_nic_role_stop(struct rte_eth_dev *dev);
/* libccnic's counters of all programs since the last reset. */
void ccnic_nic_role_sum(struct ccnic_dev *dev, struct ccnic_nic_stats *sum, uint64_t *programs);
void ccnic_nic_role_reset(struct ccnic_dev *dev);
void ccnic_nic_role_dump(struct ccnic_dev *dev, FILE *out);

/* ccnic_nic_role_intr.c: role=nic, receive interrupts */
int ccnic_nic_role_intr_enable(struct rte_eth_dev *dev, uint16_t index);
int ccnic_nic_role_intr_disable(struct rte_eth_dev *dev, uint16_t index);
int ccnic_nic_role_intr_join(struct ccnic_rxq *rxq, int epoll);
void ccnic_nic_role_intr_stop(struct rte_eth_dev *dev);

/* ccnic_nic_role_rx.c, ccnic_nic_role_tx.c: role=nic */
uint16_t ccnic_nic_role_recv(void *queue, struct rte_mbuf **pkts, uint16_t n);
uint16_t ccnic_nic_role_xmit(void *queue, struct rte_mbuf **pkts, uint16_t n);
uint16_t ccnic_nic_role_xmit_offloads(void *queue, struct rte_mbuf **pkts, uint16_t n);

/* ccnic_stats.c, and ccnic_compat.h */
int ccnic_stats_reset(struct rte_eth_dev *dev);
int ccnic_xstats_get(struct rte_eth_dev *dev, struct rte_eth_xstat *xstats, unsigned int n);
int ccnic_xstats_get_names(struct rte_eth_dev *dev, struct rte_eth_xstat_name *names, unsigned int n);

#endif /* CCNIC_NET_H */
