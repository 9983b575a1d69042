//! What can go wrong when a stack is opened or used. Reads and writes return [`std::io::Error`], with the kinds that sockets have.

use std::net::IpAddr;

/// Why a stack could not be opened, or a call of it failed.
///
/// ```
/// use ccnic_tcp::{Error, Network};
///
/// let error = "224.0.0.1/24".parse::<Network>().unwrap_err();
/// assert!(matches!(error, Error::NotUnicast { .. }));
/// assert_eq!(error.to_string(), "224.0.0.1 is not the address of a host; choose a unicast address");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The attachment to the NIC.
    #[error(transparent)]
    Nic(#[from] ccnic_client::Error),
    /// An address that is none.
    #[error("{text:?} is no address with prefix, such as 10.9.0.2/24 or fd09::2/64")]
    Address {
        /// What was given.
        text: String,
    },
    /// No host has such an address.
    #[error("{address} is not the address of a host; choose a unicast address")]
    NotUnicast {
        /// What was given.
        address: IpAddr,
    },
    /// An address of the other version of IP.
    #[error("{field} is {address}, which is no IPv{version} address; choose one, or leave it out")]
    Version {
        /// The field of [`Options`](crate::Options).
        field: &'static str,
        /// What was given.
        address: IpAddr,
        /// The version of IP that the field is for.
        version: u8,
    },
    /// A gateway that this host cannot send to.
    #[error("{field} is {gateway}, {why}")]
    Gateway {
        /// The field of [`Options`](crate::Options).
        field: &'static str,
        /// What was given.
        gateway: IpAddr,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// More gateways than a host has.
    #[error("{first} and {second} are gateways of the same version of IP; leave one of them out")]
    TwoGateways {
        /// The first one.
        first: IpAddr,
        /// Another one.
        second: IpAddr,
    },
    /// A limit of [`Options`](crate::Options) is out of its range.
    #[error("{field} is {value}; choose {least} to {most}")]
    Range {
        /// The field.
        field: &'static str,
        /// What was given.
        value: usize,
        /// The least it may be.
        least: usize,
        /// The most it may be.
        most: usize,
    },
    /// Somebody listens there.
    #[error("port {port} is in use; close its listener or choose another one")]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// There is no way to that address.
    #[error(
        "no way to {address}: it is in no network of this host, and there is no gateway; give one, or an address of that network"
    )]
    NoRoute {
        /// The address.
        address: IpAddr,
    },
    /// All ports for this destination are in use.
    #[error("all local ports to this destination are in use; close connections, or open more stacks")]
    NoPort,
    /// There are as many connections as the options permit.
    #[error("there are {most} connections, which is Options::connections; close some or permit more")]
    TooMany {
        /// The limit.
        most: usize,
    },
}
