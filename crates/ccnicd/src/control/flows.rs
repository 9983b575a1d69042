//! Flow rules: what programs and the operator ask for, and how it gets to the workers.

use std::sync::Arc;

use anyhow::Context;
use ccnic::rss::{Rss, Spreader};
use ccnic_control::ClientId;
use ccnic_control::flow::{FlowReply, FlowRequest};

use super::plane::ControlPlane;
use crate::flow::FlowBook;
use crate::flow::book::TABLE_BYTES;

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
        let mut flows = client.steering.flows.clone();
        let reply = match request {
            FlowRequest::Query { id, .. } => {
                return flows.query(id).map(FlowReply::Rules).map_err(anyhow::Error::msg);
            }
            FlowRequest::List { from, .. } => return Ok(FlowReply::Rules(flows.page(from))),
            FlowRequest::Create { id, rule, .. } => {
                rule.check(queues).map_err(anyhow::Error::msg)?;
                FlowReply::Created(flows.create(id, operator, rule).map_err(anyhow::Error::msg)?)
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
}
