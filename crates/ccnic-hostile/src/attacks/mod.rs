//! The attacks, by what they are made of.

mod collapse;
mod control;
mod descriptors;
mod notifications;
mod packets;
mod pages;
mod region;
mod spinners;

use crate::Attack;

const fn attack(
    name: &'static str,
    about: &'static str,
    busy: u32,
    run: fn(&crate::Stage<'_>) -> anyhow::Result<()>,
) -> Attack {
    Attack { name, about, busy, busy_switched: busy, run }
}

/// All attacks.
pub const ATTACKS: [Attack; 36] = [
    attack(
        "greedy",
        "an honest program that sends packets of 9000 bytes without end, for comparison",
        1,
        packets::greedy,
    ),
    attack(
        "broadcast",
        "sends frames of 64 bytes to the broadcast address without end, which a switch floods",
        1,
        packets::broadcast,
    ),
    attack(
        "broadcast-long",
        "sends frames of 9000 bytes to the broadcast address, of a switch to 240 idle programs, which read them",
        1,
        packets::broadcast_long,
    ),
    attack(
        "tso-full",
        "sends super-packets of 60 segments to the broadcast address, of a switch to 240 idle programs, which read nothing",
        1,
        packets::tso_full,
    ),
    attack("tso-drained", "the same, to programs that read all they get", 1, packets::tso_drained),
    attack(
        "punch",
        "punches its region of 64 MiB, at the lowest priority, while the NIC polls it",
        0,
        pages::punch,
    ),
    attack("punch-attach", "attaches regions while it punches holes in them", 0, pages::punch_attach),
    attack(
        "collapse",
        "has each 2 MiB of its region of 62 MiB, and its end, put into a huge page, at the lowest priority beside threads that spin",
        0,
        collapse::large,
    ),
    attack("collapse-small", "the same with regions of less than 2 MiB", 0, collapse::small),
    attack("collapse-attach", "the same, from before it attaches a region", 0, collapse::attaching),
    attack(
        "collapse-other",
        "the same, in a second process that was handed the region",
        0,
        collapse::handed_over,
    ),
    attack(
        "sparse",
        "brings large regions without pages, with and without a header",
        0,
        pages::sparse_regions,
    ),
    attack("idle-wide", "8 idle programs of 256 queues", 0, packets::idle_wide),
    attack("idle-many", "1000 idle programs of one queue", 0, packets::idle_many),
    // On a loopback nothing of it can move. A switch moves all of it to others, and it writes more.
    Attack {
        busy_switched: 1,
        ..attack("full-rings", "256 queues that are full in both directions", 0, packets::full_rings)
    },
    attack("bad-descriptors", "256 queues of descriptors that name no packet", 1, packets::bad_descriptors),
    attack("flood-4k", "256 queues of packets of 4096 bytes", 1, packets::flood_4k),
    attack("flood-9000", "256 queues of packets of 9000 bytes in three segments", 1, packets::flood_9000),
    attack(
        "free-lists",
        "changes the heads of its free lists without end beside its traffic",
        1,
        region::free_lists,
    ),
    attack("scribble", "writes anything anywhere in its region while the NIC serves it", 1, region::scribble),
    attack(
        "attach-loop",
        "attaches with full rings, leaves at once, and goes on writing",
        1,
        region::attach_loop,
    ),
    attack(
        "linger-message",
        "sends sockets whose close blocks for 20 s beside messages that need none",
        0,
        descriptors::linger_message,
    ),
    attack(
        "linger-region",
        "brings sockets whose close blocks for 20 s as regions",
        0,
        descriptors::linger_region,
    ),
    attack(
        "linger-notifier",
        "leaves with sockets in its notifiers' queues whose close blocks for 20 s",
        0,
        descriptors::linger_notifier,
    ),
    attack("descriptors", "sends 253 descriptors with each message", 0, descriptors::many),
    attack(
        "notify-requests",
        "has 256 queues notify a socket that 200 threads wait for, and leaves, again and again",
        0,
        notifications::requests,
    ),
    attack(
        "notify-again",
        "asks 256 queues for a notification again after each packet",
        1,
        notifications::again,
    ),
    attack("slots", "attaches as many programs as the NIC takes", 0, control::slots),
    attack("connections", "thousands of connections that say nothing", 0, control::connections),
    attack(
        "status-flood",
        "64 connections that ask for the status without end, of 512 queues",
        0,
        control::status_flood,
    ),
    attack(
        "messages",
        "64 connections that send messages of 60 kB, and messages that are no requests",
        0,
        control::messages,
    ),
    attack(
        "steer-churn",
        "16 programs that change their flow rules and their RSS without end",
        0,
        control::steer_churn,
    ),
    attack("unread", "64 connections that ask without end and read no answer", 0, control::unread),
    attack("names", "programs with names of 50 kB of terminal escapes", 0, control::names),
    attack(
        "log-flood",
        "requests that are refused with a line in the log, as fast as it can",
        0,
        control::log_flood,
    ),
    attack("spinners", "four threads that spin on the CPUs that the NIC polls on", 0, spinners::spinners),
];
