//! Workloads: how many objects, how large, which of them are asked for, and how often one is written.
//!
//! A [`Plan`] is drawn before anything is measured, so that drawing costs the generator nothing then.

mod sizes;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

pub use sizes::Sizes;

/// Requests that are drawn; a longer run goes through them again.
const DRAWN: usize = 1 << 21;
/// In a drawn request: it is a set.
const SET: u32 = 1 << 31;
/// The most objects: their numbers share a word with the bit that marks a set.
pub const MOST_OBJECTS: u32 = SET - 1;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Objects, 1 to [`MOST_OBJECTS`].
    pub objects: u32,
    /// The share of gets, 0 to 1; the others are sets.
    pub gets: f64,
    /// Zipf's exponent: the object of rank `r` is asked for in proportion to `1 / r^zipf`. 0 is uniform.
    pub zipf: f64,
    /// Bytes of the values.
    pub sizes: Sizes,
    /// The largest value; larger ones are cut to this. A datagram on a NIC has no more room than a packet.
    pub largest: u32,
    /// What all draws begin with: the same seed gives the same objects and requests.
    pub seed: u64,
}

impl Workload {
    /// The paper's: a million objects, 95 % gets, Zipf 0.75 (CC-NIC, section 5.7).
    pub fn of_the_paper(sizes: Sizes) -> Workload {
        Workload { objects: 1_000_000, gets: 0.95, zipf: 0.75, sizes, largest: u32::MAX, seed: 1 }
    }

    /// YCSB's with records of 1000 bytes and its Zipf constant; its workload A has half gets, B 95 %, C gets only.
    pub fn of_ycsb(gets: f64) -> Workload {
        Workload {
            objects: 1_000_000,
            gets,
            zipf: 0.99,
            sizes: Sizes::Fixed(1000),
            largest: u32::MAX,
            seed: 1,
        }
    }

    /// # Errors
    /// The first field that is out of range, with what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        let Workload { objects, gets, zipf, .. } = *self;
        anyhow::ensure!(
            (1..=MOST_OBJECTS).contains(&objects),
            "--objects is {objects}; choose 1 to {MOST_OBJECTS}"
        );
        anyhow::ensure!((0.0..=1.0).contains(&gets), "--gets is {gets}; choose 0 to 1");
        anyhow::ensure!((0.0..=10.0).contains(&zipf), "--zipf is {zipf}; choose 0 to 10");
        anyhow::ensure!(self.largest > 0, "--largest is 0; choose more");
        self.sizes.check()
    }
}

/// One request of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Draw {
    /// The object, by its rank: 0 is the one asked for most.
    pub object: u32,
    /// It is written, not read.
    pub set: bool,
}

/// The objects of a workload with their sizes, and requests for them.
#[derive(Debug)]
pub struct Plan {
    sizes: Vec<u32>,
    draws: Vec<u32>,
}

impl Plan {
    /// Draws the sizes of all objects, and requests.
    ///
    /// # Errors
    /// When the workload is none that can be.
    pub fn draw(workload: &Workload) -> anyhow::Result<Plan> {
        workload.check()?;
        let mut rng = SmallRng::seed_from_u64(workload.seed);
        let mut sizes = workload.sizes.draw(workload.objects as usize, &mut rng)?;
        sizes.iter_mut().for_each(|size| *size = (*size).min(workload.largest));
        let zipf = Zipf::new(f64::from(workload.objects), workload.zipf)?;
        let draws = (0..DRAWN).map(|_| {
            // Ranks from 1 to `objects`.
            let object = zipf.sample(&mut rng) as u32 - 1;
            object | if rng.random_bool(workload.gets) { 0 } else { SET }
        });
        Ok(Plan { draws: draws.collect(), sizes })
    }

    /// The objects.
    pub fn objects(&self) -> u32 {
        self.sizes.len() as u32
    }

    /// The bytes of an object's value.
    #[inline]
    pub fn size(&self, object: u32) -> usize {
        self.sizes.get(object as usize).map_or(0, |size| *size as usize)
    }

    /// The bytes of all values.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().map(|size| u64::from(*size)).sum()
    }

    /// The largest value.
    pub fn largest(&self) -> usize {
        self.sizes.iter().max().map_or(0, |size| *size as usize)
    }

    /// Request number `n`.
    #[inline]
    pub fn request(&self, n: u64) -> Draw {
        let draw = self.draws[n as usize % DRAWN];
        Draw { object: draw & !SET, set: draw & SET != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(zipf: f64, gets: f64) -> Workload {
        Workload { zipf, gets, sizes: Sizes::Fixed(8), ..Workload::of_the_paper(Sizes::Ads) }
    }

    /// What the paper's workload asks for: the first key gets 1 / 123 of all requests, the first hundredth 29.7 %.
    #[test]
    fn requests_follow_zipf() {
        let plan = Plan::draw(&small(0.75, 0.95)).unwrap();
        let (mut first, mut hundredth, mut sets) = (0, 0, 0);
        for n in 0..DRAWN as u64 {
            let Draw { object, set } = plan.request(n);
            assert!(object < 1_000_000);
            first += u64::from(object == 0);
            hundredth += u64::from(object < 10_000);
            sets += u64::from(set);
        }
        let share = |count: u64| count as f64 / DRAWN as f64;
        assert!((share(first) - 0.0081).abs() < 0.0003, "{}", share(first));
        assert!((share(hundredth) - 0.297).abs() < 0.002, "{}", share(hundredth));
        assert!((share(sets) - 0.05).abs() < 0.001, "{}", share(sets));
        assert_eq!(plan.request(3), plan.request(3 + DRAWN as u64), "a longer run begins again");
    }

    /// YCSB's core workloads A, B and C: 50, 95 and 100 % reads of records of 10 fields of 100 bytes, Zipf 0.99 (Cooper et al., SoCC 2010).
    #[test]
    fn ycsb_is_as_published() {
        let zeta: f64 = (1..=1_000_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
        for (name, gets) in [("a", 0.5), ("b", 0.95), ("c", 1.0)] {
            let plan = Plan::draw(&Workload::of_ycsb(gets)).unwrap();
            let (mut first, mut sets) = (0, 0);
            for n in 0..DRAWN as u64 {
                let Draw { object, set } = plan.request(n);
                first += u64::from(object == 0);
                sets += u64::from(set);
            }
            let share = |count: u64| count as f64 / DRAWN as f64;
            assert!((share(first) - 1.0 / zeta).abs() < 0.001, "{name}: {} of {}", share(first), 1.0 / zeta);
            assert!((share(sets) - (1.0 - gets)).abs() < 0.001, "{name}: {}", share(sets));
            assert!((0..1_000_000).all(|object| plan.size(object) == 1000), "{name}");
        }
    }

    #[test]
    fn zipf_0_is_uniform_and_shares_of_gets_may_be_none_or_all() {
        let plan = Plan::draw(&Workload { objects: 10, ..small(0.0, 1.0) }).unwrap();
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|n| counts[plan.request(n).object as usize] += 1);
        assert!(counts.iter().all(|count| (9_000..11_000).contains(count)), "{counts:?}");
        assert!((0..1000).all(|n| !plan.request(n).set));
        let sets = Plan::draw(&Workload { objects: 10, ..small(0.0, 0.0) }).unwrap();
        assert!((0..1000).all(|n| sets.request(n).set));
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let [a, b, other] = [1, 1, 2].map(|seed| {
            Plan::draw(&Workload { seed, objects: 1000, ..Workload::of_the_paper(Sizes::Ads) }).unwrap()
        });
        assert_eq!((&a.sizes, &a.draws), (&b.sizes, &b.draws));
        assert!(a.sizes != other.sizes && a.draws != other.draws);
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        let refused = |workload: Workload, expected| {
            assert_eq!(workload.check().unwrap_err().to_string(), expected);
        };
        refused(Workload { objects: 0, ..small(0.0, 1.0) }, "--objects is 0; choose 1 to 2147483647");
        refused(small(0.0, 1.5), "--gets is 1.5; choose 0 to 1");
        refused(small(f64::NAN, 1.0), "--zipf is NaN; choose 0 to 10");
    }
}
