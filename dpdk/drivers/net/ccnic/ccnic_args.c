/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Device arguments: parsing, ranges and error messages. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bus_driver.h>
#include <rte_ether.h>
#include <rte_kvargs.h>
#include <rte_string_fns.h>

#include "ccnic_net.h"

#define KNOWN "socket, id, role, mac, queues, rsize, buffers, mtu, zero-copy, design, demote, pages, wait, speed, partial"

/* Default of buffers=: enough for full rings and the caches of several lcores. */
#define DEFAULT_BUFFERS 8192

/* The index of a value in a list separated by '|', or -EINVAL. */
static int
choose(const char *key, const char *value, const char *words)
{
	const size_t len = strlen(value);
	const char *word = words;
	int i;

	for (i = 0; word != NULL; i++) {
		if (strncmp(word, value, len) == 0 && (word[len] == '|' || word[len] == '\0') && len > 0)
			return i;
		word = strchr(word, '|');
		word = word != NULL ? word + 1 : NULL;
	}
	NET_LOG(ERR, "devarg %s=%s: choose one of %s", key, value, words);
	return -EINVAL;
}

static int
number(const char *key, const char *value, uint32_t min, uint32_t max, uint32_t *out)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (errno != 0 || value[0] < '0' || value[0] > '9' || *end != '\0' || n < min || n > max) {
		NET_LOG(ERR, "devarg %s=%s: choose a number from %" PRIu32 " to %" PRIu32, key, value, min, max);
		return -EINVAL;
	}
	*out = n;
	return 0;
}

static int
text(const char *key, const char *value, char *out, size_t size)
{
	const size_t len = strlen(value);

	if (len == 0 || len >= size) {
		NET_LOG(ERR, "devarg %s: its value has %zu bytes; give 1 to %zu", key, len, size - 1);
		return -EINVAL;
	}
	memcpy(out, value, len + 1);
	return 0;
}

static int
parse_socket(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;

	return text(key, value, args->attach.socket, sizeof(args->attach.socket));
}

static int
parse_id(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;

	return text(key, value, args->attach.id, sizeof(args->attach.id));
}

static int
parse_role(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;
	int role = choose(key, value, "program|nic");

	args->nic = role == 1;
	return RTE_MIN(role, 0);
}

static int
parse_mac(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;
	struct rte_ether_addr mac;

	if (rte_ether_unformat_addr(value, &mac) < 0 || !rte_is_valid_assigned_ether_addr(&mac)) {
		NET_LOG(ERR, "devarg mac=%s: give a unicast address, such as 02:00:00:00:00:01", value);
		return -EINVAL;
	}
	memcpy(args->attach.options.mac, mac.addr_bytes, sizeof(args->attach.options.mac));
	return 0;
}

static int
parse_queues(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;

	return number(key, value, 1, CCNIC_MAX_QUEUES, &args->attach.options.queues);
}

static int
parse_rsize(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;
	uint32_t *ring = &args->attach.options.ring;
	int ret = number(key, value, 64, 32768, ring);

	if (ret == 0 && !rte_is_power_of_2(*ring)) {
		NET_LOG(ERR, "devarg rsize=%s: choose a power of two, such as %" PRIu32, value, rte_align32pow2(*ring));
		return -EINVAL;
	}
	return ret;
}

static int
parse_buffers(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;

	return number(key, value, 16, 262144, &args->attach.options.buffers);
}

static int
parse_mtu(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;

	return number(key, value, 64, CCNIC_MAX_FRAME, &args->attach.options.mtu);
}

static int
parse_zero_copy(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;
	int choice = choose(key, value, "no|yes|0|1");

	args->attach.bind = choice & 1;
	return RTE_MIN(choice, 0);
}

static int
parse_design(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;
	int design = choose(key, value, "ccnic|paper|packed|padded|e810");

	args->attach.options.design = design;
	return RTE_MIN(design, 0);
}

static int
parse_demote(const char *key, const char *value, void *opaque)
{
	static const uint32_t flags[] = { 0, CCNIC_DEMOTE_ALWAYS, CCNIC_DEMOTE_NEVER };
	struct ccnic_args *args = opaque;
	int demote = choose(key, value, "auto|on|off");

	if (demote >= 0)
		args->attach.options.flags |= flags[demote];
	return RTE_MIN(demote, 0);
}

static int
parse_pages(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;
	int pages = choose(key, value, "auto|small|huge");

	args->attach.options.pages = pages;
	return RTE_MIN(pages, 0);
}

static int
parse_wait(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;
	int choice = choose(key, value, "no|yes|0|1");

	if (choice >= 0 && choice & 1)
		args->attach.options.flags |= CCNIC_LATER;
	return RTE_MIN(choice, 0);
}

static int
parse_speed(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;

	return number(key, value, 10, 400000, &args->speed);
}

static int
parse_partial(const char *key, const char *value, void *opaque)
{
	struct ccnic_args *args = opaque;
	int choice = choose(key, value, "no|yes|0|1");

	args->partial = choice & 1;
	return RTE_MIN(choice, 0);
}

static const struct {
	const char *key;
	arg_handler_t parse;
} parsers[] = {
	{ "socket", parse_socket },
	{ "id", parse_id },
	{ "role", parse_role },
	{ "mac", parse_mac },
	{ "queues", parse_queues },
	{ "rsize", parse_rsize },
	{ "buffers", parse_buffers },
	{ "mtu", parse_mtu },
	{ "zero-copy", parse_zero_copy },
	{ "design", parse_design },
	{ "demote", parse_demote },
	{ "pages", parse_pages },
	{ "wait", parse_wait },
	{ "speed", parse_speed },
	{ "partial", parse_partial },
};

/* ccnicd's default socket. */
static int
default_socket(char *out, size_t size)
{
	const char *said = getenv("CCNIC_SOCKET");
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int n;

	if (said != NULL && said[0] != '\0')
		n = snprintf(out, size, "%s", said);
	else if (geteuid() != 0 && runtime != NULL && runtime[0] != '\0')
		n = snprintf(out, size, "%s/ccnic.sock", runtime);
	else
		n = snprintf(out, size, "/run/ccnic.sock");
	return n < (int)size ? 0 : -ENAMETOOLONG;
}

/* Accepts each known key at most once, with a value, and no other keys. */
static int
parse_all(const struct rte_kvargs *list, struct ccnic_args *args)
{
	unsigned int i, k;

	for (i = 0; i < list->count; i++) {
		const struct rte_kvargs_pair *pair = &list->pairs[i];
		int ret;

		for (k = 0; k < RTE_DIM(parsers); k++)
			if (strcmp(pair->key, parsers[k].key) == 0)
				break;
		if (k == RTE_DIM(parsers)) {
			NET_LOG(ERR, "devarg %s is unknown; known are " KNOWN, pair->key);
			return -EINVAL;
		}
		if (rte_kvargs_count(list, pair->key) > 1) {
			NET_LOG(ERR, "devarg %s is given twice; give it once", pair->key);
			return -EINVAL;
		}
		if (pair->value == NULL) {
			NET_LOG(ERR, "devarg %s has no value; give %s=<value>", pair->key, pair->key);
			return -EINVAL;
		}
		ret = parsers[k].parse(pair->key, pair->value, args);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* With role=nic the programs choose the regions, and the application the queues. */
static int
check_nic(const struct rte_kvargs *list)
{
	static const char *const known[] = { "role", "socket", "id", "mac", "speed", "partial" };
	unsigned int i, k;

	for (i = 0; i < list->count; i++) {
		for (k = 0; k < RTE_DIM(known); k++)
			if (strcmp(list->pairs[i].key, known[k]) == 0)
				break;
		if (k == RTE_DIM(known)) {
			NET_LOG(ERR, "devarg %s is for role=program; leave it out with role=nic, which takes socket, id, mac, speed and partial",
				list->pairs[i].key);
			return -EINVAL;
		}
	}
	return 0;
}

/* 0 for a device that has a driver. */
static int
is_probed(const struct rte_device *device, const void *opaque)
{
	return rte_dev_is_probed(device) ? 0 : 1;
}

/* 0 for a bus with devices that may do DMA. */
static int
does_dma(const struct rte_bus *bus, const void *opaque)
{
	return strcmp(bus->name, "vdev") != 0 && bus->find_device != NULL && bus->find_device(NULL, is_probed, NULL) != NULL ? 0 : 1;
}

/*
 * The IOVA of mbufs in the region are virtual addresses. If other IOVA are physical addresses, a device that does DMA would access the
 * wrong memory for such an mbuf.
 */
static bool
may_bind(void)
{
	return rte_eal_iova_mode() != RTE_IOVA_PA || rte_bus_find(NULL, does_dma, NULL) == NULL;
}

int
ccnic_args_parse(struct rte_vdev_device *vdev, struct ccnic_args *args)
{
	struct ccnic_attach_conf *conf = &args->attach;
	const char *name = rte_vdev_device_name(vdev);
	struct rte_kvargs *list;
	int ret;

	memset(args, 0, sizeof(*args));
	args->speed = CCNIC_SPEED;
	ccnic_options_init(&conf->options);
	conf->options.queues = 1;
	conf->options.ring = 1024;
	conf->options.buffers = DEFAULT_BUFFERS;
	conf->options.mtu = CCNIC_MAX_FRAME;
	conf->bind = may_bind();
	rte_strscpy(conf->device, name, sizeof(conf->device));
	rte_strscpy(conf->id, name, sizeof(conf->id));
	list = rte_kvargs_parse(rte_vdev_device_args(vdev), NULL);
	if (list == NULL) {
		NET_LOG(ERR, "%s: its devargs are not a list of key=value: %s", name, rte_vdev_device_args(vdev));
		return -EINVAL;
	}
	ret = parse_all(list, args);
	if (ret == 0 && args->nic)
		ret = check_nic(list);
	else if (ret == 0 && !conf->bind && rte_kvargs_count(list, "zero-copy") == 0)
		NET_LOG(NOTICE, "%s: zero-copy=no, because devices that do DMA cannot find the region by its virtual address; start with"
			" --iova-mode=va, or choose zero-copy=yes and forward to none of them", name);
	rte_kvargs_free(list);
	if (ret == 0 && conf->socket[0] == '\0')
		ret = default_socket(conf->socket, sizeof(conf->socket));
	return ret;
}

/* Logs what to do about an error of ccnic_attach_open(). */
void
ccnic_args_log_error(const char *device, const struct ccnic_args *args, int error)
{
	const char *socket = args->attach.socket;

	switch (error) {
	case -ENOENT:
	case -ECONNREFUSED:
		NET_LOG(ERR, "%s: no NIC listens at socket=%s; start one: ccnicd --socket %s, or wait for it with the link down: wait=yes",
			device, socket, socket);
		break;
	case -EACCES:
		NET_LOG(ERR, "%s: this user may not connect to the NIC at socket=%s; start ccnicd with --socket-mode 0660 and"
			" --socket-group GROUP, a group of this user, or run as the user of ccnicd", device, socket);
		break;
	case -EPERM:
	case -E2BIG:
		NET_LOG(ERR, "%s: lower buffers= (%" PRIu32 "), rsize= or queues=, or raise what ccnicd allows", device,
			args->attach.options.buffers);
		break;
	case -ENOMEM:
		NET_LOG(ERR, "%s: lower buffers= (%" PRIu32 "), or choose pages=auto", device, args->attach.options.buffers);
		break;
	default:
		NET_LOG(ERR, "%s: could not attach to the NIC at socket=%s: %s", device, socket, strerror(-error));
	}
}
