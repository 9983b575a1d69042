/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * rte_flow: a rule of an application as one of libccnic's.
 *
 * A pattern is ETH, at most one VLAN, IPV4 or IPV6, UDP, TCP or SCTP, in this order, each of which may be left out. Fields are matched as a
 * whole: a mask is all ones, or zero.
 */
#include <errno.h>
#include <string.h>

#include "ccnic_flow_rule.h"

#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_SCTP 132
#define VLAN_ID 0x0fff
#define MARK_MAX UINT16_MAX

/* What is being translated. */
struct translation {
	const struct rte_eth_dev *eth;
	struct ccnic_flow_rule rule;
	struct rte_flow_error *error;
	bool fated; /* an action says where packets go */
};

/* The order of items. */
enum layer { LAYER_NONE, LAYER_ETH, LAYER_VLAN, LAYER_IP, LAYER_TRANSPORT };

static int
refuse_item(struct translation *t, enum rte_flow_error_type type, const struct rte_flow_item *item, const char *why)
{
	return rte_flow_error_set(t->error, ENOTSUP, type, item, why);
}

static int
refuse_action(struct translation *t, const struct rte_flow_action *action, const char *why)
{
	return rte_flow_error_set(t->error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION_CONF, action, why);
}

static bool
is_all(const void *field, int byte, size_t size)
{
	const uint8_t *bytes = field;
	size_t i;

	for (i = 0; i < size; i++)
		if (bytes[i] != byte)
			return false;
	return true;
}

/*
 * Takes a field of a mask out of it, so that what is left is what nobody takes. Returns 1 if the rule names the field, 0 if not, -1 if only a
 * part of it.
 */
static int
take(void *mask, size_t size)
{
	int named = is_all(mask, 0xff, size) ? 1 : is_all(mask, 0, size) ? 0 : -1;

	if (named >= 0)
		memset(mask, 0, size);
	return named;
}

/* Takes a field that is named into the rule; false if a part of it is. */
static bool
take_field(struct translation *t, void *mask, const void *spec, size_t size, uint32_t field, void *into)
{
	int named = take(mask, size);

	if (named == 1) {
		memcpy(into, spec, size);
		t->rule.match |= field;
	}
	return named >= 0;
}

/* As take_field(), for a number of 16 bits. */
static bool
take_be16(struct translation *t, rte_be16_t *mask, rte_be16_t spec, uint32_t field, uint16_t *into)
{
	const uint16_t number = rte_be_to_cpu_16(spec);

	return take_field(t, mask, &number, sizeof(number), field, into);
}

/* A type that the packet must have; false if it is to have another one. */
static bool
need_type(struct translation *t, uint16_t type)
{
	if (t->rule.match & CCNIC_FLOW_ETHER_TYPE && t->rule.ether_type != type)
		return false;
	t->rule.ether_type = type;
	t->rule.match |= CCNIC_FLOW_ETHER_TYPE;
	return true;
}

static bool
need_protocol(struct translation *t, uint8_t protocol)
{
	if (t->rule.match & CCNIC_FLOW_PROTOCOL && t->rule.protocol != protocol)
		return false;
	t->rule.protocol = protocol;
	t->rule.match |= CCNIC_FLOW_PROTOCOL;
	return true;
}

static bool
take_eth(struct translation *t, const struct rte_flow_item_eth *spec, struct rte_flow_item_eth *mask)
{
	struct ccnic_flow_rule *rule = &t->rule;

	return take_field(t, &mask->hdr.dst_addr, &spec->hdr.dst_addr, RTE_ETHER_ADDR_LEN, CCNIC_FLOW_DST_MAC, rule->dst_mac) &&
	       take_field(t, &mask->hdr.src_addr, &spec->hdr.src_addr, RTE_ETHER_ADDR_LEN, CCNIC_FLOW_SRC_MAC, rule->src_mac) &&
	       take_be16(t, &mask->hdr.ether_type, spec->hdr.ether_type, CCNIC_FLOW_ETHER_TYPE, &rule->ether_type);
}

/* The tag's own type, which ETH may name, is not the one behind it. */
static bool
take_vlan(struct translation *t, const struct rte_flow_item_vlan *spec, struct rte_flow_item_vlan *mask)
{
	if (t->rule.match & CCNIC_FLOW_ETHER_TYPE && t->rule.ether_type != RTE_ETHER_TYPE_VLAN)
		return false;
	t->rule.match &= ~CCNIC_FLOW_ETHER_TYPE;
	if (mask->hdr.vlan_tci != RTE_BE16(VLAN_ID))
		return false;
	mask->hdr.vlan_tci = 0;
	t->rule.vlan = rte_be_to_cpu_16(spec->hdr.vlan_tci) & VLAN_ID;
	t->rule.match |= CCNIC_FLOW_VLAN;
	return take_be16(t, &mask->hdr.eth_proto, spec->hdr.eth_proto, CCNIC_FLOW_ETHER_TYPE, &t->rule.ether_type);
}

static bool
take_ipv4(struct translation *t, const struct rte_flow_item_ipv4 *spec, struct rte_flow_item_ipv4 *mask)
{
	struct ccnic_flow_rule *rule = &t->rule;

	return need_type(t, RTE_ETHER_TYPE_IPV4) &&
	       take_field(t, &mask->hdr.src_addr, &spec->hdr.src_addr, 4, CCNIC_FLOW_SRC_IPV4, rule->src_ip) &&
	       take_field(t, &mask->hdr.dst_addr, &spec->hdr.dst_addr, 4, CCNIC_FLOW_DST_IPV4, rule->dst_ip) &&
	       take_field(t, &mask->hdr.next_proto_id, &spec->hdr.next_proto_id, 1, CCNIC_FLOW_PROTOCOL, &rule->protocol);
}

static bool
take_ipv6(struct translation *t, const struct rte_flow_item_ipv6 *spec, struct rte_flow_item_ipv6 *mask)
{
	struct ccnic_flow_rule *rule = &t->rule;

	return need_type(t, RTE_ETHER_TYPE_IPV6) &&
	       take_field(t, &mask->hdr.src_addr, &spec->hdr.src_addr, 16, CCNIC_FLOW_SRC_IPV6, rule->src_ip) &&
	       take_field(t, &mask->hdr.dst_addr, &spec->hdr.dst_addr, 16, CCNIC_FLOW_DST_IPV6, rule->dst_ip) &&
	       take_field(t, &mask->hdr.proto, &spec->hdr.proto, 1, CCNIC_FLOW_PROTOCOL, &rule->protocol);
}

/* Source and destination port begin the headers of TCP, UDP and SCTP. */
static bool
take_ports(struct translation *t, const void *spec, void *mask, uint8_t protocol)
{
	const rte_be16_t *ports = spec;
	rte_be16_t *masks = mask;

	return need_protocol(t, protocol) && take_be16(t, &masks[0], ports[0], CCNIC_FLOW_SRC_PORT, &t->rule.src_port) &&
	       take_be16(t, &masks[1], ports[1], CCNIC_FLOW_DST_PORT, &t->rule.dst_port);
}

/* The kinds of items: the size of their specification, the mask that they have by default. */
static const struct kind {
	enum rte_flow_item_type type;
	enum layer layer;
	size_t size;
	const void *mask;
} kinds[] = {
	{ RTE_FLOW_ITEM_TYPE_ETH, LAYER_ETH, sizeof(struct rte_flow_item_eth), &rte_flow_item_eth_mask },
	{ RTE_FLOW_ITEM_TYPE_VLAN, LAYER_VLAN, sizeof(struct rte_flow_item_vlan), &rte_flow_item_vlan_mask },
	{ RTE_FLOW_ITEM_TYPE_IPV4, LAYER_IP, sizeof(struct rte_flow_item_ipv4), &rte_flow_item_ipv4_mask },
	{ RTE_FLOW_ITEM_TYPE_IPV6, LAYER_IP, sizeof(struct rte_flow_item_ipv6), &rte_flow_item_ipv6_mask },
	{ RTE_FLOW_ITEM_TYPE_UDP, LAYER_TRANSPORT, sizeof(struct rte_flow_item_udp), &rte_flow_item_udp_mask },
	{ RTE_FLOW_ITEM_TYPE_TCP, LAYER_TRANSPORT, sizeof(struct rte_flow_item_tcp), &rte_flow_item_tcp_mask },
	{ RTE_FLOW_ITEM_TYPE_SCTP, LAYER_TRANSPORT, sizeof(struct rte_flow_item_sctp), &rte_flow_item_sctp_mask },
};

/* Any of them. */
union spec {
	struct rte_flow_item_eth eth;
	struct rte_flow_item_vlan vlan;
	struct rte_flow_item_ipv4 ipv4;
	struct rte_flow_item_ipv6 ipv6;
	struct rte_flow_item_udp udp;
	struct rte_flow_item_tcp tcp;
	struct rte_flow_item_sctp sctp;
};

/* Takes the fields of an item; false if they are not what a rule may name. */
static bool
take_fields(struct translation *t, enum rte_flow_item_type type, const union spec *spec, union spec *mask)
{
	switch (type) {
	case RTE_FLOW_ITEM_TYPE_ETH:
		return take_eth(t, &spec->eth, &mask->eth);
	case RTE_FLOW_ITEM_TYPE_VLAN:
		return take_vlan(t, &spec->vlan, &mask->vlan);
	case RTE_FLOW_ITEM_TYPE_IPV4:
		return take_ipv4(t, &spec->ipv4, &mask->ipv4);
	case RTE_FLOW_ITEM_TYPE_IPV6:
		return take_ipv6(t, &spec->ipv6, &mask->ipv6);
	case RTE_FLOW_ITEM_TYPE_UDP:
		return take_ports(t, spec, mask, PROTOCOL_UDP);
	case RTE_FLOW_ITEM_TYPE_TCP:
		return take_ports(t, spec, mask, PROTOCOL_TCP);
	default:
		return take_ports(t, spec, mask, PROTOCOL_SCTP);
	}
}

static int
translate_item(struct translation *t, const struct rte_flow_item *item, enum layer *layer)
{
	const struct kind *kind = NULL;
	union spec spec, mask;
	unsigned int i;

	for (i = 0; i < RTE_DIM(kinds); i++)
		if (kinds[i].type == item->type)
			kind = &kinds[i];
	if (kind == NULL)
		return refuse_item(t, RTE_FLOW_ERROR_TYPE_ITEM, item, "item: use ETH, VLAN, IPV4, IPV6, UDP, TCP or SCTP");
	if (kind->layer <= *layer)
		return refuse_item(t, RTE_FLOW_ERROR_TYPE_ITEM, item, "item: the order is ETH, VLAN, IP, UDP or TCP, each at most once");
	*layer = kind->layer;
	if (item->last != NULL)
		return refuse_item(t, RTE_FLOW_ERROR_TYPE_ITEM_LAST, item, "last: ranges are not supported; leave it out");
	if (item->spec == NULL && item->mask != NULL)
		return refuse_item(t, RTE_FLOW_ERROR_TYPE_ITEM_MASK, item, "mask: give a spec, too");
	memset(&spec, 0, sizeof(spec));
	memset(&mask, 0, sizeof(mask));
	if (item->spec != NULL) {
		memcpy(&spec, item->spec, kind->size);
		memcpy(&mask, item->mask != NULL ? item->mask : kind->mask, kind->size);
	}
	if (!take_fields(t, item->type, &spec, &mask) || !is_all(&mask, 0, sizeof(mask)))
		return refuse_item(t, RTE_FLOW_ERROR_TYPE_ITEM_MASK, item,
				   "item: only whole addresses, types, protocols and ports that fit each other, and the id of a VLAN");
	return 0;
}

static int
translate_pattern(struct translation *t, const struct rte_flow_item *item)
{
	enum layer layer = LAYER_NONE;
	int ret;

	if (item == NULL)
		return rte_flow_error_set(t->error, EINVAL, RTE_FLOW_ERROR_TYPE_ITEM_NUM, NULL, "pattern: it is NULL");
	for (; item->type != RTE_FLOW_ITEM_TYPE_END; item++) {
		if (item->type == RTE_FLOW_ITEM_TYPE_VOID)
			continue;
		ret = translate_item(t, item, &layer);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* True for what the port does without the rule: its own functions, key and queues. */
static bool
is_default_rss(const struct rte_eth_dev *eth, const struct rte_flow_action_rss *rss)
{
	const uint64_t types = eth->data->dev_conf.rx_adv_conf.rss_conf.rss_hf;
	uint32_t i;

	if (rss == NULL)
		return true;
	for (i = 0; i < rss->queue_num; i++)
		if (rss->queue[i] != i)
			return false;
	return (rss->queue_num == 0 || rss->queue_num == eth->data->nb_rx_queues) && rss->level <= 1 && rss->key_len == 0 &&
	       (rss->func == RTE_ETH_HASH_FUNCTION_DEFAULT || rss->func == RTE_ETH_HASH_FUNCTION_TOEPLITZ) &&
	       (rss->types == 0 || (rss->types & types) == types);
}

/* Where packets go. */
static int
translate_fate(struct translation *t, const struct rte_flow_action *action)
{
	struct ccnic_flow_rule *rule = &t->rule;

	if (t->fated)
		return refuse_action(t, action, "actions: packets go to one place; use one of QUEUE, DROP, RSS and PASSTHRU");
	t->fated = true;
	switch (action->type) {
	case RTE_FLOW_ACTION_TYPE_QUEUE: {
		const struct rte_flow_action_queue *queue = action->conf;

		if (queue == NULL || queue->index >= t->eth->data->nb_rx_queues)
			return refuse_action(t, action, "queue: the port has no receive queue of this index");
		rule->target = CCNIC_FLOW_TO_QUEUE;
		rule->queue = queue->index;
		return 0;
	}
	case RTE_FLOW_ACTION_TYPE_DROP:
		rule->target = CCNIC_FLOW_TO_DROP;
		return 0;
	case RTE_FLOW_ACTION_TYPE_RSS:
		if (!is_default_rss(t->eth, action->conf))
			return refuse_action(t, action, "rss: only the port's own functions, key and queues; leave all of it out");
		return 0;
	default: /* PASSTHRU */
		return 0;
	}
}

static int
translate_actions(struct translation *t, const struct rte_flow_action *action)
{
	const struct rte_flow_action_mark *mark;
	int ret;

	if (action == NULL)
		return rte_flow_error_set(t->error, EINVAL, RTE_FLOW_ERROR_TYPE_ACTION_NUM, NULL, "actions: they are NULL");
	for (; action->type != RTE_FLOW_ACTION_TYPE_END; action++) {
		switch (action->type) {
		case RTE_FLOW_ACTION_TYPE_VOID:
		case RTE_FLOW_ACTION_TYPE_COUNT: /* every rule counts */
			break;
		case RTE_FLOW_ACTION_TYPE_QUEUE:
		case RTE_FLOW_ACTION_TYPE_DROP:
		case RTE_FLOW_ACTION_TYPE_RSS:
		case RTE_FLOW_ACTION_TYPE_PASSTHRU:
			ret = translate_fate(t, action);
			if (ret < 0)
				return ret;
			break;
		case RTE_FLOW_ACTION_TYPE_MARK:
			mark = action->conf;
			if (mark == NULL || mark->id > MARK_MAX)
				return refuse_action(t, action, "mark: choose an id of 0 to 65535");
			t->rule.mark = (uint16_t)mark->id;
			t->rule.flags = CCNIC_FLOW_MARK;
			break;
		default:
			return rte_flow_error_set(t->error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action,
						  "action: use QUEUE, DROP, MARK, COUNT, RSS or PASSTHRU");
		}
	}
	if (!t->fated)
		return rte_flow_error_set(t->error, EINVAL, RTE_FLOW_ERROR_TYPE_ACTION, NULL,
					  "actions: none says where packets go; add QUEUE, DROP, RSS or PASSTHRU");
	return 0;
}

int
ccnic_flow_translate(const struct rte_eth_dev *eth, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
		     const struct rte_flow_action actions[], struct rte_flow_error *error, struct ccnic_flow_rule *rule)
{
	struct translation t = { .eth = eth, .error = error };
	int ret;

	ccnic_flow_rule_init(&t.rule);
	if (attr == NULL || !attr->ingress || attr->egress || attr->transfer)
		return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR, attr, "attributes: only ingress is supported");
	if (attr->group != 0)
		return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_GROUP, attr, "group: there is only group 0");
	t.rule.priority = attr->priority;
	ret = translate_pattern(&t, pattern);
	if (ret == 0)
		ret = translate_actions(&t, actions);
	*rule = t.rule;
	return ret;
}
