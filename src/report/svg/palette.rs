//! Colours that colour-blind readers can distinguish (Okabe and Ito), and hatchings.

use crate::explain::witness::Witness;
use crate::plan::host_name::caller_number;
use crate::report::svg::canvas::Canvas;

/// The colours of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hue {
    /// Number of its hatching.
    pub number: usize,
    /// The colour of its bars.
    pub fill: &'static str,
    /// The colour of text on its bars.
    pub ink: &'static str,
    /// The colour of text about it on white.
    pub text: &'static str,
}

/// The colour of violations.
pub const ALARM: &str = "#d55e00";
/// The colour of text about violations.
pub const ALARM_TEXT: &str = "#a84300";
/// The colour of text.
pub const INK: &str = "#1f2328";
/// The colour of secondary text.
pub const GREY: &str = "#59636e";
/// The colour of unobtrusive lines.
pub const FAINT: &str = "#d7dce1";

const fn hue(number: usize, fill: &'static str, ink: &'static str, text: &'static str) -> Hue {
    Hue { number, fill, ink, text }
}

const HUES: [Hue; 6] = [
    hue(0, "#0072b2", "#ffffff", "#005a8c"),
    hue(1, "#e69f00", "#1f2328", "#8a5f00"),
    hue(2, "#009e73", "#ffffff", "#00694c"),
    hue(3, "#cc79a7", "#1f2328", "#984471"),
    hue(4, "#56b4e9", "#1f2328", "#1b6f9f"),
    hue(5, "#b8a800", "#1f2328", "#6e6500"),
];
const NOBODY: Hue = hue(6, "#6e7781", "#ffffff", "#59636e");

/// The colours of a client by its name: `c1` has the first; all other hosts have grey.
pub fn hue_of(caller: &str) -> Hue {
    match caller_number(caller) {
        // The callers of one client differ from each other.
        Some((number, nth)) if number > 0 && nth > 0 => HUES[(number + 3 * nth - 4) % HUES.len()],
        _ => NOBODY,
    }
}

/// The colours of the owner of an operation.
pub fn hue_of_owner(witness: &Witness<'_>, owner: Option<u32>) -> Hue {
    hue_of(owner.and_then(|owner| witness.caller(owner)).unwrap_or_default())
}

/// Paints the hatchings that others refer to: `bare0`.. for holds past their lease, `still` for
/// halted processes, `cut` for links.
pub fn define(canvas: &mut Canvas) {
    canvas.raw("<defs>");
    for hue in HUES.into_iter().chain([NOBODY]) {
        canvas.raw(&format!(
            "<pattern id=\"bare{}\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"#ffffff\"/>\
             <rect width=\"2.5\" height=\"7\" fill=\"{}\"/></pattern>",
            hue.number, hue.fill
        ));
    }
    for (id, angle, colour) in [("still", -45, "#6e7781"), ("cut", 45, "#6e7781")] {
        canvas.raw(&format!(
            "<pattern id=\"{id}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate({angle})\"><rect width=\"6\" height=\"6\" fill=\"{colour}\" \
             fill-opacity=\".12\"/><rect width=\"1.4\" height=\"6\" fill=\"{colour}\" \
             fill-opacity=\".65\"/></pattern>"
        ));
    }
    canvas.raw("</defs>");
}
