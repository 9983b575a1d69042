//! Sizes of values: the distributions that the CC-NIC paper takes from CliqueMap, and fixed sizes.

use rand::Rng;
use rand_distr::{Distribution, LogNormal};

/// The largest value of the paper's workloads: its largest packet.
const LARGEST: u32 = 9600;
/// The largest of fixed sizes: what memcached stores by default.
const LARGEST_FIXED: u32 = 1 << 20;

/// How large values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// Google's advertisements: 61 % of the values are smaller than 100 bytes. What is larger than 9600 is cut to that.
    Ads,
    /// Google's geographic data: 13 % are smaller than 100 bytes. What is larger than 9600 is drawn again.
    Geo,
    /// As `Geo`, with smaller values.
    GeoSmall,
    /// All of one size.
    Fixed(u32),
}

impl Sizes {
    /// Mean and deviation of the logarithm of the size.
    fn logarithm(self) -> Option<(f64, f64)> {
        match self {
            Sizes::Ads => Some((4.2345, 1.3270)),
            Sizes::Geo => Some((6.5584, 1.6781)),
            Sizes::GeoSmall => Some((5.5588, 0.8466)),
            Sizes::Fixed(_) => None,
        }
    }

    /// # Errors
    /// When a fixed size is none that stores take.
    pub fn check(self) -> anyhow::Result<()> {
        match self {
            Sizes::Fixed(size) => {
                let holds = (1..=LARGEST_FIXED).contains(&size);
                anyhow::ensure!(holds, "--size is {size}; choose 1 to {LARGEST_FIXED} bytes");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Sizes of `count` objects.
    ///
    /// # Errors
    /// When the distribution's parameters are none that can be.
    pub fn draw(self, count: usize, rng: &mut impl Rng) -> anyhow::Result<Vec<u32>> {
        let Some((mean, deviation)) = self.logarithm() else {
            let Sizes::Fixed(size) = self else { return Ok(Vec::new()) };
            return Ok(vec![size; count]);
        };
        let sizes = LogNormal::new(mean, deviation)?;
        let mut one = || loop {
            let size = sizes.sample(rng);
            if self == Sizes::Ads || size <= f64::from(LARGEST) {
                // A size between two whole ones takes the next smaller one; none is empty.
                return (size as u32).clamp(1, LARGEST);
            }
        };
        Ok((0..count).map(|_| one()).collect())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    const COUNT: usize = 1_000_000;

    fn drawn(sizes: Sizes) -> Vec<u32> {
        sizes.draw(COUNT, &mut SmallRng::seed_from_u64(7)).unwrap()
    }

    fn share(sizes: &[u32], holds: impl Fn(u32) -> bool) -> f64 {
        sizes.iter().filter(|size| holds(**size)).count() as f64 / COUNT as f64
    }

    /// "61% are less than 100B, compared to 13% in Geo"; "truncating the largest 0.01% of Ads" (section 5.7).
    #[test]
    fn what_is_drawn_has_the_published_shares() {
        let (ads, geo) = (drawn(Sizes::Ads), drawn(Sizes::Geo));
        let below = |sizes: &[u32]| share(sizes, |size| size < 100);
        assert!((below(&ads) - 0.61).abs() < 0.005, "{}", below(&ads));
        assert!((below(&geo) - 0.13).abs() < 0.005, "{}", below(&geo));
        let cut = share(&ads, |size| size == LARGEST);
        assert!((0.00005..0.00015).contains(&cut), "{cut}");
        // Drawn again, not cut: there are no more of the largest than of those beside it.
        assert!(share(&geo, |size| size == LARGEST) < 0.00005);
        for sizes in [ads, geo, drawn(Sizes::GeoSmall)] {
            assert!(sizes.iter().all(|size| (1..=LARGEST).contains(size)));
        }
    }

    #[test]
    fn geo_small_has_its_median() {
        let mut sizes = drawn(Sizes::GeoSmall);
        sizes.sort_unstable();
        let median = f64::from(sizes[COUNT / 2]);
        assert!((median / 5.5588_f64.exp() - 1.0).abs() < 0.01, "{median}");
    }

    #[test]
    fn fixed_sizes_have_bounds() {
        assert_eq!(Sizes::Fixed(5).draw(2, &mut SmallRng::seed_from_u64(1)).unwrap(), [5, 5]);
        let error = Sizes::Fixed(0).check().unwrap_err();
        assert_eq!(error.to_string(), "--size is 0; choose 1 to 1048576 bytes");
        assert!(Sizes::Fixed(1 << 20).check().is_ok() && Sizes::Fixed((1 << 20) + 1).check().is_err());
    }
}
