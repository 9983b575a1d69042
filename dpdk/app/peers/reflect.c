/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The NIC side of drivers without one: returns all packets in bursts, on a core of its own. */
#include "peers.h"

#include <rte_ethdev.h>
#include <rte_memcpy.h>
#include <rte_pause.h>

#include "prefetch.h"

/* Sends a whole burst and retries while the other side's ring is full. Frees the rest when the program is stopped. */
static void send_all(uint16_t port, struct rte_mbuf **mbufs, uint16_t n)
{
	uint16_t sent = rte_eth_tx_burst(port, 0, mbufs, n);

	while (unlikely(sent < n) && !stopped) {
		rte_pause();
		sent += rte_eth_tx_burst(port, 0, mbufs + sent, n - sent);
	}
	if (unlikely(sent < n))
		rte_pktmbuf_free_bulk(mbufs + sent, n - sent);
}

int reflect_forward(uint16_t port)
{
	struct rte_mbuf *mbufs[BURST];

	while (!stopped) {
		uint16_t n = rte_eth_rx_burst(port, 0, mbufs, BURST);

		if (n > 0)
			send_all(port, mbufs, n);
		else
			rte_pause();
	}
	return 0;
}

/* Copies packets into new mbufs, as NICs do whose two sides share no buffers. The mbufs of both sides hold whole packets. */
static void copy(struct rte_mbuf **to, struct rte_mbuf **from, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		prefetch_packet(from[i]);
	for (uint16_t i = 0; i < n; i++) {
		to[i]->data_len = from[i]->data_len;
		to[i]->pkt_len = from[i]->pkt_len;
		rte_memcpy(rte_pktmbuf_mtod(to[i], void *), rte_pktmbuf_mtod(from[i], void *), from[i]->data_len);
	}
}

int reflect_copies(uint16_t port, struct rte_mempool *pool)
{
	struct rte_mbuf *from[BURST], *to[BURST];

	while (!stopped) {
		uint16_t n = rte_eth_rx_burst(port, 0, from, BURST);

		if (n == 0) {
			rte_pause();
			continue;
		}
		for (uint16_t i = 0; i < n; i++)
			prefetch_own(from[i]);
		while (take_mbufs(pool, to, n) < 0 && !stopped)
			rte_pause();
		if (stopped)
			break;
		copy(to, from, n);
		send_all(port, to, n);
		rte_pktmbuf_free_bulk(from, n);
	}
	return 0;
}
