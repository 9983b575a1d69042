//! What is measured of coherent programmed I/O, and of what it is compared with: points of the figures in `figures/pio`.

mod pcie;
pub mod work;
