/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * role=nic, sockets. Ports of one process with the same socket= share a listener: a program that attaches there is served by one of
 * them that is started and serves none. All of these ports tell programs the same, which is what each of them takes.
 */
#include <errno.h>
#include <string.h>

#include <rte_malloc.h>

#include "ccnic_nic_role.h"

struct ccnic_listener {
	LIST_ENTRY(ccnic_listener) next;
	struct ccnic_nic *nic;
	char socket[CCNIC_PATH_MAX];
	LIST_HEAD(, ccnic_nic_role) ports;
	uint32_t told;       /* what programs are told that the ports take: CCNIC_TAKES_... */
	uint32_t generation; /* how often that has changed */
};

static LIST_HEAD(, ccnic_listener) listeners = LIST_HEAD_INITIALIZER(listeners);
/* Of all listeners: it is held for microseconds, and never by a burst. Taken after the lock of a port. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Logs why ccnic_nic_listen() has failed and what to do about it. */
static void
log_listen_error(const char *device, const char *socket, int error)
{
	if (error == -EADDRINUSE)
		NET_LOG(ERR, "%s: another NIC listens at socket=%s; stop it, or choose another socket=", device, socket);
	else
		NET_LOG(ERR, "%s: could not listen at socket=%s: %s", device, socket, ccnic_last_error());
}

static struct ccnic_listener *
listen_at(const struct ccnic_attach_conf *conf, int *error)
{
	struct ccnic_listener *listener = rte_zmalloc("ccnic_listener", sizeof(*listener), 0);
	struct ccnic_nic_options options;

	*error = -ENOMEM;
	if (listener == NULL)
		return NULL;
	ccnic_nic_options_init(&options);
	options.name = conf->id;
	options.flags = CCNIC_NIC_RSS | CCNIC_NIC_SLEEPS;
	options.node = rte_socket_id() == (unsigned int)SOCKET_ID_ANY ? 0 : rte_socket_id();
	*error = ccnic_nic_listen(conf->socket, &options, &listener->nic);
	if (*error < 0) {
		log_listen_error(conf->device, conf->socket, *error);
		rte_free(listener);
		return NULL;
	}
	memcpy(listener->socket, conf->socket, sizeof(listener->socket));
	LIST_INSERT_HEAD(&listeners, listener, next);
	return listener;
}

int
ccnic_listener_join(struct ccnic_nic_role *role, const struct ccnic_attach_conf *conf)
{
	struct ccnic_listener *listener;
	int ret = 0;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(listener, &listeners, next)
		if (strcmp(listener->socket, conf->socket) == 0)
			break;
	if (listener == NULL)
		listener = listen_at(conf, &ret);
	if (listener != NULL) {
		role->listener = listener;
		LIST_INSERT_HEAD(&listener->ports, role, next);
		ret = 0;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

void
ccnic_listener_leave(struct ccnic_nic_role *role)
{
	struct ccnic_listener *listener = role->listener;

	pthread_mutex_lock(&lock);
	LIST_REMOVE(role, next);
	if (LIST_EMPTY(&listener->ports)) {
		LIST_REMOVE(listener, next);
		ccnic_nic_close(listener->nic);
		rte_free(listener);
	}
	pthread_mutex_unlock(&lock);
}

const char *
ccnic_listener_socket(const struct ccnic_nic_role *role)
{
	return role->listener->socket;
}

void
ccnic_listener_poll(struct ccnic_nic_role *role)
{
	ccnic_nic_poll(role->listener->nic, 0);
}

bool
ccnic_listener_accept(struct ccnic_nic_role *role)
{
	int ret;

	pthread_mutex_lock(&lock);
	ret = ccnic_nic_accept(role->listener->nic, &role->program);
	role->generation = role->listener->generation;
	pthread_mutex_unlock(&lock);
	return ret == 0;
}

bool
ccnic_listener_told_otherwise(const struct ccnic_nic_role *role)
{
	return role->generation != __atomic_load_n(&role->listener->generation, __ATOMIC_RELAXED);
}

/* Has programs that wait attach again. */
static void
send_away(struct ccnic_listener *listener)
{
	struct ccnic_program *program;

	while (ccnic_nic_accept(listener->nic, &program) == 0)
		ccnic_program_release(program);
}

void
ccnic_listener_tell(struct ccnic_nic_role *role, uint32_t takes)
{
	struct ccnic_listener *listener = role->listener;
	struct ccnic_nic_role *port;

	pthread_mutex_lock(&lock);
	role->offers = takes;
	role->has_offered = true;
	LIST_FOREACH(port, &listener->ports, next)
		if (port->has_offered)
			takes &= port->offers;
	if (takes != listener->told) {
		listener->told = takes;
		ccnic_nic_takes_set(listener->nic, takes);
		__atomic_store_n(&listener->generation, listener->generation + 1, __ATOMIC_RELAXED);
		send_away(listener);
	}
	pthread_mutex_unlock(&lock);
}
