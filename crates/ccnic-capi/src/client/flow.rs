//! Flow rules: `struct ccnic_flow_rule`, and the functions of `ccnic_flow.h`.

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr};

use ccnic_client::{FlowMatch, FlowRule, FlowTarget};
use rustix::io::Errno;

use super::attachment::Ccnic;
use crate::abi::{UNKNOWN_FIELD, read_sized};
use crate::errno::{Failure, NULL, guard};
use crate::handle::shared;

/// `struct ccnic_flow_rule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "ccnic_flow.h says what they are")]
pub struct CcnicFlowRule {
    pub size: usize,
    pub priority: u32,
    pub fields: u32,
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    pub src_ip: [u8; 16],
    pub dst_ip: [u8; 16],
    pub vlan: u16,
    pub ether_type: u16,
    pub src_port: u16,
    pub dst_port: u16,
    pub queue: u16,
    pub mark: u16,
    pub flags: u32,
    pub protocol: u8,
    pub target: u8,
    pub reserved: [u8; 2],
}

const DST_MAC: u32 = 1;
const SRC_MAC: u32 = 2;
const VLAN: u32 = 4;
const ETHER_TYPE: u32 = 8;
const PROTOCOL: u32 = 16;
const SRC_IPV4: u32 = 32;
const DST_IPV4: u32 = 64;
const SRC_IPV6: u32 = 128;
const DST_IPV6: u32 = 256;
const SRC_PORT: u32 = 512;
const DST_PORT: u32 = 1024;
const ALL: u32 = 2047;

const MARK: u32 = 1;

const TWO_VERSIONS: Failure =
    Failure::new(Errno::INVAL, c"match names an IPv4 and an IPv6 address of one side; choose one");
const NO_TARGET: Failure = Failure::new(
    Errno::INVAL,
    c"target is none of CCNIC_FLOW_TO_RSS, CCNIC_FLOW_TO_QUEUE and CCNIC_FLOW_TO_DROP; choose one of them",
);

impl CcnicFlowRule {
    /// About all packets, which go where they go without it.
    pub const ALL: CcnicFlowRule = CcnicFlowRule {
        size: size_of::<CcnicFlowRule>(),
        priority: 0,
        fields: 0,
        dst_mac: [0; 6],
        src_mac: [0; 6],
        src_ip: [0; 16],
        dst_ip: [0; 16],
        vlan: 0,
        ether_type: 0,
        src_port: 0,
        dst_port: 0,
        queue: 0,
        mark: 0,
        flags: 0,
        protocol: 0,
        target: 0,
        reserved: [0; 2],
    };

    /// Reads the rule of a program.
    ///
    /// # Safety
    /// As [`read_sized`].
    unsafe fn read(from: *const CcnicFlowRule) -> Result<FlowRule, Failure> {
        // SAFETY: guaranteed by the caller; any bytes are valid fields.
        let (this, newer) = unsafe { read_sized(from, CcnicFlowRule::ALL)? };
        if newer || this.fields & !ALL != 0 || this.flags & !MARK != 0 || this.reserved != [0; 2] {
            return Err(UNKNOWN_FIELD);
        }
        this.rule()
    }

    fn rule(&self) -> Result<FlowRule, Failure> {
        let has = |field: u32| self.fields & field != 0;
        let ip = |four: u32, six: u32, bytes: [u8; 16]| {
            let [a, b, c, d, ..] = bytes;
            match (has(four), has(six)) {
                (false, false) => Ok(None),
                (true, false) => Ok(Some(Ipv4Addr::from([a, b, c, d]).into())),
                (false, true) => Ok(Some(Ipv6Addr::from(bytes).into())),
                (true, true) => Err(TWO_VERSIONS),
            }
        };
        let matches = FlowMatch {
            dst_mac: has(DST_MAC).then_some(self.dst_mac),
            src_mac: has(SRC_MAC).then_some(self.src_mac),
            vlan: has(VLAN).then_some(self.vlan),
            ether_type: has(ETHER_TYPE).then_some(self.ether_type),
            protocol: has(PROTOCOL).then_some(self.protocol),
            src_ip: ip(SRC_IPV4, SRC_IPV6, self.src_ip)?,
            dst_ip: ip(DST_IPV4, DST_IPV6, self.dst_ip)?,
            src_port: has(SRC_PORT).then_some(self.src_port),
            dst_port: has(DST_PORT).then_some(self.dst_port),
        };
        let to = match self.target {
            0 => FlowTarget::Rss,
            1 => FlowTarget::Queue(self.queue),
            2 => FlowTarget::Drop,
            _ => return Err(NO_TARGET),
        };
        let mark = (self.flags & MARK != 0).then_some(self.mark);
        Ok(FlowRule { priority: self.priority, matches, to, mark })
    }
}

/// # Safety
/// As `ccnic_flow.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_flow_create(
    nic: *mut Ccnic,
    rule: *const CcnicFlowRule,
    id: *mut u32,
) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let nic = unsafe { shared(nic)? };
        if rule.is_null() || id.is_null() {
            return Err(NULL);
        }
        // SAFETY: not null, and as large as its first word says (the contract of the header).
        let rule = unsafe { CcnicFlowRule::read(rule)? };
        let number = nic.with_flows(|nic| nic.flow_create(&rule))?;
        // SAFETY: not null; the caller's memory for a number.
        unsafe { id.write(number) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_flow.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_flow_check(nic: *mut Ccnic, rule: *const CcnicFlowRule) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let nic = unsafe { shared(nic)? };
        if rule.is_null() {
            return Err(NULL);
        }
        // SAFETY: not null, and as large as its first word says (the contract of the header).
        let rule = unsafe { CcnicFlowRule::read(rule)? };
        nic.with_flows(|nic| nic.flow_check(&rule))?;
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_flow.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_flow_destroy(nic: *mut Ccnic, id: u32) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let nic = unsafe { shared(nic)? };
        nic.with_flows(|nic| nic.flow_destroy(id))?;
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_flow.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_flow_flush(nic: *mut Ccnic) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let nic = unsafe { shared(nic)? };
        nic.with_flows(ccnic_client::Nic::flow_flush)?;
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_flow.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_flow_query(
    nic: *mut Ccnic,
    id: u32,
    packets: *mut u64,
    bytes: *mut u64,
) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let nic = unsafe { shared(nic)? };
        let entry = nic.with_flows(|nic| nic.flow_query(id))?;
        for (out, value) in [(packets, entry.packets), (bytes, entry.bytes)] {
            if !out.is_null() {
                // SAFETY: not null; the caller's memory for a number.
                unsafe { out.write(value) };
            }
        }
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_a_rule_and_unknown_ones_are_refused() {
        // SAFETY: `size` is that of the structure.
        let read = |rule: CcnicFlowRule| unsafe { CcnicFlowRule::read(&raw const rule) };
        assert_eq!(read(CcnicFlowRule::ALL), Ok(FlowRule::default()));
        let mut src_ip = [0; 16];
        src_ip[..4].copy_from_slice(&[10, 0, 0, 1]);
        let four = CcnicFlowRule {
            priority: 3,
            fields: SRC_IPV4 | PROTOCOL | DST_PORT | VLAN,
            src_ip,
            vlan: 5,
            protocol: 17,
            dst_port: 53,
            src_port: 99,
            target: 1,
            queue: 2,
            mark: 7,
            flags: MARK,
            ..CcnicFlowRule::ALL
        };
        let matches = FlowMatch {
            vlan: Some(5),
            protocol: Some(17),
            src_ip: "10.0.0.1".parse().ok(),
            dst_port: Some(53),
            ..FlowMatch::default()
        };
        let expected = FlowRule { priority: 3, matches, to: FlowTarget::Queue(2), mark: Some(7) };
        assert_eq!(read(four), Ok(expected));
        let six = CcnicFlowRule { fields: DST_IPV6, dst_ip: [0xfe; 16], target: 2, ..CcnicFlowRule::ALL };
        assert_eq!(read(six).map(|rule| rule.matches.dst_ip), Ok(Some(Ipv6Addr::from([0xfe; 16]).into())));
        for newer in [
            CcnicFlowRule { fields: ALL + 1, ..six },
            CcnicFlowRule { flags: 2, ..six },
            CcnicFlowRule { reserved: [0, 1], ..six },
        ] {
            assert_eq!(read(newer), Err(UNKNOWN_FIELD));
        }
        assert_eq!(read(CcnicFlowRule { fields: DST_IPV6 | DST_IPV4, ..six }), Err(TWO_VERSIONS));
        assert_eq!(read(CcnicFlowRule { target: 3, ..six }), Err(NO_TARGET));
    }
}
