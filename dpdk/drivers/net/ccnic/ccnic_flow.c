/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rte_flow: the operations. The NIC follows the rules, before RSS; they stay when the device is stopped, and when it moves to another NIC. */
#include <errno.h>
#include <stdlib.h>

#include "ccnic_flow_rule.h"

/* A rule of an application. */
struct rte_flow {
	struct rte_flow *next;
	uint32_t id;
	/* At the last reset. */
	uint64_t packets;
	uint64_t bytes;
};

/* Libccnic's last error. */
static int
failed(struct rte_flow_error *error, int ret)
{
	const int code = ret == -EOPNOTSUPP ? ENOTSUP : -ret;

	return rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL, ccnic_last_error());
}

static int
flow_validate(struct rte_eth_dev *eth, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
	      const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	struct ccnic_flow_rule rule;
	int ret = ccnic_flow_translate(eth, attr, pattern, actions, error, &rule);

	if (ret < 0)
		return ret;
	ret = ccnic_flow_check(ccnic_dev_of(eth)->att->nic, &rule);
	return ret < 0 ? failed(error, ret) : 0;
}

/* From now on receive queues look for marks. No burst runs while that changes; false if one does not end. */
static bool
show_marks(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	uint16_t i;

	if (dev->marks)
		return true;
	if (!ccnic_link_pause(&dev->user))
		return false;
	dev->marks = true;
	for (i = 0; i < eth->data->nb_rx_queues; i++)
		if (eth->data->rx_queues[i] != NULL)
			((struct ccnic_rxq *)eth->data->rx_queues[i])->told = true;
	ccnic_link_resume(&dev->user);
	return true;
}

static struct rte_flow *
flow_create(struct rte_eth_dev *eth, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
	    const struct rte_flow_action actions[], struct rte_flow_error *error)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_flow_rule rule;
	struct rte_flow *flow;
	int ret;

	if (ccnic_flow_translate(eth, attr, pattern, actions, error, &rule) < 0)
		return NULL;
	flow = calloc(1, sizeof(*flow));
	if (flow == NULL) {
		rte_flow_error_set(error, ENOMEM, RTE_FLOW_ERROR_TYPE_HANDLE, NULL, "no memory");
		return NULL;
	}
	if (rule.flags & CCNIC_FLOW_MARK && !show_marks(eth)) {
		rte_flow_error_set(error, EBUSY, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL, "a burst does not end; try again");
		free(flow);
		return NULL;
	}
	ret = ccnic_flow_create(dev->att->nic, &rule, &flow->id);
	if (ret < 0) {
		failed(error, ret);
		free(flow);
		return NULL;
	}
	flow->next = dev->flows;
	dev->flows = flow;
	return flow;
}

static int
flow_destroy(struct rte_eth_dev *eth, struct rte_flow *flow, struct rte_flow_error *error)
{
	struct rte_flow **at = &ccnic_dev_of(eth)->flows;
	int ret;

	while (*at != NULL && *at != flow)
		at = &(*at)->next;
	if (*at == NULL)
		return rte_flow_error_set(error, ENOENT, RTE_FLOW_ERROR_TYPE_HANDLE, flow, "handle: the port has no such rule");
	ret = ccnic_flow_destroy(ccnic_dev_of(eth)->att->nic, flow->id);
	if (ret < 0)
		return failed(error, ret);
	*at = flow->next;
	free(flow);
	return 0;
}

static int
flow_flush(struct rte_eth_dev *eth, struct rte_flow_error *error)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	int ret = dev->flows == NULL ? 0 : ccnic_flow_flush(dev->att->nic);

	if (ret < 0)
		return failed(error, ret);
	while (dev->flows != NULL) {
		struct rte_flow *flow = dev->flows;

		dev->flows = flow->next;
		free(flow);
	}
	return 0;
}

static int
flow_query(struct rte_eth_dev *eth, struct rte_flow *flow, const struct rte_flow_action *action, void *data,
	   struct rte_flow_error *error)
{
	struct rte_flow_query_count *count = data;
	uint64_t packets, bytes;
	int ret;

	for (; action->type == RTE_FLOW_ACTION_TYPE_VOID; action++)
		;
	if (action->type != RTE_FLOW_ACTION_TYPE_COUNT)
		return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action, "action: only COUNT can be queried");
	ret = ccnic_flow_query(ccnic_dev_of(eth)->att->nic, flow->id, &packets, &bytes);
	if (ret < 0)
		return failed(error, ret);
	/* The NIC's successor has begun anew. */
	if (packets < flow->packets)
		flow->packets = flow->bytes = 0;
	count->hits_set = count->bytes_set = 1;
	count->hits = packets - flow->packets;
	count->bytes = bytes - flow->bytes;
	if (count->reset) {
		flow->packets = packets;
		flow->bytes = bytes;
	}
	return 0;
}

static int
flow_isolate(__rte_unused struct rte_eth_dev *eth, int set, struct rte_flow_error *error)
{
	if (!set)
		return 0;
	return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL,
				  "isolated mode is not supported: packets that no rule is about are received by RSS; drop them by a rule");
}

static const struct rte_flow_ops flow_ops = {
	.validate = flow_validate,
	.create = flow_create,
	.destroy = flow_destroy,
	.flush = flow_flush,
	.query = flow_query,
	.isolate = flow_isolate,
};

int
ccnic_flow_ops_get(__rte_unused struct rte_eth_dev *eth, const struct rte_flow_ops **ops)
{
	*ops = &flow_ops;
	return 0;
}

/* The attachment may go to another device, whose rules these are not. */
void
ccnic_flow_close(struct rte_eth_dev *eth)
{
	struct rte_flow_error error;

	flow_flush(eth, &error);
}
