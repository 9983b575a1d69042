//! What ports there are and what they may do: a few of everything, so that inputs meet.

use std::net::IpAddr;

use ccnic_frame::Takes;

use crate::input::Input;

/// VLANs that ports are in.
const VLANS: [u16; 3] = [10, 20, 4094];

/// The address of station `n`.
pub(super) fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// Stations that frames come from and go to. Those from here on are static entries: one of each port.
pub(super) const STATIONS: u8 = 6;

/// What holds for the whole switch.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) addresses: usize,
    pub(super) per_port: u32,
    /// Seconds.
    pub(super) ageing: u32,
}

impl Settings {
    pub(super) fn new(input: &Input) -> Settings {
        let how = input.byte();
        Settings {
            addresses: if how & 1 == 0 { 64 } else { 3 },
            per_port: if how & 2 == 0 { 64 } else { 2 },
            ageing: if how & 4 == 0 { 300 } else { 6 },
        }
    }
}

/// What a port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Program {
        takes: Takes,
        mtu: u16,
    },
    /// Somewhere outside; it takes all that is requested, or nothing.
    Outside {
        takes_all: bool,
    },
}

/// A port.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    pub(super) rules: Rules,
}

/// As [`ccnicd::switch::policy::Policy`], in what the model understands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rules {
    pub(super) vlans: Vlans,
    /// Stations that it may speak from; none: any.
    pub(super) macs: Vec<u8>,
    /// It may speak from [`ALLOWED`] only.
    pub(super) hosts: bool,
    pub(super) isolated: bool,
    /// Packets a second.
    pub(super) storm: Option<u64>,
    pub(super) receives: Option<u64>,
    /// A static entry: the station, its VLAN.
    pub(super) fixed: Option<(u8, u16)>,
    /// The port that gets copies; of what it sends, of what it is sent.
    pub(super) mirror: Option<(usize, bool, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Vlans {
    #[default]
    None,
    Access(u16),
    /// Those it carries, and that without tags, or 0.
    Trunk(Vec<u16>, u16),
}

/// Networks of ports that are held to their IP addresses.
pub(super) const ALLOWED: [(IpAddr, u8); 2] = [
    (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 0)), 24),
    (IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0)), 64),
];

impl Plan {
    pub(super) fn new(input: &Input) -> Plan {
        let how = input.byte();
        let kind = match how & 3 {
            0 => Kind::Outside { takes_all: how & 4 == 0 },
            _ => Kind::Program {
                takes: Takes::from_bits(u32::from(how >> 3)),
                mtu: if how & 4 == 0 { 9600 } else { 1500 },
            },
        };
        Plan { kind, rules: Rules::default() }
    }

    pub(super) fn is_outside(&self) -> bool {
        matches!(self.kind, Kind::Outside { .. })
    }

    /// The longest frame that it sends.
    pub(super) fn longest(&self) -> usize {
        match self.kind {
            Kind::Program { mtu, .. } => mtu.into(),
            Kind::Outside { .. } => 16_000,
        }
    }
}

/// The ports.
pub(super) fn plans(input: &Input) -> Vec<Plan> {
    let number = 2 + input.below(4);
    let mut plans: Vec<Plan> = (0..number).map(|_| Plan::new(input)).collect();
    if input.byte() & 1 == 0 {
        for at in 0..number {
            plans[at].rules = rules(input, at, &plans);
        }
    }
    plans
}

/// What the port `at` may do.
pub(super) fn rules(input: &Input, at: usize, plans: &[Plan]) -> Rules {
    let (how, more) = (input.byte(), input.byte());
    let vlan = |n: u8| VLANS[usize::from(n) % VLANS.len()];
    let vlans = match how & 7 {
        0..4 => Vlans::None,
        4 => Vlans::Access(vlan(more)),
        5 => Vlans::Trunk(VLANS.to_vec(), 0),
        6 => Vlans::Trunk(vec![vlan(more), vlan(more / 4)], 0),
        _ => Vlans::Trunk(VLANS.to_vec(), vlan(more)),
    };
    let rate = |n: u8| [100, 200, 500, 1000][usize::from(n) & 3];
    let home = vlans.untagged().or(vlans.carried());
    let mirror = if how & 0x40 != 0 {
        let to = input.below(plans.len());
        let which = input.below(3);
        (to != at && plans[to].is_outside()).then_some((to, which != 0, which != 1))
    } else {
        None
    };
    Rules {
        macs: if how & 8 == 0 { vec![] } else { vec![more % STATIONS, more / 16 % STATIONS] },
        hosts: how & 0x10 != 0,
        isolated: how & 0x20 != 0,
        storm: (more & 0x40 != 0).then(|| rate(more)),
        receives: (more & 0x80 != 0).then(|| rate(more / 4)),
        fixed: (how & 0x80 != 0).then(|| (STATIONS + at as u8, home.unwrap_or(0))),
        mirror,
        vlans,
    }
}

/// True when port `at` gets copies of another one's packets.
pub(super) fn is_mirror(at: usize, plans: &[Plan]) -> bool {
    plans.iter().any(|plan| plan.rules.mirror.is_some_and(|(to, ..)| to == at))
}

impl Vlans {
    /// The VLAN of frames without a tag.
    fn untagged(&self) -> Option<u16> {
        match self {
            Vlans::None => None,
            Vlans::Access(own) => Some(*own),
            Vlans::Trunk(_, native) => Some(*native).filter(|native| *native != 0),
        }
    }

    fn carried(&self) -> Option<u16> {
        match self {
            Vlans::Trunk(carried, _) => carried.first().copied(),
            _ => None,
        }
    }

    /// The VLAN of a frame that comes with this tag control information, 0 where there are none; `None`: it may not enter.
    pub(super) fn enters(&self, tci: Option<u16>) -> Option<u16> {
        let vlan = tci.map_or(0, |tci| tci & 0xfff);
        match self {
            Vlans::None => Some(0),
            Vlans::Access(own) => (vlan == 0).then_some(*own),
            Vlans::Trunk(carried, native) => {
                let vlan = if vlan == 0 { *native } else { vlan };
                carried.contains(&vlan).then_some(vlan)
            }
        }
    }

    /// True when frames of this VLAN, or of none, go to the port.
    pub(super) fn has(&self, vlan: u16) -> bool {
        match self {
            Vlans::None => vlan == 0,
            Vlans::Access(own) => *own == vlan,
            Vlans::Trunk(carried, _) => carried.contains(&vlan),
        }
    }

    /// True when they leave with a tag.
    pub(super) fn tags(&self, vlan: u16) -> bool {
        matches!(self, Vlans::Trunk(_, native) if *native != vlan)
    }
}
