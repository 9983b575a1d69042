//! Places of ports: the same number in the switches of all workers.

use std::sync::{Arc, Mutex, PoisonError};

use super::{MAX_PORTS, PortId};

/// The places of a switch. Clones are of the same switch.
#[derive(Debug, Clone)]
pub struct Places(Arc<Mutex<Taken>>);

#[derive(Debug)]
struct Taken {
    taken: Box<[bool]>,
    /// Where to look first: a place that has become free is not taken at once.
    next: usize,
}

/// A port's place. It is free again when this is dropped: everything that is in the switch for the port has a reference.
#[derive(Debug, Default)]
pub struct Place {
    at: PortId,
    of: Option<Places>,
}

impl Default for Places {
    fn default() -> Places {
        Places(Arc::new(Mutex::new(Taken { taken: vec![false; MAX_PORTS].into(), next: 0 })))
    }
}

impl Places {
    /// A place that is free; `None` when there is none.
    pub fn take(&self) -> Option<Arc<Place>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Taken { taken, next } = &mut *places;
        let n = taken.len();
        let at = (*next..*next + n).map(|at| at % n).find(|at| taken.get(*at) == Some(&false))?;
        taken.get_mut(at).into_iter().for_each(|taken| *taken = true);
        *next = (at + 1) % n;
        Some(Arc::new(Place { at: at as PortId, of: Some(self.clone()) }))
    }
}

impl Place {
    /// Its number.
    pub fn at(&self) -> PortId {
        self.at
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(Places(places)) = &self.of {
            let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
            places.taken.get_mut(usize::from(self.at)).into_iter().for_each(|taken| *taken = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_taken_once_and_free_again_when_nobody_has_it() {
        let places = Places::default();
        let mut taken: Vec<_> = (0..MAX_PORTS).map(|_| places.take().unwrap()).collect();
        assert!(taken.iter().map(|place| usize::from(place.at())).eq(0..MAX_PORTS));
        assert!(places.take().is_none());
        let kept = Arc::clone(&taken[7]);
        taken.remove(7);
        assert!(places.take().is_none(), "somebody has it still");
        drop(kept);
        taken.remove(3);
        assert_eq!(places.take().unwrap().at(), 3, "the places go round");
        assert_eq!(places.take().unwrap().at(), 7);
        assert_eq!(Place::default().at(), 0, "of no switch");
    }
}
