/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * role=nic, control. An alarm lets programs attach, notices that they go, and gives the queue pairs of the program at hand to the data
 * path: under the lock it takes each pair away from its bursts, opens or closes its queue, and hands it back. What cannot be
 * had in time is tried again in the next look, so no look waits for long and nothing is unmapped that a burst still uses.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <rte_alarm.h>
#include <rte_malloc.h>

#include "ccnic_side.h"

#define WATCH_US 10000
/* Looks for which a program that has gone is served at most: what it has still sent is received. */
#define FAREWELL 10

#define WORDS (sizeof(struct ccnic_nic_stats) / sizeof(uint64_t))

/* Reads the counters of an open pair, which the caller has. */
static void
read_counters(struct ccnic_dev *dev, uint16_t i)
{
	ccnic_nic_queue_stats(dev->pair[i].nic_queue, &dev->side->last[i], sizeof(dev->side->last[i]));
}

/* Opens pair i of the program at hand; 0, -EAGAIN when the data path is in the way, or another error. */
static int
open_pair(struct ccnic_dev *dev, uint16_t i)
{
	struct ccnic_pair *pair = &dev->pair[i];
	int ret;

	if (pair->nic_queue != NULL)
		return 0;
	if (!ccnic_pair_pause(pair))
		return -EAGAIN;
	ret = ccnic_nic_queue_open(dev->side->program, i, &pair->nic_queue);
	ccnic_pair_resume(pair);
	return ret;
}

/* Gives back what has been fetched and nobody received. */
static void
drop_fetched(struct ccnic_dev *dev, struct ccnic_pair *pair)
{
	const struct ccnic_buf *bufs = &pair->bufs[pair->next];
	uint16_t i;

	for (i = 0; i < pair->waiting; i++)
		dev->side->past.rx_dropped_close += !ccnic_buf_more(&bufs[i]);
	ccnic_nic_buf_free(pair->nic_queue, bufs, pair->waiting);
	pair->waiting = 0;
}

/* Closes pair i; false when the data path is in the way. */
static bool
close_pair(struct ccnic_dev *dev, uint16_t i)
{
	struct ccnic_pair *pair = &dev->pair[i];

	if (pair->nic_queue == NULL)
		return true;
	if (!ccnic_pair_pause(pair))
		return false;
	drop_fetched(dev, pair);
	read_counters(dev, i);
	ccnic_nic_queue_close(pair->nic_queue);
	pair->nic_queue = NULL;
	ccnic_pair_resume(pair);
	return true;
}

/* Gives the program's pairs to the data path. */
static void
open_pairs(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_side *side = dev->side;
	uint16_t i;
	int ret;

	if (side->serving != 0)
		return;
	side->longest = side->info.mtu;
	for (i = 0; i < side->info.queues; i++) {
		ret = open_pair(dev, i);
		if (ret == -EAGAIN)
			return;
		if (ret < 0) {
			NET_LOG(ERR, "port %u: %s: queue %u: %s; it is let go", eth->data->port_id, side->info.name, i, ccnic_last_error());
			side->farewell = FAREWELL;
			return;
		}
	}
	__atomic_store_n(&side->serving, side->info.queues, __ATOMIC_RELEASE);
}

/* Takes the program's pairs from the data path; true when it has none any more. */
static bool
close_pairs(struct ccnic_dev *dev)
{
	bool all = true;
	uint16_t i;

	__atomic_store_n(&dev->side->serving, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&dev->side->sending, 0, __ATOMIC_RELAXED);
	for (i = 0; i < dev->side->info.queues; i++)
		all &= close_pair(dev, i);
	return all;
}

static void
add(struct ccnic_nic_stats *sum, const struct ccnic_nic_stats *more)
{
	size_t i;

	for (i = 0; i < WORDS; i++)
		((uint64_t *)sum)[i] += ((const uint64_t *)more)[i];
}

/* A program's name is its word: nothing in it shall steer the terminal that a log is read on. */
static void
clean_name(char *name)
{
	for (; *name != '\0'; name++)
		if (iscntrl((unsigned char)*name))
			*name = '?';
}

/* Takes over the next program that waits, if one does. */
static void
welcome(struct rte_eth_dev *eth)
{
	struct ccnic_side *side = ccnic_dev_of(eth)->side;
	const struct ccnic_program_info *info = &side->info;

	if (ccnic_nic_accept(side->nic, &side->program) < 0)
		return;
	ccnic_program_info(side->program, &side->info, sizeof(side->info));
	clean_name(side->info.name);
	side->farewell = 0;
	side->programs++;
	NET_LOG(NOTICE, "port %u: %s (process %" PRId32 ") has attached: %" PRIu32 " queues of %" PRIu32 " descriptors, packets up to %"
		PRIu32 " bytes, " RTE_ETHER_ADDR_PRT_FMT, eth->data->port_id, info->name, info->pid, info->queues, info->ring, info->mtu,
		RTE_ETHER_ADDR_BYTES((const struct rte_ether_addr *)info->mac));
	if (info->queues > eth->data->nb_tx_queues)
		NET_LOG(NOTICE, "port %u: %s has %" PRIu32 " queues, the port %u to send on: packets come on the program's first ones only",
			eth->data->port_id, info->name, info->queues, eth->data->nb_tx_queues);
}

/* Lets the program go, whose pairs are closed. */
static void
release(struct ccnic_side *side)
{
	uint16_t i;

	for (i = 0; i < side->info.queues; i++)
		add(&side->past, &side->last[i]);
	memset(side->last, 0, sizeof(side->last));
	ccnic_program_release(side->program);
	side->program = NULL;
	side->info.queues = 0;
}

/* The program has been seen to be gone. */
static void
begin_farewell(struct ccnic_dev *dev)
{
	uint16_t i;

	dev->side->farewell = 1;
	for (i = 0; i < dev->side->info.queues; i++)
		dev->pair[i].empty_then = __atomic_load_n(&dev->pair[i].empty, __ATOMIC_RELAXED);
}

/* True when nothing is left of what the program had sent: the second of two bursts began after it had gone. */
static bool
is_drained(const struct ccnic_dev *dev)
{
	uint16_t i;

	for (i = 0; i < dev->side->info.queues; i++)
		if (__atomic_load_n(&dev->pair[i].empty, __ATOMIC_RELAXED) - dev->pair[i].empty_then < 2)
			return false;
	return true;
}

/* Another look at a program that has gone, or may have. */
static void
follow(struct ccnic_dev *dev)
{
	struct ccnic_side *side = dev->side;

	if (side->farewell == 0) {
		if (ccnic_program_link_state(side->program) != 1)
			begin_farewell(dev);
	} else if (is_drained(dev)) {
		side->farewell = FAREWELL + 1;
	} else if (side->farewell <= FAREWELL) {
		side->farewell++;
	}
}

/* Brings pairs and programs to where they should be. The caller has the lock. */
static void
settle(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_side *side = dev->side;

	if (side->program == NULL && dev->started)
		welcome(eth);
	if (side->program == NULL)
		return;
	follow(dev);
	if (dev->started && side->farewell <= FAREWELL)
		open_pairs(eth);
	else if (close_pairs(dev) && side->farewell > 0)
		release(side);
	__atomic_store_n(&side->sending, side->farewell == 0 ? side->serving : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&dev->peer_up, side->sending != 0, __ATOMIC_RELAXED);
}

static void
watch(void *arg)
{
	struct rte_eth_dev *eth = arg;
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	bool started;

	ccnic_nic_poll(dev->side->nic, 0);
	pthread_mutex_lock(&dev->side->lock);
	settle(eth);
	started = dev->started;
	pthread_mutex_unlock(&dev->side->lock);
	/* Before the callback, in which the application may close the device. */
	if (rte_eal_alarm_set(WATCH_US, watch, eth) < 0)
		NET_LOG(ERR, "port %u: nobody lets programs attach any more: the alarm could not be set", eth->data->port_id);
	if (started)
		ccnic_link_tell(eth);
}

void
ccnic_side_start(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	pthread_mutex_lock(&dev->side->lock);
	dev->started = true;
	settle(eth);
	dev->told_up = dev->peer_up && !dev->link_down;
	pthread_mutex_unlock(&dev->side->lock);
	ccnic_link_update(eth, 0);
}

void
ccnic_side_stop(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	pthread_mutex_lock(&dev->side->lock);
	dev->started = false;
	if (!close_pairs(dev))
		NET_LOG(ERR, "port %u: stopped while a thread is in a burst", eth->data->port_id);
	dev->told_up = false;
	pthread_mutex_unlock(&dev->side->lock);
	ccnic_link_update(eth, 0);
}

void
ccnic_side_sum(struct ccnic_dev *dev, struct ccnic_nic_stats *sum, uint64_t *programs)
{
	struct ccnic_side *side = dev->side;
	uint16_t i;

	pthread_mutex_lock(&side->lock);
	*sum = side->past;
	for (i = 0; i < side->info.queues; i++) {
		struct ccnic_pair *pair = &dev->pair[i];

		if (pair->nic_queue != NULL && ccnic_pair_lock(pair)) {
			read_counters(dev, i);
			ccnic_pair_unlock(pair);
		}
		add(sum, &side->last[i]);
	}
	for (i = 0; i < WORDS; i++)
		((uint64_t *)sum)[i] -= ((const uint64_t *)&side->base)[i];
	*programs = side->programs;
	pthread_mutex_unlock(&side->lock);
}

void
ccnic_side_reset(struct ccnic_dev *dev)
{
	struct ccnic_nic_stats sum;
	uint64_t programs;

	ccnic_side_sum(dev, &sum, &programs);
	pthread_mutex_lock(&dev->side->lock);
	add(&dev->side->base, &sum);
	pthread_mutex_unlock(&dev->side->lock);
}

void
ccnic_side_dump(struct ccnic_dev *dev, FILE *out)
{
	struct ccnic_side *side = dev->side;
	const struct ccnic_program_info *info = &side->info;

	pthread_mutex_lock(&side->lock);
	fprintf(out, "NIC at socket: %s, programs served: %" PRIu64 "\n", side->socket, side->programs);
	if (side->program != NULL)
		fprintf(out, "program: %s, process %" PRId32 ", %" PRIu32 " queues of %" PRIu32 " descriptors, packets up to %" PRIu32
			" bytes, %s\n", info->name, info->pid, info->queues, info->ring, info->mtu, side->farewell > 0 ? "gone" : "alive");
	pthread_mutex_unlock(&side->lock);
}

/* What to do when nobody can attach. */
static void
explain(const char *device, const char *socket, int error)
{
	if (error == -EADDRINUSE)
		NET_LOG(ERR, "%s: another NIC listens at socket=%s; end it, or choose another socket=", device, socket);
	else
		NET_LOG(ERR, "%s: could not listen at socket=%s: %s", device, socket, ccnic_last_error());
}

int
ccnic_side_open(const struct ccnic_args *args, struct ccnic_side **out)
{
	const struct ccnic_attach_conf *conf = &args->attach;
	struct ccnic_nic_options options;
	struct ccnic_side *side = rte_zmalloc("ccnic_side", sizeof(*side), RTE_CACHE_LINE_SIZE);
	int ret;

	if (side == NULL) {
		NET_LOG(ERR, "%s: no memory for the device", conf->device);
		return -ENOMEM;
	}
	ccnic_nic_options_init(&options);
	options.name = conf->id;
	options.node = rte_socket_id() == (unsigned int)SOCKET_ID_ANY ? 0 : rte_socket_id();
	ret = ccnic_nic_listen(conf->socket, &options, &side->nic);
	if (ret < 0) {
		explain(conf->device, conf->socket, ret);
		rte_free(side);
		return ret;
	}
	memcpy(side->socket, conf->socket, sizeof(side->socket));
	pthread_mutex_init(&side->lock, NULL);
	*out = side;
	return 0;
}

int
ccnic_side_watch(struct rte_eth_dev *eth)
{
	return rte_eal_alarm_set(WATCH_US, watch, eth);
}

void
ccnic_side_close(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_side *side = dev->side;

	rte_eal_alarm_cancel(watch, eth);
	if (side->program != NULL && close_pairs(dev))
		release(side);
	if (side->program != NULL) {
		/* Unmapping the region under a burst would end the process. */
		NET_LOG(ERR, "port %u: closed while a thread is in a burst: its memory is kept", eth->data->port_id);
		return;
	}
	ccnic_side_free(side);
	dev->side = NULL;
}

void
ccnic_side_free(struct ccnic_side *side)
{
	ccnic_nic_close(side->nic);
	pthread_mutex_destroy(&side->lock);
	rte_free(side);
}
