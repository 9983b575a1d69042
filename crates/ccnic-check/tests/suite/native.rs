//! The conformance suite over mapped shared memory.

ccnic_check::conformance!(ccnic_check::MappedMemory);
