//! The picture: lanes of clients, nodes and the resource over an axis to scale.
//!
//! The picture is one self-contained SVG without scripts or embedded fonts, on white, readable for
//! the colour-blind. It draws the history and decides nothing.

use crate::explain::explanation::Explanation;
use crate::explain::finding::Finding;
use crate::explain::witness::Witness;
use crate::report::svg::canvas::{Canvas, Side, Tenths, escaped};
use crate::report::svg::layout::{Lane, Role};
use crate::report::svg::palette::{GREY, INK, hue_of};
use crate::report::svg::scale::{PLOT, Scale};

mod arrows;
mod canvas;
mod clients;
mod labels;
mod layout;
mod legend;
mod nodes;
mod palette;
mod resource;
mod rulers;
mod scale;
mod strip;

/// Width of the picture in pixels.
const WIDTH: i64 = 1_000;
/// The maximum number of characters that fit under the title.
const SENTENCE: usize = 140;
/// Right edge of the names of lanes.
const GUTTER: Tenths = PLOT.0 - 100;

const STYLE: &str = "<style>text{font-family:-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}\
.t{font-size:17px;font-weight:600}.u{font-size:13px}.h{font-size:13px;font-weight:600}\
.s{font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\
.a{font-size:11px;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:3px;\
stroke-linejoin:round}\
.b{font-size:11px;font-weight:600}</style>";

/// Draws a finding.
pub fn picture(finding: &Finding, explanation: &Explanation) -> String {
    let witness = Witness::of(finding);
    let scale = Scale::of(&witness, &explanation.story);
    // The lanes begin below the rows of faults, which are painted first; but the grid lies beneath
    // both.
    let mut body = Canvas::default();
    let top = strip::faults(&mut body, &witness, &scale, 64);
    let lanes = layout::lanes(&witness, &scale, top + 20);
    let bottom = lanes.last().map_or(top, |lane| lane.top + lane.height);
    let mut canvas = Canvas::default();
    open(&mut canvas, finding, explanation, bottom + 60);
    rulers::grid(&mut canvas, &scale, top + 20, bottom);
    strip::shades(&mut canvas, &witness, &scale, (top + 20, bottom));
    strip::cuts(&mut canvas, &witness, &scale, &lanes);
    canvas.raw(body.done().trim_end());
    for lane in &lanes {
        head(&mut canvas, lane);
    }
    arrows::paint(&mut canvas, &witness, &scale, &lanes);
    for lane in &lanes {
        match lane.role {
            Role::Client => clients::paint(&mut canvas, &witness, &scale, lane),
            Role::Node => nodes::paint(&mut canvas, &witness, &scale, lane),
            Role::Resource => resource::paint(&mut canvas, &witness, &scale, &lanes, lane),
        }
        rulers::own(&mut canvas, &witness, &scale, lane);
    }
    strip::shade_names(&mut canvas, &witness, &scale, top + 14);
    rulers::true_time(&mut canvas, &scale, bottom);
    legend::paint(&mut canvas, bottom + 40);
    canvas.raw("</svg>");
    canvas.done()
}

fn open(canvas: &mut Canvas, finding: &Finding, explanation: &Explanation, height: i64) {
    let (name, verdict) = (escaped(&finding.scenario), escaped(&explanation.verdict));
    canvas.raw(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\">"
    ));
    canvas.raw(&format!("<title id=\"title\">{name}: {verdict}</title>"));
    let story: Vec<&str> = explanation.story.lines.iter().map(|line| line.text.as_str()).collect();
    canvas.raw(&format!("<desc id=\"desc\">{}</desc>", escaped(&story.join(" "))));
    canvas.raw(STYLE);
    palette::define(canvas);
    let style = "fill=\"#ffffff\" stroke=\"#d0d7de\" rx=\"8\"";
    canvas.rect((5, WIDTH * 10 - 5), 1, height - 2, style);
    canvas.text((160, 28), Side::Start, "t", INK, &finding.scenario);
    canvas.text((160, 48), Side::Start, "u", GREY, &cut(&explanation.verdict));
}

/// A sentence, truncated to fit under the title; the description has all of it.
fn cut(sentence: &str) -> String {
    if sentence.chars().count() <= SENTENCE {
        return sentence.to_owned();
    }
    sentence.chars().take(SENTENCE - 1).chain(['\u{2026}']).collect()
}

fn head(canvas: &mut Canvas, lane: &Lane) {
    rulers::separator(canvas, lane.top);
    let (fill, y) = match lane.role {
        Role::Client => (hue_of(&lane.name).text, lane.middle() + 4),
        Role::Node => (INK, lane.middle() + 4),
        Role::Resource => (INK, lane.top + 17),
    };
    canvas.text((GUTTER, y), Side::End, "h", fill, &lane.name);
}
