//! Faults that the interface must survive, in every design.

ccnic_check::survives_faults!(grouped_epoch: GroupedEpoch, grouped_clear: GroupedClear, packed: Packed, padded: Padded, doorbell: Doorbell);
