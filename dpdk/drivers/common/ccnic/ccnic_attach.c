/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Attachments to NICs: references to them, and reconnecting when the NIC ends and a successor starts. Their buffers are in
 * ccnic_buffers.c.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_memory.h>

#include "ccnic_attach.h"
#include "ccnic_buffers.h"

RTE_LOG_REGISTER(ccnic_common_logtype, pmd.common.ccnic, NOTICE);

TAILQ_HEAD(ccnic_attaches, ccnic_attach);

/* Protects the list. Taken before any lock that a device takes in pause(). */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccnic_attaches attaches = TAILQ_HEAD_INITIALIZER(attaches);

uint32_t ccnic_attach_generation;

static struct ccnic_attach *
find(const char *device)
{
	struct ccnic_attach *att;

	TAILQ_FOREACH(att, &attaches, next)
		if (strcmp(att->conf.device, device) == 0 && att->owned && att->conf.bind)
			return att;
	return NULL;
}

static void *
first_buffer(const struct ccnic_attach *att)
{
	return att->view.base + att->view.first;
}

/*
 * Registers the buffers with EAL as external memory, so that drivers that look up the memory of an mbuf find it, and an application
 * can map it for its devices (rte_dev_dma_map()).
 */
static void
register_buffers(struct ccnic_attach *att)
{
	att->registered = rte_extmem_register(first_buffer(att), att->view.span, NULL, 0, CCNIC_LARGE_SIZE) == 0;
	if (!att->registered)
		ATTACH_LOG(WARNING, "%s: could not register its buffers as external memory (%s): devices that do DMA may not find them;"
			   " choose zero-copy=no to forward to such", att->conf.device, rte_strerror(rte_errno));
}

static void
unregister(struct ccnic_attach *att)
{
	if (att->registered && rte_extmem_unregister(first_buffer(att), att->view.span) < 0)
		ATTACH_LOG(ERR, "%s: EAL keeps its buffers as external memory: %s", att->conf.device, rte_strerror(rte_errno));
}

/* Destroys an attachment without references, from devices, mempools or mbufs. */
static void
destroy(struct ccnic_attach *att)
{
	TAILQ_REMOVE(&attaches, att, next);
	unregister(att);
	ccnic_pool_close(att->pool);
	if (ccnic_close(att->nic) < 0)
		ATTACH_LOG(ERR, "%s: %s", att->conf.device, ccnic_last_error());
	rte_free(att->ext);
	rte_free(att);
}

/* Destroys attachments without references. One that mbufs still refer to stays until the next call. */
static void
sweep(void)
{
	struct ccnic_attach *att, *next;

	for (att = TAILQ_FIRST(&attaches); att != NULL; att = next) {
		next = TAILQ_NEXT(att, next);
		if (att->refs == 0 && __atomic_load_n(&att->lent, __ATOMIC_ACQUIRE) == ccnic_buffers_cached(att))
			destroy(att);
	}
}

static int
attach(struct ccnic_attach *att)
{
	int ret;

	att->conf.options.name = att->conf.id;
	ret = ccnic_open(att->conf.socket, &att->conf.options, &att->nic);
	/* Only compared from now on. */
	att->conf.options.name = NULL;
	if (ret < 0)
		return ret;
	ret = ccnic_memory(att->nic, &att->view);
	if (ret == 0)
		ret = ccnic_pool_open(att->nic, &att->pool);
	if (ret < 0) {
		ccnic_close(att->nic);
		return ret;
	}
	att->buffers = att->view.span / CCNIC_LARGE_SIZE;
	att->ext = rte_malloc("ccnic_ext", att->buffers * sizeof(att->ext[0]), 0);
	if (att->ext == NULL) {
		ccnic_pool_close(att->pool);
		ccnic_close(att->nic);
		return -ENOMEM;
	}
	ccnic_buffers_init(att);
	if (att->conf.bind)
		register_buffers(att);
	return 0;
}

static int
create(const struct ccnic_attach_conf *conf, struct ccnic_attach **out)
{
	struct ccnic_attach *att = rte_zmalloc("ccnic_attach", sizeof(*att), RTE_CACHE_LINE_SIZE);
	int ret;

	if (att == NULL)
		return -ENOMEM;
	att->conf = *conf;
	rte_spinlock_init(&att->lock);
	ret = attach(att);
	if (ret < 0) {
		ATTACH_LOG(ERR, "%s: %s", conf->device, ccnic_last_error());
		rte_free(att);
		return ret;
	}
	TAILQ_INSERT_TAIL(&attaches, att, next);
	*out = att;
	return 0;
}

int
ccnic_attach_open(const struct ccnic_attach_conf *conf, struct ccnic_attach **out)
{
	struct ccnic_attach *att;
	int ret = 0;

	pthread_mutex_lock(&list_lock);
	TAILQ_FOREACH(att, &attaches, next)
		if (!att->owned && memcmp(&att->conf, conf, sizeof(*conf)) == 0)
			break;
	if (att == NULL)
		ret = create(conf, &att);
	if (ret == 0) {
		att->owned = true;
		att->refs++;
		__atomic_fetch_add(&ccnic_attach_generation, 1, __ATOMIC_RELEASE);
		*out = att;
	}
	sweep();
	pthread_mutex_unlock(&list_lock);
	return ret;
}

void
ccnic_attach_close(struct ccnic_attach *att)
{
	pthread_mutex_lock(&list_lock);
	att->user = NULL;
	att->owned = false;
	att->refs--;
	sweep();
	pthread_mutex_unlock(&list_lock);
}

struct ccnic_attach *
ccnic_attach_hold(const char *device)
{
	struct ccnic_attach *att, *only = NULL;
	unsigned int devices = 0;

	pthread_mutex_lock(&list_lock);
	TAILQ_FOREACH(att, &attaches, next) {
		if (!att->owned || !att->conf.bind)
			continue;
		only = att;
		devices++;
	}
	if (device != NULL)
		att = find(device);
	else
		att = devices == 1 ? only : NULL;
	if (att != NULL)
		att->refs++;
	pthread_mutex_unlock(&list_lock);
	return att;
}

void
ccnic_attach_ref(struct ccnic_attach *att)
{
	pthread_mutex_lock(&list_lock);
	att->refs++;
	pthread_mutex_unlock(&list_lock);
}

void
ccnic_attach_release(struct ccnic_attach *att)
{
	pthread_mutex_lock(&list_lock);
	att->refs--;
	sweep();
	pthread_mutex_unlock(&list_lock);
}

static void
reconnect(struct ccnic_attach *att)
{
	int ret;

	if (att->user != NULL && !att->user->pause(att->user))
		return;
	rte_spinlock_lock(&att->lock);
	ret = ccnic_reconnect(att->nic);
	rte_spinlock_unlock(&att->lock);
	if (att->user != NULL)
		att->user->resume(att->user);
	if (ret < 0) {
		ATTACH_LOG(DEBUG, "%s: %s", att->conf.device, ccnic_last_error());
		return;
	}
	att->reconnects++;
	att->reclaimed += ret;
	ATTACH_LOG(NOTICE, "%s: attached to the NIC that now listens at %s; %d buffers returned", att->conf.device,
		   att->conf.socket, ret);
	if (att->spread && ccnic_rss_active(att->nic) != 1)
		ATTACH_LOG(WARNING, "%s: this NIC does not support RSS: packets arrive on the queue that it chooses", att->conf.device);
}

int
ccnic_attach_rss(struct ccnic_attach *att, const struct ccnic_rss *rss)
{
	int ret;

	pthread_mutex_lock(&list_lock);
	ret = ccnic_rss_set(att->nic, rss);
	att->spread = rss != NULL;
	pthread_mutex_unlock(&list_lock);
	return ret;
}

int
ccnic_attach_takes(struct ccnic_attach *att, uint32_t takes)
{
	int ret;

	pthread_mutex_lock(&list_lock);
	ret = ccnic_takes_set(att->nic, takes);
	pthread_mutex_unlock(&list_lock);
	return ret;
}

int
ccnic_attach_offloads(struct ccnic_attach *att)
{
	int ret;

	pthread_mutex_lock(&list_lock);
	ret = ccnic_offloads(att->nic);
	pthread_mutex_unlock(&list_lock);
	return ret;
}

bool
ccnic_attach_check(struct ccnic_attach *att)
{
	bool up;

	pthread_mutex_lock(&list_lock);
	if (ccnic_link_state(att->nic) == 0)
		reconnect(att);
	up = ccnic_link_state(att->nic) == 1;
	pthread_mutex_unlock(&list_lock);
	return up;
}
