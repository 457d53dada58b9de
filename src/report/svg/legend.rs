//! The meaning of the signs, in one line beneath the picture.

use crate::report::svg::canvas::{Canvas, Side, Tenths, width_of};
use crate::report::svg::palette::{ALARM, GREY, INK};

/// Paints the legend around the line `y`.
pub fn paint(canvas: &mut Canvas, y: i64) {
    let mut x: Tenths = 160;
    let solid = format!("fill=\"{GREY}\"");
    let bare = format!("fill=\"url(#bare6)\" stroke=\"{GREY}\"");
    let shade = format!("fill=\"{ALARM}\" fill-opacity=\".2\"");
    for (style, text) in [
        (solid.as_str(), "holds / key exists"),
        (bare.as_str(), "holds, lease over"),
        ("fill=\"url(#still)\"", "not running"),
        (shade.as_str(), "violation"),
    ] {
        canvas.rect((x, x + 200), y - 6, 12, style);
        x = entry(canvas, x + 260, y, text);
    }
    x += 20;
    let diamond = [(x + 45, y * 10 - 45), (x + 90, y * 10), (x + 45, y * 10 + 45), (x, y * 10)];
    canvas.polygon(&diamond, &format!("fill=\"#ffffff\" stroke=\"{GREY}\" stroke-width=\"1.4\""));
    x = entry(canvas, x + 150, y, "refused");
    canvas.line((x, y - 6), (x + 70, y + 6), &format!("stroke=\"{GREY}\" stroke-width=\"1.2\""));
    x = entry(canvas, x + 130, y, "message");
    canvas.cross((x + 40, y), 40, &format!("stroke=\"{ALARM}\" stroke-width=\"2\""));
    x = entry(canvas, x + 140, y, "lost");
    canvas.circle((x + 45, y), 45, &solid, "");
    x = entry(canvas, x + 150, y, "access");
    let hollow = format!("fill=\"#ffffff\" stroke=\"{GREY}\" stroke-width=\"1.6\"");
    canvas.circle((x + 45, y), 45, &hollow, "");
    entry(canvas, x + 150, y, "access refused");
}

fn entry(canvas: &mut Canvas, x: Tenths, y: i64, text: &str) -> Tenths {
    canvas.text((x, y + 4), Side::Start, "s", INK, text);
    x + width_of(text) * 9 / 10 + 150
}
