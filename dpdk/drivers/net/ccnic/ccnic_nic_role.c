/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * role=nic, control. An alarm attaches programs, detects that they have ended, and gives the queue pairs of the current program to the
 * data path: under the lock it pauses each pair, opens or closes its queue, and resumes it. A pair that is not available in time is
 * tried again at the next alarm. So no alarm blocks for long, and no region is unmapped while a burst uses it.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <rte_alarm.h>
#include <rte_malloc.h>

#include "ccnic_nic_role.h"
#include "ccnic_rx.h"

#define WATCH_US 10000
/* Alarms for which a program that has ended is still served, so that the packets that it had sent are received. */
#define DRAIN_LOOKS 10

#define WORDS (sizeof(struct ccnic_nic_stats) / sizeof(uint64_t))

/* Reads the counters of an open pair, which the caller has locked. */
static void
read_counters(struct ccnic_dev *dev, uint16_t i)
{
	ccnic_nic_queue_stats(dev->pair[i].nic_queue, &dev->nic_role->last[i], sizeof(dev->nic_role->last[i]));
}

/* Opens pair i of the current program. Returns 0, -EAGAIN if a burst keeps the pair, or another error. */
static int
open_pair(struct ccnic_dev *dev, uint16_t i)
{
	struct ccnic_pair *pair = &dev->pair[i];
	int ret;

	if (pair->nic_queue != NULL)
		return 0;
	if (!ccnic_pair_pause(pair))
		return -EAGAIN;
	ret = ccnic_nic_queue_open(dev->nic_role->program, i, &pair->nic_queue);
	if (ret == 0)
		ccnic_nic_role_intr_opened(dev, i);
	ccnic_pair_resume(pair);
	return ret;
}

/* Frees packets that were fetched and not received. */
static void
drop_fetched(struct ccnic_dev *dev, struct ccnic_pair *pair)
{
	const struct ccnic_buf *bufs = &pair->bufs[pair->next];
	uint16_t i;

	for (i = 0; i < pair->waiting; i++)
		dev->nic_role->past.rx_dropped_close += !ccnic_buf_more(&bufs[i]);
	ccnic_nic_buf_free(pair->nic_queue, bufs, pair->waiting);
	pair->waiting = 0;
}

/* Closes pair i; false if a burst keeps it. */
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

/* Opens all pairs of the program for the data path. */
static void
open_pairs(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_nic_role *role = dev->nic_role;
	uint16_t i;
	int ret;

	if (role->serving != 0)
		return;
	role->longest = role->info.mtu;
	for (i = 0; i < role->info.queues; i++) {
		ret = open_pair(dev, i);
		if (ret == -EAGAIN)
			return;
		if (ret < 0) {
			NET_LOG(ERR, "port %u: %s: queue %u: %s; the program is disconnected", eth->data->port_id, role->info.name, i, ccnic_last_error());
			role->drain_looks = DRAIN_LOOKS;
			return;
		}
	}
	__atomic_store_n(&role->serving, role->info.queues, __ATOMIC_RELEASE);
}

/* Closes all pairs of the program; true if none is open any more. */
static bool
close_pairs(struct ccnic_dev *dev)
{
	bool all = true;
	uint16_t i;

	__atomic_store_n(&dev->nic_role->serving, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&dev->nic_role->sending, 0, __ATOMIC_RELAXED);
	for (i = 0; i < dev->nic_role->info.queues; i++)
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

/* Replaces control characters in a program's name, which could otherwise control the terminal that shows the log. */
static void
clean_name(char *name)
{
	for (; *name != '\0'; name++)
		if (iscntrl((unsigned char)*name))
			*name = '?';
}

/* Accepts the next program that has attached, if there is one. */
static void
accept_program(struct rte_eth_dev *eth)
{
	struct ccnic_nic_role *role = ccnic_dev_of(eth)->nic_role;
	const struct ccnic_program_info *info = &role->info;

	if (!ccnic_listener_accept(role))
		return;
	ccnic_program_info(role->program, &role->info, sizeof(role->info));
	clean_name(role->info.name);
	role->drain_looks = 0;
	role->programs++;
	NET_LOG(NOTICE, "port %u: %s (process %" PRId32 ") has attached: %" PRIu32 " queues of %" PRIu32 " descriptors, packets up to %"
		PRIu32 " bytes, " RTE_ETHER_ADDR_PRT_FMT, eth->data->port_id, info->name, info->pid, info->queues, info->ring, info->mtu,
		RTE_ETHER_ADDR_BYTES((const struct rte_ether_addr *)info->mac));
	if (info->queues > eth->data->nb_tx_queues)
		NET_LOG(NOTICE, "port %u: %s has %" PRIu32 " queues, the port %u transmit queues: the program receives packets on its first ones only",
			eth->data->port_id, info->name, info->queues, eth->data->nb_tx_queues);
}

/* Releases the program, whose pairs are closed. */
static void
release(struct ccnic_nic_role *role)
{
	uint16_t i;

	for (i = 0; i < role->info.queues; i++)
		add(&role->past, &role->last[i]);
	memset(role->last, 0, sizeof(role->last));
	ccnic_program_release(role->program);
	role->program = NULL;
	role->info.queues = 0;
}

/* The end of the program was detected. */
static void
begin_drain(struct ccnic_dev *dev)
{
	uint16_t i;

	dev->nic_role->drain_looks = 1;
	for (i = 0; i < dev->nic_role->info.queues; i++)
		dev->pair[i].empty_at_end = __atomic_load_n(&dev->pair[i].empty_polls, __ATOMIC_RELAXED);
}

/* True if no packets of the program are left: of two polls that found none, the second began after its end. */
static bool
is_drained(const struct ccnic_dev *dev)
{
	uint16_t i;

	for (i = 0; i < dev->nic_role->info.queues; i++)
		if (__atomic_load_n(&dev->pair[i].empty_polls, __ATOMIC_RELAXED) - dev->pair[i].empty_at_end < 2)
			return false;
	return true;
}

/* Checks whether the program has ended, and how far its rings have been drained. */
static void
check_program(struct ccnic_dev *dev)
{
	struct ccnic_nic_role *role = dev->nic_role;

	if (ccnic_listener_told_otherwise(role)) {
		/* It is disconnected, and attaches again. */
		role->drain_looks = DRAIN_LOOKS + 1;
	} else if (role->drain_looks == 0) {
		if (ccnic_program_link_state(role->program) != 1)
			begin_drain(dev);
	} else if (is_drained(dev)) {
		role->drain_looks = DRAIN_LOOKS + 1;
	} else if (role->drain_looks <= DRAIN_LOOKS) {
		role->drain_looks++;
	}
}

/* Accepts, opens, closes and releases as the state of the port and of the program requires. The caller holds the lock. */
static void
update_state(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_nic_role *role = dev->nic_role;

	if (role->program == NULL && dev->started)
		accept_program(eth);
	if (role->program == NULL)
		return;
	check_program(dev);
	if (dev->started && role->drain_looks <= DRAIN_LOOKS)
		open_pairs(eth);
	else if (close_pairs(dev) && role->drain_looks > 0)
		release(role);
	if (role->program == NULL) {
		__atomic_store_n(&dev->peer_up, false, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&role->takes, RTE_MAX(ccnic_program_takes(role->program), 0), __ATOMIC_RELAXED);
	__atomic_store_n(&role->sending, role->drain_looks == 0 ? role->serving : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&dev->peer_up, role->sending != 0, __ATOMIC_RELAXED);
}

static void
watch(void *arg)
{
	struct rte_eth_dev *eth = arg;
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	bool started;

	ccnic_listener_poll(dev->nic_role);
	pthread_mutex_lock(&dev->nic_role->lock);
	update_state(eth);
	ccnic_nic_role_intr_look(dev);
	started = dev->started;
	pthread_mutex_unlock(&dev->nic_role->lock);
	/* Before the callback, because the application may close the device in it. */
	if (rte_eal_alarm_set(WATCH_US, watch, eth) < 0)
		NET_LOG(ERR, "port %u: programs can no longer attach: the alarm could not be set", eth->data->port_id);
	if (started)
		ccnic_link_report(eth);
}

void
ccnic_nic_role_start(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	pthread_mutex_lock(&dev->nic_role->lock);
	ccnic_listener_tell(dev->nic_role, ccnic_takes_of(eth->data));
	dev->started = true;
	update_state(eth);
	dev->reported_up = dev->peer_up && !dev->link_down;
	pthread_mutex_unlock(&dev->nic_role->lock);
	ccnic_link_update(eth, 0);
}

void
ccnic_nic_role_stop(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	uint16_t i;

	pthread_mutex_lock(&dev->nic_role->lock);
	dev->started = false;
	if (close_pairs(dev))
		for (i = 0; i < eth->data->nb_rx_queues; i++)
			ccnic_rx_return_fresh(eth->data->rx_queues[i]);
	else
		NET_LOG(ERR, "port %u: stopped while a thread is in a burst", eth->data->port_id);
	dev->reported_up = false;
	pthread_mutex_unlock(&dev->nic_role->lock);
	ccnic_link_update(eth, 0);
}

void
ccnic_nic_role_sum(struct ccnic_dev *dev, struct ccnic_nic_stats *sum, uint64_t *programs)
{
	struct ccnic_nic_role *role = dev->nic_role;
	uint16_t i;

	pthread_mutex_lock(&role->lock);
	*sum = role->past;
	for (i = 0; i < role->info.queues; i++) {
		struct ccnic_pair *pair = &dev->pair[i];

		if (pair->nic_queue != NULL && ccnic_pair_lock(pair)) {
			read_counters(dev, i);
			ccnic_pair_unlock(pair);
		}
		add(sum, &role->last[i]);
	}
	for (i = 0; i < WORDS; i++)
		((uint64_t *)sum)[i] -= ((const uint64_t *)&role->base)[i];
	*programs = role->programs;
	pthread_mutex_unlock(&role->lock);
}

void
ccnic_nic_role_reset(struct ccnic_dev *dev)
{
	struct ccnic_nic_stats sum;
	uint64_t programs;

	ccnic_nic_role_sum(dev, &sum, &programs);
	pthread_mutex_lock(&dev->nic_role->lock);
	add(&dev->nic_role->base, &sum);
	pthread_mutex_unlock(&dev->nic_role->lock);
}

void
ccnic_nic_role_dump(struct ccnic_dev *dev, FILE *out)
{
	struct ccnic_nic_role *role = dev->nic_role;
	const struct ccnic_program_info *info = &role->info;

	pthread_mutex_lock(&role->lock);
	fprintf(out, "NIC at socket: %s, programs served: %" PRIu64 "\n", ccnic_listener_socket(role), role->programs);
	if (role->program != NULL)
		fprintf(out, "program: %s, process %" PRId32 ", %" PRIu32 " queues of %" PRIu32 " descriptors, packets up to %" PRIu32
			" bytes, %s\n", info->name, info->pid, info->queues, info->ring, info->mtu, role->drain_looks > 0 ? "ended" : "running");
	pthread_mutex_unlock(&role->lock);
}

int
ccnic_nic_role_open(const struct ccnic_args *args, struct ccnic_nic_role **out)
{
	const struct ccnic_attach_conf *conf = &args->attach;
	struct ccnic_nic_role *role = rte_zmalloc("ccnic_nic_role", sizeof(*role), RTE_CACHE_LINE_SIZE);
	int ret;

	if (role == NULL) {
		NET_LOG(ERR, "%s: no memory for the device", conf->device);
		return -ENOMEM;
	}
	ret = ccnic_listener_join(role, conf);
	if (ret < 0) {
		rte_free(role);
		return ret;
	}
	pthread_mutex_init(&role->lock, NULL);
	*out = role;
	return 0;
}

int
ccnic_nic_role_watch(struct rte_eth_dev *eth)
{
	return rte_eal_alarm_set(WATCH_US, watch, eth);
}

void
ccnic_nic_role_close(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_nic_role *role = dev->nic_role;

	rte_eal_alarm_cancel(watch, eth);
	if (role->program != NULL && close_pairs(dev))
		release(role);
	if (role->program != NULL) {
		/* Unmapping the region under a burst would end the process. */
		NET_LOG(ERR, "port %u: closed while a thread is in a burst: its memory is kept", eth->data->port_id);
		return;
	}
	ccnic_nic_role_free(role);
	dev->nic_role = NULL;
}

void
ccnic_nic_role_free(struct ccnic_nic_role *role)
{
	ccnic_listener_leave(role);
	pthread_mutex_destroy(&role->lock);
	rte_free(role);
}
