//! A cube of cells that processors share: which subcube is whose, and which cells lie at its faces.

/// The processors as a box: a power of two of them, halved along each direction in turn.
pub(super) fn processors_as_box(mut processors: usize) -> [usize; 3] {
    let mut sides = [1; 3];
    for direction in (0..3).cycle() {
        if processors < 2 {
            return sides;
        }
        sides[direction] *= 2;
        processors /= 2;
    }
    sides
}

/// How the cube is divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division {
    /// Cells along an edge of the cube.
    pub(super) edge: usize,
    /// Processors along each direction.
    pub(super) sides: [usize; 3],
}

/// A side of a subcube: along which direction, and whether it is the upper one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Face(pub(super) usize);

impl Face {
    fn direction(self) -> usize {
        self.0 / 2
    }

    pub(super) fn is_upper(self) -> bool {
        self.0 % 2 == 1
    }

    pub(super) fn opposite(self) -> Face {
        Face(self.0 ^ 1)
    }

    pub(super) const ALL: [Face; 6] = [Face(0), Face(1), Face(2), Face(3), Face(4), Face(5)];
}

impl Division {
    /// Cells of a subcube along each direction.
    pub(super) fn extent(&self) -> [usize; 3] {
        self.sides.map(|side| self.edge / side)
    }

    pub(super) fn neighbour(&self, processor: usize, face: Face) -> Option<usize> {
        let [sx, sy, _] = self.sides;
        let mut at = place(processor, self.sides);
        let direction = face.direction();
        let next = if face.is_upper() { at[direction] + 1 } else { at[direction].wrapping_sub(1) };
        at[direction] = next;
        (next < self.sides[direction]).then(|| at[0] + sx * (at[1] + sy * at[2]))
    }

    /// Where a cell of a processor's subcube is in the cube.
    pub(super) fn in_cube(&self, processor: usize, cell: usize) -> [usize; 3] {
        let extent = self.extent();
        let (subcube, at) = (place(processor, self.sides), place(cell, extent));
        [0, 1, 2].map(|d| subcube[d] * extent[d] + at[d])
    }

    /// Cells of a face, as numbers of the subcube's cells.
    pub(super) fn cells(&self, face: Face) -> Vec<usize> {
        let extent = self.extent();
        let wanted = if face.is_upper() { extent[face.direction()] - 1 } else { 0 };
        (0..extent.iter().product()).filter(|i| place(*i, extent)[face.direction()] == wanted).collect()
    }
}

/// Where the `i`th of the things in a box is.
pub(super) fn place(i: usize, [ex, ey, _]: [usize; 3]) -> [usize; 3] {
    [i % ex, i / ex % ey, i / ex / ey]
}

/// The neighbour of a cell in a box of cells.
pub(super) fn inside(i: usize, face: Face, extent: [usize; 3]) -> Option<usize> {
    let (at, direction) = (place(i, extent)[face.direction()], face.direction());
    let step: usize = extent[..direction].iter().product();
    match face.is_upper() {
        true => (at + 1 < extent[direction]).then_some(i + step),
        false => (at > 0).then(|| i - step),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_share_the_cube() {
        assert_eq!((processors_as_box(16), processors_as_box(4)), ([4, 2, 2], [2, 2, 1]));
        let division = Division { edge: 24, sides: processors_as_box(16) };
        assert_eq!(
            (division.extent(), division.cells(Face(0)).len(), division.cells(Face(2)).len()),
            ([6, 12, 12], 144, 72)
        );
        assert_eq!((division.neighbour(5, Face(1)), division.neighbour(3, Face(1))), (Some(6), None));
        for processor in 0..16 {
            for face in Face::ALL {
                let Some(other) = division.neighbour(processor, face) else { continue };
                assert_eq!(division.neighbour(other, face.opposite()), Some(processor));
            }
        }
    }
}
