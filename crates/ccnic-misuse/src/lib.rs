//! All public crates under one name, for the programs of `tests/programs`, which the compiler must refuse.

pub use {
    ccnic, ccnic_client, ccnic_control, ccnic_frame, ccnic_handoff, ccnic_kv, ccnic_nic, ccnic_shm, ccnic_tcp,
};
