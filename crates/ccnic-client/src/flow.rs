//! Flow rules of a program: the NIC follows them, the program keeps them for the NIC's successor.

use std::collections::BTreeMap;

use ccnic_control::Connection;
use ccnic_control::flow::{FLOW_VERSION, FlowAbility, FlowEntry, FlowReply, FlowRequest, FlowRule};
use ccnic_control::messages::{Reply, Request};

use crate::error::Error;
use crate::nic::Nic;

/// The rules of a program.
#[derive(Debug)]
pub(crate) struct Flows {
    /// The NIC has flow rules as this release knows them.
    understood: bool,
    /// By number.
    rules: BTreeMap<u32, FlowRule>,
}

impl Flows {
    /// None yet, for a NIC that can do so much.
    pub(crate) fn new(ability: Option<FlowAbility>) -> Flows {
        Flows { understood: understood(ability), rules: BTreeMap::new() }
    }

    /// Names the rules to another NIC that can do so much, before the program attaches: they are in force from the first packet
    /// on.
    pub(crate) fn prepare(
        &mut self,
        connection: &Connection,
        ability: Option<FlowAbility>,
    ) -> Result<(), Error> {
        self.understood = understood(ability);
        let rules = self.rules.iter().filter(|_| self.understood);
        for (id, rule) in rules {
            ask(connection, FlowRequest::Create { program: None, id: Some(*id), rule: *rule })?;
        }
        Ok(())
    }
}

fn understood(ability: Option<FlowAbility>) -> bool {
    ability.is_some_and(|ability| ability.version == FLOW_VERSION)
}

fn ask(connection: &Connection, request: FlowRequest) -> Result<FlowReply, Error> {
    match connection.ask(&Request::Flow(request), None)? {
        Reply::Flow(reply) => Ok(reply),
        other => Err(Error::Protocol { what: format!("{other:?} in answer to a flow rule") }),
    }
}

/// Flow rules say for some of the packets that a program receives what becomes of them, before RSS does. `docs/steering.md` has
/// the limits, [`flow_create`](Nic::flow_create) has an example.
impl Nic {
    /// Adds a flow rule, for this NIC and its successors; returns its number. It is in force, when this returns, for all packets
    /// sent from then on.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// use ccnic_client::{Config, FlowMatch, FlowRule, FlowTarget, Nic};
    ///
    /// let mut nic = Nic::options().config(&Config { queues: 2, ..Config::default() }).open(&socket)?;
    /// let dns = FlowMatch { protocol: Some(17), dst_port: Some(53), ..FlowMatch::default() };
    /// let first = nic.flow_create(&FlowRule { matches: dns, to: FlowTarget::Queue(1), ..FlowRule::default() })?;
    /// let web = FlowMatch { protocol: Some(6), dst_port: Some(80), ..FlowMatch::default() };
    /// let second = nic.flow_create(&FlowRule { matches: web, to: FlowTarget::Drop, ..FlowRule::default() })?;
    /// assert_eq!((first, second), (0, 1));
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Flow`]: a field is wrong. [`Error::Refused`]: a limit of the NIC, or a rule that is there already.
    /// [`Error::NoFlows`] and [`Error::Gone`]: the NIC has none, or has gone. There is no new rule then.
    pub fn flow_create(&mut self, rule: &FlowRule) -> Result<u32, Error> {
        self.flow_check(rule)?;
        let id = (0..).find(|id| !self.flows.rules.contains_key(id)).unwrap_or_default();
        match self.tell(FlowRequest::Create { program: None, id: Some(id), rule: *rule })? {
            FlowReply::Created(id) => {
                self.flows.rules.insert(id, *rule);
                Ok(id)
            }
            other => Err(Error::Protocol { what: format!("{other:?} in answer to a new flow rule") }),
        }
    }

    /// Checks the fields of a rule without adding it. The NIC's limits are not checked.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// use ccnic_client::{Config, FlowRule, FlowTarget, Nic};
    ///
    /// let nic = Nic::options().config(&Config { queues: 2, ..Config::default() }).open(&socket)?;
    /// let rule = FlowRule { to: FlowTarget::Queue(2), ..FlowRule::default() };
    /// let why = nic.flow_check(&rule).unwrap_err().to_string();
    /// assert!(why.contains("the program has queues 0 to 1"), "{why}");
    /// assert_eq!(nic.flows().count(), 0, "nothing has changed");
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Flow`] and [`Error::NoFlows`], as [`flow_create`](Nic::flow_create).
    pub fn flow_check(&self, rule: &FlowRule) -> Result<(), Error> {
        rule.check(self.config().queues).map_err(|why| Error::Flow { why })?;
        if self.flows.understood { Ok(()) } else { Err(Error::NoFlows) }
    }

    /// Removes a rule of this program, for this NIC and its successors.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// use ccnic_client::{Config, FlowRule, FlowTarget, Nic};
    ///
    /// let mut nic = Nic::options().config(&Config { queues: 2, ..Config::default() }).open(&socket)?;
    /// let id = nic.flow_create(&FlowRule { to: FlowTarget::Queue(1), ..FlowRule::default() })?;
    /// nic.flow_destroy(id)?;
    /// assert!(nic.flow_destroy(id).is_err(), "there is none any more");
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Flow`]: there is no such rule. [`Error::Refused`]: nothing has changed.
    pub fn flow_destroy(&mut self, id: u32) -> Result<(), Error> {
        if !self.flows.rules.contains_key(&id) {
            return Err(Error::Flow {
                why: format!("there is no rule {id}; give the number that its creation gave"),
            });
        }
        self.forget(FlowRequest::Destroy { program: None, id })?;
        self.flows.rules.remove(&id);
        Ok(())
    }

    /// Removes all rules of this program, for this NIC and its successors. The operator's stay.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// use ccnic_client::{Config, FlowRule, FlowTarget, Nic};
    ///
    /// let mut nic = Nic::options().config(&Config { queues: 2, ..Config::default() }).open(&socket)?;
    /// for queue in 0..2 {
    ///     nic.flow_create(&FlowRule { to: FlowTarget::Queue(queue), ..FlowRule::default() })?;
    /// }
    /// nic.flow_flush()?;
    /// assert_eq!(nic.flows().count(), 0);
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`]: nothing has changed.
    pub fn flow_flush(&mut self) -> Result<(), Error> {
        self.forget(FlowRequest::Flush { program: None })?;
        self.flows.rules.clear();
        Ok(())
    }

    /// A rule about this program's packets, also one of the operator, with its counters. They count from 0 at each NIC.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// use ccnic_client::{Config, FlowRule, FlowTarget, Nic};
    ///
    /// let mut nic = Nic::options().config(&Config { queues: 2, ..Config::default() }).open(&socket)?;
    /// let rule = FlowRule { to: FlowTarget::Drop, ..FlowRule::default() };
    /// let id = nic.flow_create(&rule)?;
    /// let entry = nic.flow_query(id)?;
    /// assert_eq!((entry.rule, entry.packets, entry.bytes), (rule, 0, 0)); // none has come yet
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`]: there is no such rule. Otherwise as [`flow_create`](Nic::flow_create).
    pub fn flow_query(&self, id: u32) -> Result<FlowEntry, Error> {
        match self.tell(FlowRequest::Query { program: None, id })? {
            FlowReply::Rules(page) if page.rules.len() == 1 => Ok(page.rules[0]),
            other => Err(Error::Protocol { what: format!("{other:?} in answer to a query of a flow rule") }),
        }
    }

    /// The rules of this program that its NIC follows, or its successor will, with their numbers. Asks nobody.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// use ccnic_client::{Config, FlowRule, FlowTarget, Nic};
    ///
    /// let mut nic = Nic::options().config(&Config { queues: 2, ..Config::default() }).open(&socket)?;
    /// let rule = FlowRule { to: FlowTarget::Queue(1), ..FlowRule::default() };
    /// let id = nic.flow_create(&rule)?;
    /// assert_eq!(nic.flows().collect::<Vec<_>>(), [(id, &rule)]);
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    pub fn flows(&self) -> impl Iterator<Item = (u32, &FlowRule)> {
        self.flows.rules.iter().map(|(id, rule)| (*id, rule))
    }

    fn tell(&self, request: FlowRequest) -> Result<FlowReply, Error> {
        if !self.flows.understood {
            return Err(Error::NoFlows);
        }
        match ask(&self.connection, request) {
            Err(_) if !self.alive() => Err(Error::Gone),
            told => told,
        }
    }

    /// Removes rules. A NIC that has none, or has gone, follows none.
    fn forget(&self, request: FlowRequest) -> Result<(), Error> {
        match self.tell(request) {
            Ok(_) | Err(Error::NoFlows | Error::Gone) => Ok(()),
            Err(e) => Err(e),
        }
    }
}
