//! Renders a line of text to a picture, for watermarks and stamps.
//!
//! Shaped by cosmic-text (bidirectional, ligatures, combining marks) and filled white over a dark outline, so that it
//! is legible on any background. Only the built-in fonts (`fonts/README.md`) are used, never system fonts: a text looks
//! the same on every machine. A character without a glyph is drawn as a box.

use super::mark_area::MarkArea;
use crate::image::{Buffer, Frame, Size};
use backdrop_kernels::dilate;
use cosmic_text::fontdb::{Database, Language, Source, Weight};
use cosmic_text::{
    Attrs, AttrsList, CacheKeyFlags, Family, FontSystem, Hinting, LayoutGlyph, ShapeLine, Shaping, SwashCache, Wrap,
};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Number of the fonts that watermarks of text are drawn with. None of the system's is used.
pub const BUILT_IN_FONTS: usize = 14;

/// In fallback order.
static FONTS: [&[u8]; BUILT_IN_FONTS] = [
    include_bytes!("fonts/DejaVuSans-Bold.ttf"),
    include_bytes!("fonts/NotoSansDevanagari-Bold.ttf"),
    include_bytes!("fonts/NotoSansBengali-Bold.ttf"),
    include_bytes!("fonts/NotoSansThai-Bold.ttf"),
    include_bytes!("fonts/NotoSansTamil-Bold.ttf"),
    include_bytes!("fonts/NotoSansTelugu-Bold.ttf"),
    include_bytes!("fonts/NotoSansGujarati-Bold.ttf"),
    include_bytes!("fonts/NotoSansKannada-Bold.ttf"),
    include_bytes!("fonts/NotoSansMalayalam-Bold.ttf"),
    include_bytes!("fonts/NotoSansOriya-Bold.ttf"),
    include_bytes!("fonts/NotoSansGurmukhi-Bold.ttf"),
    include_bytes!("fonts/NotoSansKhmer-Bold.ttf"),
    include_bytes!("fonts/DroidSansFallbackFull.ttf"),
    include_bytes!("fonts/NanumSquareB.ttf"),
];

/// The first of [`FONTS`] tried for most scripts.
const LATIN: usize = 0;
/// The only font used for Korean. The font before it has a few Korean letters, but the better Chinese ones.
const KOREAN: usize = 13;

/// Font size as a share of the canvas' shorter side.
const SIZE_SHARE: f32 = 0.04;
/// The smallest legible font size; smaller only where the area is too small.
const READABLE_PX: f32 = 12.0;
/// The smallest font size on any canvas.
const SMALLEST_PX: f32 = 1.0;
/// Width of the outline as a share of the font size; at least a pixel, else it would be grey.
const OUTLINE_SHARE: f32 = 0.07;
const OUTLINE_PX: f32 = 1.0;
/// Encoded grey of the outline and of the fill.
const OUTLINE: u8 = 0;
const FILL: u8 = 255;

/// `text` as a picture of one line, as large as its ink and no larger than the [`MarkArea`] of the canvas.
///
/// Control characters and line breaks become spaces. A text with more characters than the canvas has columns is
/// truncated: the rest would be illegible. Without ink, the picture is one transparent pixel.
#[must_use]
pub(super) fn render(text: &str, canvas: Size) -> Frame {
    let room = MarkArea::on(canvas).size();
    let line: String = text.chars().map(printable).take(canvas.width as usize).collect();
    // A panic leaves no inconsistent state: it only holds caches.
    let mut typesetter = TYPESETTER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(ink) = typesetter.rasterize(&line, canvas, room) else {
        return Frame::new(Size::new(1, 1), Buffer::from(vec![0; 4]));
    };
    drop(typesetter);
    ink.outlined(room)
}

/// Line breaks and control characters become spaces; bidirectional controls stay.
fn printable(character: char) -> char {
    if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') { ' ' } else { character }
}

static TYPESETTER: LazyLock<Mutex<Typesetter>> = LazyLock::new(|| Mutex::new(Typesetter::new()));

struct Typesetter {
    fonts: FontSystem,
    rasterizer: SwashCache,
}

/// Bounds of the ink, relative to the start of the base line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

/// A rasterised line of text: its coverage, with a border for the outline.
struct Ink {
    coverage: Vec<u8>,
    size: Size,
    outline: f32,
}

/// A shaped line of glyphs, of any font size.
struct Shaped(ShapeLine);

impl Shaped {
    fn glyphs(&self, size: f32) -> Vec<LayoutGlyph> {
        let lines = self.0.layout(size, None, Wrap::None, None, None, Hinting::Disabled);
        lines.into_iter().flat_map(|line| line.glyphs).collect()
    }
}

impl Typesetter {
    fn new() -> Self {
        let mut database = Database::new();
        for (index, font) in FONTS.iter().enumerate() {
            for id in database.load_font_source(Source::Binary(Arc::new(*font))) {
                let Some(mut face) = database.face(id).cloned() else { continue };
                database.remove_face(id);
                // Names outside of any system's list of preferred fallbacks, and one weight, keep the fallback order
                // above on every system.
                face.families = vec![(name(index), Language::English_UnitedStates)];
                face.weight = Weight::NORMAL;
                database.push_face_info(face);
            }
        }
        // The locale selects between fonts of one script; there is only one for each.
        let fonts = FontSystem::new_with_locale_and_db("en-US".to_owned(), database);
        Self { fonts, rasterizer: SwashCache::new() }
    }

    fn shaped(&mut self, line: &str) -> Shaped {
        let (latin, korean) = (name(LATIN), name(KOREAN));
        // Hinting would change the shapes with the size, but not their positions.
        let plain = Attrs::new().cache_key_flags(CacheKeyFlags::DISABLE_HINTING);
        let mut attributes = AttrsList::new(&plain.clone().family(Family::Name(&latin)));
        for (at, letter) in line.char_indices().filter(|&(_, letter)| is_korean(letter)) {
            attributes.add_span(at..at + letter.len_utf8(), &plain.clone().family(Family::Name(&korean)));
        }
        Shaped(ShapeLine::new(&mut self.fonts, line, &attributes, Shaping::Advanced, 1))
    }

    /// Rasterises a line at the font size for `canvas`, reduced to fit into `room`. `None` when it has no ink.
    fn rasterize(&mut self, line: &str, canvas: Size, room: Size) -> Option<Ink> {
        let shaped = self.shaped(line);
        let mut size = (SIZE_SHARE * canvas.width.min(canvas.height) as f32).max(READABLE_PX);
        let advance: f32 = shaped.glyphs(size).iter().map(|glyph| glyph.w).sum();
        size = (size * (room.width as f32 / advance.max(1.0)).min(1.0)).max(SMALLEST_PX);
        loop {
            let glyphs = shaped.glyphs(size);
            let bounds = self.bounds(&glyphs)?;
            let outline = (OUTLINE_SHARE * size).max(OUTLINE_PX);
            let border = outline.ceil() as i32;
            let needed = Size::new(
                (bounds.right - bounds.left + 2 * border) as u32,
                (bounds.bottom - bounds.top + 2 * border) as u32,
            );
            let fits = f32::min(room.width as f32 / needed.width as f32, room.height as f32 / needed.height as f32);
            if fits < 1.0 && size > SMALLEST_PX {
                // Slightly smaller than proportional: ink and outline are rounded up to whole pixels.
                size = (size * fits.min(0.98)).max(SMALLEST_PX);
                continue;
            }
            let bounds = Bounds {
                left: bounds.left - border,
                top: bounds.top - border,
                right: bounds.right + border,
                bottom: bounds.bottom + border,
            };
            return Some(self.draw(&glyphs, bounds, room, outline));
        }
    }

    /// Bounds of all glyphs. Their bitmaps are not kept: one letter may carry thousands of combining marks.
    fn bounds(&mut self, glyphs: &[LayoutGlyph]) -> Option<Bounds> {
        let mut all: Option<Bounds> = None;
        self.each(glyphs, |_, one| {
            all = Some(all.map_or(one, |all| Bounds {
                left: all.left.min(one.left),
                top: all.top.min(one.top),
                right: all.right.max(one.right),
                bottom: all.bottom.max(one.bottom),
            }));
        });
        all
    }

    /// The ink inside `bounds`, clipped to `room`.
    fn draw(&mut self, glyphs: &[LayoutGlyph], bounds: Bounds, room: Size, outline: f32) -> Ink {
        let size = Size::new(
            room.width.min((bounds.right - bounds.left) as u32),
            room.height.min((bounds.bottom - bounds.top) as u32),
        );
        let mut coverage = vec![0_u8; size.area()];
        self.each(glyphs, |mask, place| {
            let columns = (place.right - place.left) as usize;
            for (row, y) in mask.chunks_exact(columns).zip(place.top - bounds.top..) {
                for (&value, x) in row.iter().zip(place.left - bounds.left..) {
                    if (0..size.width as i32).contains(&x) && (0..size.height as i32).contains(&y) {
                        let pixel = &mut coverage[y as usize * size.width as usize + x as usize];
                        // Joined glyphs share the pixels of the seam.
                        *pixel = pixel.saturating_add(value);
                    }
                }
            }
        });
        Ink { coverage, size, outline }
    }

    /// Calls `take` with the coverage and bounds of every glyph that has ink.
    fn each(&mut self, glyphs: &[LayoutGlyph], mut take: impl FnMut(&[u8], Bounds)) {
        for glyph in glyphs {
            let physical = glyph.physical((0.0, 0.0), 1.0);
            let Some(image) = self.rasterizer.get_image_uncached(&mut self.fonts, physical.cache_key) else { continue };
            let (left, top) = (physical.x + image.placement.left, physical.y - image.placement.top);
            let (width, height) = (image.placement.width, image.placement.height);
            // No font has colour glyphs: one byte a pixel.
            if width > 0 && height > 0 && image.data.len() == width as usize * height as usize {
                take(&image.data, Bounds { left, top, right: left + width as i32, bottom: top + height as i32 });
            }
        }
    }
}

/// Whether a character is a Hangul syllable or jamo.
const fn is_korean(letter: char) -> bool {
    matches!(letter, '\u{1100}'..='\u{11FF}' | '\u{3130}'..='\u{318F}' | '\u{A960}'..='\u{A97F}' | '\u{AC00}'..='\u{D7FF}')
}

/// The family name given to the font at `index` of [`FONTS`].
fn name(index: usize) -> String {
    format!("backdrop {index}")
}

impl Ink {
    /// The outlined text in straight RGBA: fill over outline in encoded values, as every flat layer.
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
    const TEXTS: [&str; 20] = [
        "Backdrop © 2026 — №1 “€”",
        "Ωμέγα",
        "Дом ґанок",
        "שלום עולם",
        "مرحبا بالعالم",
        "Հայերեն",
        "ქართული",
        "ລາວ",
        "हिन्दी क्षत्रिय।",
        "বাংলা",
        "ไทย ผู้ใหญ่",
        "தமிழ்",
        "తెలుగు",
        "ગુજરાતી",
        "ಕನ್ನಡ",
        "മലയാളം",
        "ଓଡ଼ିଆ",
        "ਪੰਜਾਬੀ",
        "ខ្មែរ",
        "日本語テキスト、简体中文，繁體中文！ 한국어 가나다",
    ];

    /// The glyphs of a line from left to right.
    fn glyphs(line: &str) -> Vec<LayoutGlyph> {
        let mut typesetter = TYPESETTER.lock().unwrap_or_else(PoisonError::into_inner);
        let mut glyphs = typesetter.shaped(line).glyphs(20.0);
        glyphs.sort_by(|a, b| a.x.total_cmp(&b.x));
        glyphs
    }

    /// The byte offsets of the glyphs, from left to right.
    fn order(line: &str) -> Vec<usize> {
        glyphs(line).iter().map(|glyph| glyph.start).collect()
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
        for text in TEXTS {
            let missing: Vec<&str> = glyphs(text)
                .iter()
                .filter(|glyph| glyph.glyph_id == 0)
                .map(|glyph| &text[glyph.start..glyph.end])
                .collect();
            assert!(missing.is_empty(), "{text} lacks {missing:?}");
        }
        let boxed = glyphs("𓀀");
        assert!(boxed.iter().all(|glyph| glyph.glyph_id == 0), "a missing glyph is detected");
        assert!(readable_on(&render("𓀀", CANVAS), 255.0) > 0, "and drawn as a box");
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
        let shapes = |line: &str| -> Vec<u16> { glyphs(line).iter().map(|glyph| glyph.glyph_id).collect() };
        let (joined, alone) = (shapes("ببب"), shapes("ب")[0]);
        assert_eq!(joined.len(), 3);
        assert!(joined.iter().all(|&shape| shape != alone));
        assert!(joined[0] != joined[1] && joined[1] != joined[2] && joined[0] != joined[2]);
    }

    #[test]
    fn korean_is_set_in_one_font() {
        let fonts: Vec<_> = glyphs("가나다한국어").iter().map(|glyph| glyph.font_id).collect();
        assert!(fonts.iter().all(|font| *font == fonts[0]));
        assert_ne!(fonts[0], glyphs("中")[0].font_id);
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
