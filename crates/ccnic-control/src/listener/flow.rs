//! Requests about flow rules: who may ask for what, and the rules that a program names before it attaches.

use super::NO_FLOWS;
use super::client::{Client, Stop};
use crate::flow::{FIRST_OF_OPERATOR, FlowAbility, FlowReply, FlowRequest, FlowRule, NumberedRule};
use crate::inbox::Event;
use crate::messages::Reply;

/// What the thread of a connection knows of flow rules.
#[derive(Default)]
pub(super) struct Flows {
    /// Of the handler, once it is known.
    ability: Option<Option<FlowAbility>>,
    /// The rules of a program that has not attached yet: no more than it may have.
    prepared: Vec<NumberedRule>,
}

impl Client {
    /// Answers a request about flow rules.
    pub(super) fn flow(&mut self, request: FlowRequest) -> Result<Reply, Stop> {
        let ability = self.flow_ability()?;
        let own = request.program().is_none();
        if let FlowRequest::Create { rule, id, .. } = &request {
            // The queues of another program are the handler's to know.
            let queues =
                self.attached.as_ref().filter(|_| own).map_or(u16::MAX, |attached| attached.queues());
            rule.check(queues)?;
            check_id(*id, own)?;
        }
        match request.program() {
            Some(_) if !request.only_reads() && !self.may_operate() => {
                Err("only the operator, root or the user that the NIC runs as, may change another program's flow rules; run this as root".into())
            }
            Some(program) => self.ask(Event::Flow(program, Box::new(request))),
            None if self.attached.is_some() => self.ask(Event::Flow(self.id, Box::new(request))),
            None => Ok(Reply::Flow(self.flows.prepare(request, ability)?)),
        }
    }

    /// The rules of a program that attaches now with so many queues.
    pub(super) fn take_flows(&mut self, queues: u16) -> Result<Vec<NumberedRule>, Stop> {
        for (id, rule) in &self.flows.prepared {
            rule.check(queues).map_err(|why| format!("flow rule {id}: {why}"))?;
        }
        Ok(std::mem::take(&mut self.flows.prepared))
    }

    fn flow_ability(&mut self) -> Result<FlowAbility, Stop> {
        let ability = match self.flows.ability {
            Some(ability) => ability,
            None => match self.ask(Event::Hello)? {
                Reply::Hello(hello) => hello.flow,
                _ => None,
            },
        };
        self.flows.ability = Some(ability);
        ability.ok_or_else(|| NO_FLOWS.into())
    }

    fn may_operate(&self) -> bool {
        is_operator(self.peer.uid, rustix::process::geteuid().as_raw())
    }
}

/// Whether a user may change what is not its own, at a NIC that runs as `own`.
fn is_operator(uid: u32, own: u32) -> bool {
    uid == 0 || uid == own
}

/// A program's numbers and the operator's do not meet.
fn check_id(id: Option<u32>, own: bool) -> Result<(), String> {
    match id {
        Some(id) if !own => Err(format!("id is {id}; leave it out: the NIC numbers the operator's rules")),
        Some(id) if id >= FIRST_OF_OPERATOR => {
            Err(format!("id is {id}; choose one below {FIRST_OF_OPERATOR}: those above are the operator's"))
        }
        _ => Ok(()),
    }
}

impl Flows {
    /// Does what a program asks for before it attaches.
    fn prepare(&mut self, request: FlowRequest, ability: FlowAbility) -> Result<FlowReply, String> {
        match request {
            FlowRequest::Create { id, rule, .. } => self.add(id, rule, ability),
            FlowRequest::Destroy { id, .. } => {
                let at = self.prepared.iter().position(|(other, _)| *other == id);
                self.prepared.remove(at.ok_or_else(|| format!("there is no flow rule {id}"))?);
                Ok(FlowReply::Done)
            }
            FlowRequest::Flush { .. } => {
                self.prepared.clear();
                Ok(FlowReply::Done)
            }
            FlowRequest::Query { .. } | FlowRequest::List { .. } => {
                Err("no flow rule is in force yet; attach a region, or name a program".to_owned())
            }
        }
    }

    fn add(&mut self, id: Option<u32>, rule: FlowRule, ability: FlowAbility) -> Result<FlowReply, String> {
        if self.prepared.len() >= ability.rules as usize {
            return Err(format!(
                "a program may have {} flow rules; destroy another one first",
                ability.rules
            ));
        }
        let next = self.prepared.iter().map(|(id, _)| id + 1).max().unwrap_or(0);
        let id = id.unwrap_or(next);
        if self.prepared.iter().any(|(other, _)| *other == id) || id >= FIRST_OF_OPERATOR {
            return Err(format!(
                "id is {id}, which another flow rule has; choose another one, or leave it out"
            ));
        }
        self.prepared.push((id, rule));
        Ok(FlowReply::Created(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_nics_own_user_operate_it() {
        assert!(is_operator(0, 998) && is_operator(998, 998) && is_operator(0, 0));
        assert!(!is_operator(1000, 998) && !is_operator(65534, 0));
    }
}
