//! The conformance suite over the heap.

ccnic_check::conformance!(ccnic_check::HeapMemory);
