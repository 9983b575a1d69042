//! The flow rules that stand in the configuration, and which of them are a program's.

use std::collections::BTreeSet;

use ccnic_control::flow::{FIRST_OF_CONFIGURATION, FlowRule, NumberedRule};

use super::FlowBook;

/// A rule for programs that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredFlow {
    /// Programs of this name; `None`: of any.
    pub name: Option<String>,
    /// Programs of this user; `None`: of any.
    pub uid: Option<u32>,
    /// The rule.
    pub rule: FlowRule,
}

/// The rules of the configuration, in its order, which is that of their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfiguredFlows(pub Vec<ConfiguredFlow>);

impl ConfiguredFlows {
    /// The rules for a program of this name and user.
    fn of<'a>(&'a self, name: Option<&'a str>, uid: Option<u32>) -> impl Iterator<Item = NumberedRule> + 'a {
        let fits = move |flow: &ConfiguredFlow| {
            flow.name.as_deref().is_none_or(|own| Some(own) == name)
                && flow.uid.is_none_or(|own| Some(own) == uid)
        };
        let numbered = (FIRST_OF_CONFIGURATION..).zip(&self.0);
        numbered.filter(move |(_, flow)| fits(flow)).map(|(id, flow)| (id, flow.rule))
    }

    /// The rules for a program with so many queues, and those among them that name a queue which it does not have, with what is wrong: these
    /// are left out.
    pub fn of_program(
        &self,
        name: &str,
        uid: u32,
        queues: u16,
    ) -> (Vec<NumberedRule>, Vec<(NumberedRule, String)>) {
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        for (id, rule) in self.of(Some(name), Some(uid)) {
            match rule.check(queues) {
                Ok(()) => right.push((id, rule)),
                Err(why) => wrong.push(((id, rule), why)),
            }
        }
        (right, wrong)
    }

    /// Whether there is a program that may have all rules which are for it.
    ///
    /// # Errors
    /// The place of one that may not be there, and why.
    pub fn check(&self) -> Result<(), (usize, String)> {
        let names: BTreeSet<_> = self.0.iter().map(|flow| flow.name.as_deref()).chain([None]).collect();
        let users: BTreeSet<_> = self.0.iter().map(|flow| flow.uid).chain([None]).collect();
        for name in names {
            for uid in &users {
                let mut book = FlowBook::empty(0);
                for (id, rule) in self.of(name, *uid) {
                    book.configure(id, rule).map_err(|why| ((id - FIRST_OF_CONFIGURATION) as usize, why))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ccnic_control::flow::{FlowMatch, FlowTarget};

    use super::*;

    fn flow(name: Option<&str>, uid: Option<u32>, vlan: u16, to: FlowTarget) -> ConfiguredFlow {
        let matches = FlowMatch { vlan: Some(vlan), ..FlowMatch::default() };
        let rule = FlowRule { matches, to, ..FlowRule::default() };
        ConfiguredFlow { name: name.map(str::to_owned), uid, rule }
    }

    #[test]
    fn a_program_has_the_rules_that_fit_it_and_its_queues() {
        let flows = ConfiguredFlows(vec![
            flow(Some("kv"), None, 1, FlowTarget::Queue(1)),
            flow(None, Some(7), 2, FlowTarget::Drop),
            flow(Some("kv"), Some(7), 3, FlowTarget::Queue(4)),
            flow(None, None, 4, FlowTarget::Rss),
        ]);
        flows.check().unwrap();
        let ids = |name, uid, queues| {
            let (right, wrong) = flows.of_program(name, uid, queues);
            let number = |id: u32| id - FIRST_OF_CONFIGURATION;
            let wrong: Vec<_> = wrong.into_iter().map(|((id, _), why)| (number(id), why)).collect();
            (right.into_iter().map(|(id, _)| number(id)).collect::<Vec<_>>(), wrong)
        };
        assert_eq!(ids("kv", 7, 8), (vec![0, 1, 2, 3], vec![]));
        assert_eq!(ids("kv", 8, 8), (vec![0, 3], vec![]));
        assert_eq!(ids("web", 7, 1), (vec![1, 3], vec![]));
        let (right, wrong) = ids("kv", 7, 2);
        assert_eq!((right, wrong[0].0), (vec![0, 1, 3], 2));
        assert!(wrong[0].1.contains("to is queue 4; the program has queues 0 to 1"), "{wrong:?}");
    }

    #[test]
    fn what_a_program_may_not_have_is_named() {
        let twice = [flow(None, None, 1, FlowTarget::Drop), flow(Some("kv"), Some(9), 1, FlowTarget::Rss)];
        let (at, why) = ConfiguredFlows(twice.into()).check().unwrap_err();
        assert!(at == 1 && why.contains("number 1 of the configuration's flow rules"), "{why}");
        // Two programs may, where one may not.
        let apart =
            [flow(Some("web"), None, 1, FlowTarget::Drop), flow(Some("kv"), None, 1, FlowTarget::Drop)];
        ConfiguredFlows(apart.into()).check().unwrap();
        let many = (0..65).map(|vlan| flow(None, Some(3), vlan, FlowTarget::Drop)).collect();
        let (at, why) = ConfiguredFlows(many).check().unwrap_err();
        assert!(at == 64 && why.contains("64 flow rules"), "{why}");
    }
}
