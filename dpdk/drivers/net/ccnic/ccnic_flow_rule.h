/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rte_flow: rules of applications as libccnic's. */
#ifndef CCNIC_FLOW_RULE_H
#define CCNIC_FLOW_RULE_H

#include <rte_flow_driver.h>

#include "ccnic_net.h"

/* Translates a rule. Returns 0, or a negative errno that `error` explains. */
int ccnic_flow_translate(const struct rte_eth_dev *eth, const struct rte_flow_attr *attr, const struct rte_flow_item pattern[],
			 const struct rte_flow_action actions[], struct rte_flow_error *error, struct ccnic_flow_rule *rule);

#endif /* CCNIC_FLOW_RULE_H */
