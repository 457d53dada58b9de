//! A row of labels that never overlap: who comes first stays, who finds no room is left out.

use crate::report::svg::canvas::{Canvas, Side, Tenths, width_of};
use crate::report::svg::palette::ALARM_TEXT;
use crate::report::svg::scale::PLOT;

/// Free space between two labels.
const GAP: Tenths = 60;
/// How far a label stands beside what it names.
const ASIDE: Tenths = 40;

/// What is taken in one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    taken: Vec<(Tenths, Tenths)>,
}

/// A label that wants a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where it belongs.
    pub x: Tenths,
    /// How it stands there.
    pub side: Side,
    /// Its colour.
    pub fill: &'static str,
    /// What it says.
    pub text: String,
}

impl Row {
    /// Takes a stretch if it is free.
    pub fn take(&mut self, span: (Tenths, Tenths)) -> bool {
        let free = self.taken.iter().all(|(from, to)| span.1 + GAP <= *from || to + GAP <= span.0);
        if free {
            self.taken.push(span);
        }
        free
    }

    /// Paints a label where it belongs, or beside it, or not at all.
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
