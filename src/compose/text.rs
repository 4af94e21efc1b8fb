//! Renders a line of text to a picture, for watermarks and stamps.
//!
//! Directions follow the Unicode bidirectional algorithm (UAX #9), glyphs OpenType shaping (rustybuzz: joining,
//! ligatures, combining marks), coverage exact areas (ab_glyph_rasterizer). The fill is white over a dark outline,
//! legible on any background. Only the built-in font (`fonts/README.md`) is used, so a text looks alike on every
//! machine. A character without a glyph is drawn as a box; [`has_glyphs`] detects such texts.

use super::mark_area::MarkArea;
use crate::image::{Buffer, Frame, Size};
use ab_glyph_rasterizer::{Point, Rasterizer, point};
use backdrop_kernels::dilate;
use rustybuzz::ttf_parser::{GlyphId, OutlineBuilder};
use rustybuzz::{Direction, Face, UnicodeBuffer};
use std::ops::Range;
use std::sync::LazyLock;
use unicode_bidi::BidiInfo;
use unicode_script::{Script, UnicodeScript};

static FONT: LazyLock<Face<'static>> = LazyLock::new(|| {
    Face::from_slice(include_bytes!("fonts/DejaVuSans-Bold.ttf"), 0).expect("the built-in font is valid")
});

/// Font size as a share of the canvas' shorter side.
const SIZE_SHARE: f32 = 0.04;
/// Smallest legible font size in pixels; a smaller size is used only if the area is too small.
const READABLE_PX: f32 = 12.0;
/// Smallest font size in pixels on any canvas.
const SMALLEST_PX: f32 = 1.0;
/// Width of the outline as a share of the font size; at least one pixel, because a thinner line would be grey.
const OUTLINE_SHARE: f32 = 0.07;
const OUTLINE_PX: f32 = 1.0;
/// Encoded grey of the outline and of the fill.
const OUTLINE: u8 = 0;
const FILL: u8 = 255;

/// A picture of `text` on one line, cropped to its ink and no larger than the [`MarkArea`] of the canvas.
///
/// Control characters and line breaks become spaces. A text with more characters than the canvas has columns is
/// truncated: the rest would be illegible. Without ink, the picture is one transparent pixel.
#[must_use]
pub(super) fn render(text: &str, canvas: Size) -> Frame {
    let room = MarkArea::on(canvas).size();
    let line: String = text.chars().map(printable).take(canvas.width as usize).collect();
    match Line::shaped(&line).rasterized(canvas, room) {
        Some(ink) => ink.outlined(room),
        None => Frame::new(Size::new(1, 1), Buffer::from(vec![0; 4])),
    }
}

/// Whether the built-in font has all characters of `text`.
#[must_use]
pub fn has_glyphs(text: &str) -> bool {
    let line: String = text.chars().map(printable).collect();
    Line::shaped(&line).glyphs.iter().all(|glyph| glyph.id != GlyphId(0))
}

/// Maps line breaks and control characters to spaces; bidirectional controls stay.
fn printable(character: char) -> char {
    if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') { ' ' } else { character }
}

/// A shaped glyph; positions in font units from the start of the base line, y upwards.
#[derive(Clone, Copy, Debug)]
struct Glyph {
    id: GlyphId,
    x: i32,
    y: i32,
    /// Byte offset of the glyph's first character.
    #[cfg(test)]
    start: usize,
}

/// A shaped line of glyphs from left to right.
#[derive(Debug, Default)]
struct Line {
    glyphs: Vec<Glyph>,
    /// Width in font units.
    width: i32,
}

/// Bounds of the ink, y upwards.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    left: i32,
    bottom: i32,
    right: i32,
    top: i32,
}

/// A rasterised line of text: its coverage, with a border for the outline.
struct Ink {
    coverage: Vec<u8>,
    size: Size,
    outline: f32,
}

impl Line {
    fn shaped(text: &str) -> Self {
        let mut line = Self::default();
        let directions = BidiInfo::new(text, None);
        for paragraph in &directions.paragraphs {
            let (levels, runs) = directions.visual_runs(paragraph, paragraph.range.clone());
            for run in runs {
                let from_right = levels[run.start].is_rtl();
                let mut parts = of_one_script(text, run);
                if from_right {
                    parts.reverse();
                }
                let direction = if from_right { Direction::RightToLeft } else { Direction::LeftToRight };
                parts.into_iter().for_each(|part| line.push(text, part, direction));
            }
        }
        line
    }

    /// Appends the glyphs of `part` of `text` on the right.
    fn push(&mut self, text: &str, part: Range<usize>, direction: Direction) {
        let mut buffer = UnicodeBuffer::new();
        buffer.push_str(&text[part.clone()]);
        buffer.set_direction(direction);
        buffer.guess_segment_properties();
        let shaped = rustybuzz::shape(&FONT, &[], buffer);
        for (glyph, at) in shaped.glyph_infos().iter().zip(shaped.glyph_positions()) {
            let id = GlyphId(u16::try_from(glyph.glyph_id).unwrap_or(0));
            self.glyphs.push(Glyph {
                id,
                x: self.width + at.x_offset,
                y: at.y_offset,
                #[cfg(test)]
                start: part.start + glyph.cluster as usize,
            });
            self.width += at.x_advance;
        }
    }

    /// Bounds of all glyphs in font units. `None` without ink.
    fn bounds(&self) -> Option<Bounds> {
        let boxes = self.glyphs.iter().filter_map(|glyph| {
            let ink = FONT.glyph_bounding_box(glyph.id)?;
            let [left, bottom, right, top] = [ink.x_min, ink.y_min, ink.x_max, ink.y_max].map(i32::from);
            Some(Bounds { left: glyph.x + left, bottom: glyph.y + bottom, right: glyph.x + right, top: glyph.y + top })
        });
        boxes.reduce(|all, one| Bounds {
            left: all.left.min(one.left),
            bottom: all.bottom.min(one.bottom),
            right: all.right.max(one.right),
            top: all.top.max(one.top),
        })
    }

    /// Rasterises the line at the font size for `canvas`, reduced to fit into `room`; `None` without ink.
    fn rasterized(&self, canvas: Size, room: Size) -> Option<Ink> {
        let (ink, em) = (self.bounds()?, FONT.units_per_em() as f32);
        let mut size = (SIZE_SHARE * canvas.width.min(canvas.height) as f32).max(READABLE_PX);
        loop {
            let (scale, outline) = (size / em, (OUTLINE_SHARE * size).max(OUTLINE_PX));
            let border = outline.ceil() as i32;
            let bounds = Bounds {
                left: (ink.left as f32 * scale).floor() as i32 - border,
                bottom: (ink.bottom as f32 * scale).floor() as i32 - border,
                right: (ink.right as f32 * scale).ceil() as i32 + border,
                top: (ink.top as f32 * scale).ceil() as i32 + border,
            };
            let needed = Size::new((bounds.right - bounds.left) as u32, (bounds.top - bounds.bottom) as u32);
            let fits = f32::min(room.width as f32 / needed.width as f32, room.height as f32 / needed.height as f32);
            if fits >= 1.0 || size <= SMALLEST_PX {
                return Some(self.drawn(scale, bounds, room, outline));
            }
            // Slightly smaller than proportional: ink and outline are rounded up to whole pixels.
            size = (size * fits.min(0.98)).max(SMALLEST_PX);
        }
    }

    /// The ink inside `bounds`, in pixels, clipped to `room`.
    fn drawn(&self, scale: f32, bounds: Bounds, room: Size, outline: f32) -> Ink {
        let (width, height) = ((bounds.right - bounds.left) as usize, (bounds.top - bounds.bottom) as usize);
        let mut rasterizer = Rasterizer::new(width, height);
        for glyph in &self.glyphs {
            let origin = point(glyph.x as f32 * scale - bounds.left as f32, bounds.top as f32 - glyph.y as f32 * scale);
            let (start, last) = (origin, origin);
            FONT.outline_glyph(glyph.id, &mut Pen { rasterizer: &mut rasterizer, scale, origin, start, last });
        }
        let size = Size::new(room.width.min(width as u32), room.height.min(height as u32));
        let mut coverage = Vec::with_capacity(size.area());
        rasterizer.for_each_pixel_2d(|x, y, value| {
            if x < size.width && y < size.height {
                // Overlapping joined glyphs may sum to more than 1.
                coverage.push((value.min(1.0) * 255.0 + 0.5) as u8);
            }
        });
        Ink { coverage, size, outline }
    }
}

/// Splits a run of `text` into parts of one script. Characters without one script (digits, marks) continue a part.
fn of_one_script(text: &str, run: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut current) = (run.start, Script::Common);
    for (at, letter) in text[run.clone()].char_indices() {
        let script = letter.script();
        if matches!(script, Script::Common | Script::Inherited | Script::Unknown) || script == current {
            continue;
        }
        if current != Script::Common {
            parts.push(start..run.start + at);
            start = run.start + at;
        }
        current = script;
    }
    parts.push(start..run.end);
    parts
}

/// Draws a glyph's outline, in font units, at `origin`, in pixels.
struct Pen<'a> {
    rasterizer: &'a mut Rasterizer,
    scale: f32,
    origin: Point,
    start: Point,
    last: Point,
}

impl Pen<'_> {
    fn pixel(&self, x: f32, y: f32) -> Point {
        point(self.origin.x + x * self.scale, self.origin.y - y * self.scale)
    }
}

impl OutlineBuilder for Pen<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        self.last = self.pixel(x, y);
        self.start = self.last;
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let to = self.pixel(x, y);
        self.rasterizer.draw_line(self.last, to);
        self.last = to;
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let to = self.pixel(x, y);
        self.rasterizer.draw_quad(self.last, self.pixel(x1, y1), to);
        self.last = to;
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let to = self.pixel(x, y);
        self.rasterizer.draw_cubic(self.last, self.pixel(x1, y1), self.pixel(x2, y2), to);
        self.last = to;
    }

    fn close(&mut self) {
        self.rasterizer.draw_line(self.last, self.start);
        self.last = self.start;
    }
}

impl Ink {
    /// The outlined text in straight RGBA: fill over outline in encoded values, like every flat layer.
    fn outlined(&self, room: Size) -> Frame {
        debug_assert!(self.size.width <= room.width && self.size.height <= room.height);
        let [outline, fill] = [OUTLINE, FILL].map(u32::from);
        let around = dilate::cpu::dilate(&self.coverage, self.size.width as usize, self.outline);
        let pixels: Vec<u8> = (self.coverage.iter().zip(around))
            .flat_map(|(&inside, around)| {
                let alpha = around.max(inside);
                if alpha == 0 {
                    return [0; 4];
                }
                let (inside, whole) = (u32::from(inside), u32::from(alpha));
                let grey = ((fill * inside + outline * (whole - inside) + whole / 2) / whole) as u8;
                [grey, grey, grey, alpha]
            })
            .collect();
        Frame::new(self.size, Buffer::from(pixels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CANVAS: Size = Size::new(1000, 800);
    const TEXTS: [&str; 8] =
        ["Backdrop © 2026 — №1 “€”", "Ωμέγα", "Дом ґанок", "שלום עולם", "مرحبا بالعالم", "Հայերեն", "ქართული", "ລາວ"];

    /// The byte offsets of the glyphs, from left to right.
    fn order(line: &str) -> Vec<usize> {
        Line::shaped(line).glyphs.iter().map(|glyph| glyph.start).collect()
    }

    /// Number of pixels that contrast clearly with a background of this grey.
    fn readable_on(frame: &Frame, grey: f32) -> usize {
        let stands_out = |pixel: &&[u8; 4]| {
            let shown = grey + (f32::from(pixel[0]) - grey) * f32::from(pixel[3]) / 255.0;
            (shown - grey).abs() > 100.0
        };
        frame.pixels().as_chunks::<4>().0.iter().filter(stands_out).count()
    }

    #[test]
    fn every_documented_script_has_glyphs() {
        TEXTS.iter().for_each(|text| assert!(has_glyphs(text), "{text}"));
        // Direction marks and line breaks need no glyph.
        assert!(has_glyphs("\u{202E}a\u{200B}\nb"));
        for text in ["𓀀", "日本語", "हिन्दी", "ไทย", "한국어"] {
            assert!(!has_glyphs(text), "{text}");
        }
        assert!(readable_on(&render("𓀀", CANVAS), 255.0) > 0, "drawn as a box");
    }

    #[test]
    fn text_runs_in_its_own_direction() {
        let ascending: Vec<usize> = (0..8).collect();
        assert_eq!(order("Backdrop"), ascending);
        assert_eq!(order("שלום"), [6, 4, 2, 0]);
        // A number between right-to-left letters keeps its own direction.
        assert_eq!(order("אב 12 ג"), [8, 7, 5, 6, 4, 2, 0]);
        // A number after an Arabic word is placed to its left (UAX #9, rule W2).
        let mixed = "ab مر 26";
        assert_eq!(order(mixed), [0, 1, 2, 8, 9, 7, 5, 3]);
    }

    #[test]
    fn arabic_letters_join() {
        let shapes = |line: &str| -> Vec<GlyphId> { Line::shaped(line).glyphs.iter().map(|glyph| glyph.id).collect() };
        let (joined, alone) = (shapes("ببب"), shapes("ب")[0]);
        assert_eq!(joined.len(), 3);
        assert!(joined.iter().all(|&shape| shape != alone));
        assert!(joined[0] != joined[1] && joined[1] != joined[2] && joined[0] != joined[2]);
    }

    #[test]
    fn a_run_is_shaped_script_by_script() {
        let ends =
            |text: &str| -> Vec<usize> { of_one_script(text, 0..text.len()).iter().map(|part| part.end).collect() };
        assert_eq!(ends("ab 12 Ωμ1"), [6, 11]);
        assert_eq!(ends("1 a\u{301}"), [5]);
        assert_eq!(ends("12"), [2]);
    }

    #[test]
    fn line_breaks_become_spaces() {
        for (broken, line) in
            [("a\nb", "a b"), ("a\r\nb", "a  b"), ("a\tb", "a b"), ("א\u{2029}ב", "א ב"), ("a\0b", "a b")]
        {
            let [broken, line] = [broken, line].map(|text| render(text, CANVAS));
            assert_eq!(broken.size(), line.size());
            assert_eq!(broken.pixels(), line.pixels());
        }
    }

    #[test]
    fn a_text_is_legible_on_black_and_on_white() {
        for text in TEXTS {
            let frame = render(text, CANVAS);
            let area = frame.size().area();
            for grey in [0.0, 128.0, 255.0] {
                assert!(readable_on(&frame, grey) * 12 > area, "{text} on {grey}");
            }
        }
        // Without the outline, white on white is illegible.
        let mut frame = render("Backdrop", CANVAS);
        frame.pixels_mut().as_chunks_mut::<4>().0.iter_mut().for_each(|pixel| pixel[..3].fill(255));
        assert_eq!(readable_on(&frame, 255.0), 0);
    }

    #[test]
    fn the_font_size_follows_the_shorter_side_down_to_the_legible_minimum() {
        let height = |width: u32, height: u32| render("Hg", Size::new(width, height)).size().height;
        let (small, large) = (height(2000, 1000), height(4000, 2000));
        assert!((2 * small).abs_diff(large) <= 4, "{small} and {large}");
        assert_eq!(height(1000, 2000), small);
        assert_eq!(height(300, 300), height(100, 100));
        // Capital and descender of 12 pixels are about 12 high; with the outline 14.
        assert!((13..=15).contains(&height(300, 300)));
    }

    #[test]
    fn a_text_fits_between_the_margins() {
        let long = "A rather long text that no small canvas has room for. ".repeat(9);
        let stacked = format!("a{}", "\u{0301}".repeat(200));
        for (width, height) in
            [(1000, 800), (100, 800), (800, 100), (64, 64), (16, 16), (3, 3), (1, 1), (1, 90), (90, 1)]
        {
            let canvas = Size::new(width, height);
            let room = MarkArea::on(canvas).size();
            for text in ["Backdrop", "مرحبا", &long, &stacked] {
                let size = render(text, canvas).size();
                assert!(size.width <= room.width && size.height <= room.height, "{size} on {canvas}");
                assert!(size.area() > 0);
            }
        }
        assert!(render(&long, CANVAS).size().width > 930, "it uses the whole area");
    }

    #[test]
    fn a_text_without_ink_is_one_transparent_pixel() {
        for text in ["", " ", "\n\n", "\u{200B}", "\u{202E}"] {
            let frame = render(text, CANVAS);
            assert_eq!((frame.size(), frame.pixels()), (Size::new(1, 1), &[0; 4][..]), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>(), width in 1_u32..300, height in 1_u32..300) {
            let canvas = Size::new(width, height);
            let (size, room) = (render(&text, canvas).size(), MarkArea::on(canvas).size());
            prop_assert!(size.width <= room.width && size.height <= room.height);
        }

        #[test]
        fn no_mixture_of_directions_and_combining_marks_panics(
            text in "[a-z0-9 \u{590}-\u{6FF}\u{900}-\u{DFF}\u{E00}-\u{E7F}\u{1100}-\u{11FF}\u{200B}-\u{206F}\u{FE00}-\u{FE0F}가😀]{0,40}",
        ) {
            prop_assert!(render(&text, Size::new(200, 150)).size().area() > 0);
        }
    }
}
