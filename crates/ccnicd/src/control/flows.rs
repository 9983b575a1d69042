//! Flow rules: what programs and the operator ask for, and how it gets to the workers.

use std::sync::Arc;

use anyhow::Context;
use ccnic::rss::{Rss, Spreader};
use ccnic_control::flow::{FlowReply, FlowRequest, NumberedRule};
use ccnic_control::{ClientId, printable};

use super::plane::ControlPlane;
use crate::flow::book::TABLE_BYTES;
use crate::flow::{ConfiguredFlows, FlowBook, Owner};

/// Which queue the packets of a program go to.
#[derive(Debug)]
pub(super) struct Steering {
    pub(super) rss: Option<Rss>,
    pub(super) flows: FlowBook,
}

impl Steering {
    /// By worker that polls queues of the program, of which there are `workers`: what it steers packets by, if there is anything.
    /// Where there are rules each has its own, since it counts; the hash alone is one for all.
    ///
    /// # Errors
    /// As [`FlowBook::table`].
    pub(super) fn spreaders(&self, workers: usize) -> Result<Vec<Option<Arc<Spreader>>>, String> {
        if self.flows.is_empty() {
            let hash = self.rss.as_ref().map(|rss| Arc::new(Spreader::new(rss.clone())));
            return Ok(vec![hash; workers]);
        }
        let spreader = |worker| {
            let table = self.flows.table(worker)?;
            Ok(table.map(|table| Arc::new(Spreader::with_rules(self.rss.clone(), Box::new(table)))))
        };
        (0..workers).map(spreader).collect()
    }

    /// Bytes of memory that rules take.
    pub(super) fn bytes(&self, workers: usize) -> usize {
        if self.flows.is_empty() { 0 } else { workers * TABLE_BYTES }
    }
}

impl ControlPlane {
    /// Does what a request about the flow rules of a program says.
    pub(super) fn change_flows(&mut self, of: ClientId, request: FlowRequest) -> anyhow::Result<FlowReply> {
        let client = self.clients.get(&of);
        let client =
            client.with_context(|| format!("there is no program {of}; `ccnic status` shows their ids"))?;
        let queues = client.queues();
        let operator = request.program().is_some();
        let owner = if operator { Owner::Operator } else { Owner::Program };
        let mut flows = client.steering.flows.clone();
        let reply = match request {
            FlowRequest::Query { id, .. } => {
                return flows.query(id).map(FlowReply::Rules).map_err(anyhow::Error::msg);
            }
            FlowRequest::List { from, .. } => return Ok(FlowReply::Rules(flows.page(from))),
            FlowRequest::Create { id, rule, .. } => {
                rule.check(queues).map_err(anyhow::Error::msg)?;
                FlowReply::Created(flows.create(id, owner, rule).map_err(anyhow::Error::msg)?)
            }
            FlowRequest::Destroy { id, .. } => {
                flows.destroy(id, operator).map_err(anyhow::Error::msg)?;
                FlowReply::Done
            }
            FlowRequest::Flush { .. } => {
                flows.flush(operator);
                FlowReply::Done
            }
        };
        let rss = client.steering.rss.clone();
        self.steer(of, Steering { rss, flows })?;
        Ok(reply)
    }

    /// A program's own rules, with those of the configuration for it.
    ///
    /// # Errors
    /// As [`FlowBook::configured`].
    pub(super) fn with_configured_flows(
        &self,
        (name, uid, queues): (&str, u32, u16),
        own: &FlowBook,
    ) -> anyhow::Result<FlowBook> {
        let (rules, wrong) = self.options.flows.of_program(name, uid, queues);
        log_left_out(name, &wrong);
        own.configured(&rules).map_err(anyhow::Error::msg)
    }

    /// The programs for which a configuration has other rules, with what they have then.
    ///
    /// # Errors
    /// Which program may not have which rules.
    pub(super) fn other_flows(&self, new: &ConfiguredFlows) -> anyhow::Result<Vec<(ClientId, FlowBook)>> {
        let mut others = Vec::new();
        for (id, client) in &self.clients {
            let (rules, wrong) = new.of_program(&client.name, client.memory.uid(), client.queues());
            if !client.steering.flows.is_configured(&rules) {
                let book = client.steering.flows.configured(&rules);
                let name = printable(&client.name).to_string();
                let book =
                    book.map_err(|why| anyhow::anyhow!("flow rules of program {id} ({name}): {why}"))?;
                log_left_out(&client.name, &wrong);
                others.push((*id, book));
            }
        }
        Ok(others)
    }

    /// Has these programs have these rules: all of them, or none. Returns what they had.
    ///
    /// # Errors
    /// When there is no memory for them, or a polling thread has died.
    pub(super) fn steer_all(
        &mut self,
        books: Vec<(ClientId, FlowBook)>,
    ) -> anyhow::Result<Vec<(ClientId, FlowBook)>> {
        let mut before = Vec::new();
        for (id, flows) in books {
            let Some(client) = self.clients.get(&id) else { continue };
            let (rss, name) = (client.steering.rss.clone(), printable(&client.name).to_string());
            let old = client.steering.flows.clone();
            if let Err(why) = self.steer(id, Steering { rss, flows }) {
                self.steer_back(before);
                return Err(why).with_context(|| format!("flow rules of program {id} ({name})"));
            }
            before.push((id, old));
        }
        Ok(before)
    }

    /// What [`steer_all`](ControlPlane::steer_all) has done is taken back.
    pub(super) fn steer_back(&mut self, before: Vec<(ClientId, FlowBook)>) {
        for (id, flows) in before {
            let rss = self.clients.get(&id).and_then(|client| client.steering.rss.clone());
            if let Err(e) = self.steer(id, Steering { rss, flows }) {
                tracing::warn!("flow rules of program {id} stay as they were set: {e:#}");
            }
        }
    }
}

/// Says which rules of the configuration a program does not get.
fn log_left_out(name: &str, wrong: &[(NumberedRule, String)]) {
    for ((_, rule), why) in wrong {
        let (name, packets) = (printable(name), rule.matches.to_string());
        tracing::warn!(name, packets, "a flow rule of the configuration is not for this program: {why}");
    }
}
