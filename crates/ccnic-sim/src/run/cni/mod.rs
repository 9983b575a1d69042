//! What is run on the machine of the CNI paper (ISCA '96): microbenchmarks, and programs that compute something.

pub mod across;
pub mod appbt;
mod cube;
pub mod em3d;
pub mod gauss;
pub mod micro;
pub mod moldyn;
pub mod nodes;
pub mod programs;
pub mod spsolve;
pub mod work;
