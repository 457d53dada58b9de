//! SVG elements as text. Horizontal positions are tenths of a pixel, vertical ones whole pixels.

use std::fmt::Write;

/// A horizontal position or width in tenths of a pixel.
pub type Tenths = i64;

/// The maximum width of a character of 11 px text in browsers' default sans-serif fonts.
const CHARACTER: Tenths = 58;

/// Elements in the order in which they are painted.
#[derive(Default)]
pub struct Canvas {
    out: String,
}

/// The side of its position on which text is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The text begins there.
    Start,
    /// The middle of the text is there.
    Middle,
    /// The text ends there.
    End,
}

impl Side {
    /// The stretch that text of this width occupies at `x`.
    pub fn span(self, x: Tenths, width: Tenths) -> (Tenths, Tenths) {
        let from = match self {
            Side::Start => x,
            Side::Middle => x - width / 2,
            Side::End => x - width,
        };
        (from, from + width)
    }

    fn word(self) -> &'static str {
        match self {
            Side::Start => "start",
            Side::Middle => "middle",
            Side::End => "end",
        }
    }
}

/// The maximum width of 11 px text.
pub fn width_of(text: &str) -> Tenths {
    Tenths::try_from(text.chars().count()).unwrap_or(Tenths::MAX / CHARACTER) * CHARACTER
}

/// Tenths of a pixel in SVG notation.
pub fn px(tenths: Tenths) -> String {
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, part) = (tenths.abs() / 10, tenths.abs() % 10);
    if part == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// Text with XML's reserved characters escaped.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Canvas {
    /// Text as it is.
    pub fn raw(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// A rectangle.
    pub fn rect(&mut self, span: (Tenths, Tenths), y: i64, height: i64, attributes: &str) {
        let (x, width) = (px(span.0), px((span.1 - span.0).max(0)));
        self.push(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {attributes}/>"
        ));
    }

    /// A rectangle with a tooltip.
    pub fn named_rect(
        &mut self,
        span: (Tenths, Tenths),
        y: i64,
        height: i64,
        attributes: &str,
        name: &str,
    ) {
        let (x, width) = (px(span.0), px((span.1 - span.0).max(0)));
        self.push(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {attributes}>\
             <title>{}</title></rect>",
            escaped(name)
        ));
    }

    /// A straight line.
    pub fn line(&mut self, from: (Tenths, i64), to: (Tenths, i64), attributes: &str) {
        let (x1, x2) = (px(from.0), px(to.0));
        let (y1, y2) = (from.1, to.1);
        self.push(format_args!(
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {attributes}/>"
        ));
    }

    /// A circle; the radius is in tenths.
    pub fn circle(&mut self, at: (Tenths, i64), radius: Tenths, attributes: &str, name: &str) {
        let (x, y, r) = (px(at.0), at.1, px(radius));
        self.push(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {attributes}><title>{}</title></circle>",
            escaped(name)
        ));
    }

    /// A polygon through points with both coordinates in tenths.
    pub fn polygon(&mut self, points: &[(Tenths, Tenths)], attributes: &str) {
        let points: Vec<String> =
            points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
        self.push(format_args!("<polygon points=\"{}\" {attributes}/>", points.join(" ")));
    }

    /// A cross of two strokes around a point, `arm` tenths each way.
    pub fn cross(&mut self, at: (Tenths, i64), arm: Tenths, attributes: &str) {
        let (x, y) = (at.0, at.1 * 10);
        let (l, r, t, b) = (px(x - arm), px(x + arm), px(y - arm), px(y + arm));
        self.push(format_args!("<path d=\"M{l} {t}L{r} {b}M{l} {b}L{r} {t}\" {attributes}/>"));
    }

    /// A line of text.
    pub fn text(&mut self, at: (Tenths, i64), side: Side, class: &str, fill: &str, text: &str) {
        let (x, y, anchor, text) = (px(at.0), at.1, side.word(), escaped(text));
        self.push(format_args!(
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" class=\"{class}\" \
             fill=\"{fill}\">{text}</text>"
        ));
    }

    /// What was painted.
    pub fn done(self) -> String {
        self.out
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        self.out.write_fmt(element).expect("a string takes all");
        self.out.push('\n');
    }
}
