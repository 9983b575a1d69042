//! The conformance suite over a vector.

ccnic_check::conformance!(ccnic_check::HeapMemory);
