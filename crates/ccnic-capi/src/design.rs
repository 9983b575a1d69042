//! Something that there is for each of the five ring designs, behind one type. The design is looked at once per burst, never per
//! packet.

/// A value of the type that one of the designs has.
#[derive(Debug)]
pub(crate) enum ByDesign<Epoch, Clear, Packed, Padded, Doorbell> {
    Epoch(Epoch),
    Clear(Clear),
    Packed(Packed),
    Padded(Padded),
    Doorbell(Doorbell),
}

/// The value for `$design`, by the expression `$make`, whose type the design decides.
macro_rules! by_design {
    ($design:expr, $make:expr) => {
        match $design {
            ccnic::Design::GroupedEpoch => $crate::design::ByDesign::Epoch($make),
            ccnic::Design::GroupedClear => $crate::design::ByDesign::Clear($make),
            ccnic::Design::Packed => $crate::design::ByDesign::Packed($make),
            ccnic::Design::Padded => $crate::design::ByDesign::Padded($make),
            ccnic::Design::Doorbell => $crate::design::ByDesign::Doorbell($make),
        }
    };
}

/// Evaluates `$body` with `$value` as the value of whichever design.
macro_rules! of_any_design {
    ($self:expr, $value:ident => $body:expr) => {
        match $self {
            $crate::design::ByDesign::Epoch($value) => $body,
            $crate::design::ByDesign::Clear($value) => $body,
            $crate::design::ByDesign::Packed($value) => $body,
            $crate::design::ByDesign::Padded($value) => $body,
            $crate::design::ByDesign::Doorbell($value) => $body,
        }
    };
}

pub(crate) use {by_design, of_any_design};
