/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Attachments to NICs: who holds them, and what happens when the NIC at the other end goes and comes back. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <rte_malloc.h>

#include "ccnic_attach.h"

RTE_LOG_REGISTER(ccnic_common_logtype, pmd.common.ccnic, NOTICE);

#define ATTACH_LOG(level, ...) \
	rte_log(RTE_LOG_ ## level, ccnic_common_logtype, \
		RTE_FMT("ccnic: " RTE_FMT_HEAD(__VA_ARGS__, "") "\n", RTE_FMT_TAIL(__VA_ARGS__, "")))

TAILQ_HEAD(ccnic_attaches, ccnic_attach);

/* The lock is taken before any that a user takes in pause(). */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccnic_attaches attaches = TAILQ_HEAD_INITIALIZER(attaches);

uint32_t ccnic_attach_generation;

static struct ccnic_attach *
find(const char *device)
{
	struct ccnic_attach *att;

	TAILQ_FOREACH(att, &attaches, next)
		if (strcmp(att->conf.device, device) == 0)
			return att;
	return NULL;
}

static int
attach(const struct ccnic_attach_conf *conf, struct ccnic_attach **out)
{
	struct ccnic_attach *att = rte_zmalloc("ccnic_attach", sizeof(*att), 0);
	int ret;

	if (att == NULL)
		return -ENOMEM;
	att->conf = *conf;
	att->conf.options.name = att->conf.id;
	TAILQ_INIT(&att->users);
	ret = ccnic_open(conf->socket, &att->conf.options, &att->nic);
	if (ret == 0)
		ret = ccnic_memory(att->nic, &att->view);
	if (ret < 0) {
		ATTACH_LOG(ERR, "%s: %s", conf->device, ccnic_last_error());
		rte_free(att);
		return ret;
	}
	/* From now on the conf is only compared. */
	att->conf.options.name = NULL;
	att->buffers = att->view.span / CCNIC_LARGE;
	*out = att;
	return 0;
}

int
ccnic_attach_open(const struct ccnic_attach_conf *conf, struct ccnic_attach **out)
{
	struct ccnic_attach *att;
	int ret = 0;

	pthread_mutex_lock(&lock);
	TAILQ_FOREACH(att, &attaches, next)
		if (!att->owned && memcmp(&att->conf, conf, sizeof(*conf)) == 0)
			break;
	if (att == NULL) {
		ret = attach(conf, &att);
		if (ret == 0)
			TAILQ_INSERT_TAIL(&attaches, att, next);
	}
	if (ret == 0) {
		att->owned = true;
		att->refs++;
		__atomic_fetch_add(&ccnic_attach_generation, 1, __ATOMIC_RELEASE);
		*out = att;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

static void
release(struct ccnic_attach *att)
{
	if (--att->refs > 0)
		return;
	TAILQ_REMOVE(&attaches, att, next);
	if (ccnic_close(att->nic) < 0)
		ATTACH_LOG(ERR, "%s: %s", att->conf.device, ccnic_last_error());
	rte_free(att);
}

void
ccnic_attach_close(struct ccnic_attach *att)
{
	pthread_mutex_lock(&lock);
	att->owned = false;
	release(att);
	pthread_mutex_unlock(&lock);
}

struct ccnic_attach *
ccnic_attach_hold(const char *device)
{
	struct ccnic_attach *att;

	pthread_mutex_lock(&lock);
	if (device != NULL) {
		att = find(device);
	} else {
		att = TAILQ_FIRST(&attaches);
		if (att != NULL && TAILQ_NEXT(att, next) != NULL)
			att = NULL;
	}
	if (att != NULL)
		att->refs++;
	pthread_mutex_unlock(&lock);
	return att;
}

void
ccnic_attach_hold_again(struct ccnic_attach *att)
{
	pthread_mutex_lock(&lock);
	att->refs++;
	pthread_mutex_unlock(&lock);
}

void
ccnic_attach_release(struct ccnic_attach *att)
{
	pthread_mutex_lock(&lock);
	release(att);
	pthread_mutex_unlock(&lock);
}

void
ccnic_attach_use(struct ccnic_attach *att, struct ccnic_user *user, bool device)
{
	pthread_mutex_lock(&lock);
	if (device)
		TAILQ_INSERT_HEAD(&att->users, user, next);
	else
		TAILQ_INSERT_TAIL(&att->users, user, next);
	pthread_mutex_unlock(&lock);
}

void
ccnic_attach_unuse(struct ccnic_attach *att, struct ccnic_user *user)
{
	pthread_mutex_lock(&lock);
	TAILQ_REMOVE(&att->users, user, next);
	pthread_mutex_unlock(&lock);
}

static void
reconnect(struct ccnic_attach *att)
{
	struct ccnic_user *user, *stop;
	int ret;

	TAILQ_FOREACH(stop, &att->users, next)
		if (!stop->pause(stop))
			break;
	if (stop == NULL) {
		ret = ccnic_reconnect(att->nic);
		if (ret >= 0) {
			att->reconnects++;
			att->reclaimed += ret;
			ATTACH_LOG(NOTICE, "%s: attached to the NIC that now listens at %s; %d buffers came back",
				   att->conf.device, att->conf.socket, ret);
		} else {
			ATTACH_LOG(DEBUG, "%s: %s", att->conf.device, ccnic_last_error());
		}
	}
	TAILQ_FOREACH(user, &att->users, next) {
		if (user == stop)
			break;
		user->resume(user);
	}
}

bool
ccnic_attach_check(struct ccnic_attach *att)
{
	bool up;

	pthread_mutex_lock(&lock);
	if (ccnic_link_state(att->nic) == 0)
		reconnect(att);
	up = ccnic_link_state(att->nic) == 1;
	pthread_mutex_unlock(&lock);
	return up;
}
