//! A row of labels that never overlap: the first one stays, and a label without room is left out.

use crate::report::svg::canvas::{Canvas, Side, Tenths, width_of};
use crate::report::svg::palette::ALARM_TEXT;
use crate::report::svg::scale::PLOT;

/// Free space between two labels.
const GAP: Tenths = 60;
/// The distance between a label and what it names.
const ASIDE: Tenths = 40;

/// The occupied stretches of one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelRow {
    taken: Vec<(Tenths, Tenths)>,
}

/// A label to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its position.
    pub x: Tenths,
    /// The side of its position.
    pub side: Side,
    /// Its colour.
    pub fill: &'static str,
    /// Its text.
    pub text: String,
}

impl LabelRow {
    /// Occupies a stretch if it is free.
    pub fn take(&mut self, span: (Tenths, Tenths)) -> bool {
        let free = self.taken.iter().all(|(from, to)| span.1 + GAP <= *from || to + GAP <= span.0);
        if free {
            self.taken.push(span);
        }
        free
    }

    /// Paints a label at its position, or beside it, or not at all.
    pub fn place(&mut self, canvas: &mut Canvas, y: i64, label: &Label) -> bool {
        let width = width_of(&label.text);
        let others = match label.side {
            Side::Start => [Side::Start, Side::End, Side::Middle],
            Side::Middle => [Side::Middle, Side::Start, Side::End],
            Side::End => [Side::End, Side::Start, Side::Middle],
        };
        let class = if label.fill == ALARM_TEXT { "a" } else { "s" };
        for side in others {
            let x = match side {
                Side::Start => label.x + ASIDE,
                Side::Middle => label.x,
                Side::End => label.x - ASIDE,
            };
            let (from, to) = inside(side.span(x, width), width);
            if self.take((from, to)) {
                let (x, anchor) = match side {
                    Side::Start => (from, Side::Start),
                    Side::Middle => ((from + to) / 2, Side::Middle),
                    Side::End => (to, Side::End),
                };
                canvas.text((x, y), anchor, class, label.fill, &label.text);
                return true;
            }
        }
        false
    }
}

fn inside(span: (Tenths, Tenths), width: Tenths) -> (Tenths, Tenths) {
    let from = span.0.min(PLOT.1 - width).max(PLOT.0);
    (from, from + width)
}
