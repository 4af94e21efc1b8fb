//! A line of text as a picture, for watermarks.
//!
//! Shaped by cosmic-text (bidirectional, ligatures, combining marks) and filled white over a dark outline, so that it
//! can be read on any ground. The fonts are built in (`fonts/README.md`) and system fonts are never looked at: a text
//! looks the same on every machine. What no font has is drawn as a box.

use super::watermark::Room;
use crate::image::color::{encoded8_of_linear16, linear16_of_encoded8};
use crate::image::{Buffer, Frame, Size};
use cosmic_text::fontdb::{Database, Language, Source, Weight};
use cosmic_text::{
    Attrs, AttrsList, CacheKeyFlags, Family, FontSystem, Hinting, LayoutGlyph, ShapeLine, Shaping, SwashCache, Wrap,
};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// In the order in which they are asked for a character.
static FONTS: [&[u8]; 14] = [
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

/// Which of [`FONTS`] is asked first for what most is written in.
const LATIN: usize = 0;
/// The only one for Korean. The one before has a handful of its letters, but it also has the better Chinese ones.
const KOREAN: usize = 13;

/// Size of the font, of the canvas' shorter side.
const SIZE_SHARE: f32 = 0.04;
/// The smallest size that is easily read; smaller only where there is no room.
const READABLE_PX: f32 = 12.0;
/// Nothing is set smaller than this, whatever the canvas.
const SMALLEST_PX: f32 = 1.0;
/// Width of the outline, of the font's size; at least a pixel, else it would be grey.
const OUTLINE_SHARE: f32 = 0.07;
const OUTLINE_PX: f32 = 1.0;
/// Encoded grey of the outline and of what it surrounds.
const OUTLINE: u8 = 0;
const FILL: u8 = 255;

/// `text` as a picture of one line, no larger than the canvas minus the margins of a [`Room`]. It is as large as its ink.
///
/// Controls and line breaks become spaces. Of a text with more characters than the canvas has columns, the rest is left
/// out: it could not be told apart anyway. Without ink, the picture is one empty pixel.
#[must_use]
pub(super) fn render(text: &str, canvas: Size) -> Frame {
    let room = Room::on(canvas).size();
    let line: String = text.chars().map(printable).take(canvas.width as usize).collect();
    // Nothing in it is left half done by a panic: caches are filled or not.
    let mut typesetter = TYPESETTER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(ink) = typesetter.set(&line, canvas, room) else {
        return Frame::new(Size::new(1, 1), Buffer::from(vec![0; 4]));
    };
    drop(typesetter);
    ink.outlined(room)
}

/// Everything that would end a line or has no picture becomes a space; what directs the text stays.
fn printable(character: char) -> char {
    if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') { ' ' } else { character }
}

static TYPESETTER: LazyLock<Mutex<Typesetter>> = LazyLock::new(|| Mutex::new(Typesetter::new()));

struct Typesetter {
    fonts: FontSystem,
    rasterizer: SwashCache,
}

/// Where ink lies, relative to the start of the base line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

/// A line of text in one size: coverage, with room for the outline around it.
struct Ink {
    coverage: Vec<u8>,
    size: Size,
    outline: f32,
}

impl Typesetter {
    fn new() -> Self {
        let mut database = Database::new();
        for (index, font) in FONTS.iter().enumerate() {
            for id in database.load_font_source(Source::Binary(Arc::new(*font))) {
                let Some(mut face) = database.face(id).cloned() else { continue };
                database.remove_face(id);
                // Names that no list of preferred fallbacks has (each system has another), and one weight: then the
                // order of fallbacks is the one above, everywhere.
                face.families = vec![(name(index), Language::English_UnitedStates)];
                face.weight = Weight::NORMAL;
                database.push_face_info(face);
            }
        }
        // The locale would choose between fonts, if there were several for a script.
        let fonts = FontSystem::new_with_locale_and_db("en-US".to_owned(), database);
        Self { fonts, rasterizer: SwashCache::new() }
    }

    /// Sets a line as large as it should be on `canvas` and fits into `room`. `None` when it leaves no ink.
    fn set(&mut self, line: &str, canvas: Size, room: Size) -> Option<Ink> {
        let (latin, korean) = (name(LATIN), name(KOREAN));
        // Hinting would change the shapes with the size, while the places stay.
        let plain = Attrs::new().cache_key_flags(CacheKeyFlags::DISABLE_HINTING);
        let mut attributes = AttrsList::new(&plain.clone().family(Family::Name(&latin)));
        for (at, letter) in line.char_indices().filter(|&(_, letter)| is_korean(letter)) {
            attributes.add_span(at..at + letter.len_utf8(), &plain.clone().family(Family::Name(&korean)));
        }
        let shape = ShapeLine::new(&mut self.fonts, line, &attributes, Shaping::Advanced, 1);
        let glyphs = |size: f32| -> Vec<LayoutGlyph> {
            let lines = shape.layout(size, None, Wrap::None, None, None, Hinting::Disabled);
            lines.into_iter().flat_map(|line| line.glyphs).collect()
        };
        let mut size = (SIZE_SHARE * canvas.width.min(canvas.height) as f32).max(READABLE_PX);
        let advance: f32 = glyphs(size).iter().map(|glyph| glyph.w).sum();
        size = (size * (room.width as f32 / advance.max(1.0)).min(1.0)).max(SMALLEST_PX);
        loop {
            let glyphs = glyphs(size);
            let bounds = self.bounds(&glyphs)?;
            let outline = (OUTLINE_SHARE * size).max(OUTLINE_PX);
            let border = outline.ceil() as i32;
            let needed = Size::new(
                (bounds.right - bounds.left + 2 * border) as u32,
                (bounds.bottom - bounds.top + 2 * border) as u32,
            );
            let fits = f32::min(room.width as f32 / needed.width as f32, room.height as f32 / needed.height as f32);
            if fits < 1.0 && size > SMALLEST_PX {
                // A little smaller than by rule of three: ink and outline are rounded up to whole pixels.
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

    /// What all glyphs together cover. Their pictures are not kept: marks heaped upon one letter may be thousands.
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

    /// The ink inside `bounds`, of which no more than `room` is kept.
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
                        // Glyphs that join up share the pixels of the seam.
                        *pixel = pixel.saturating_add(value);
                    }
                }
            }
        });
        Ink { coverage, size, outline }
    }

    /// Calls `take` with coverage and place of every glyph that has ink.
    fn each(&mut self, glyphs: &[LayoutGlyph], mut take: impl FnMut(&[u8], Bounds)) {
        for glyph in glyphs {
            let physical = glyph.physical((0.0, 0.0), 1.0);
            let Some(image) = self.rasterizer.get_image_uncached(&mut self.fonts, physical.cache_key) else { continue };
            let (left, top) = (physical.x + image.placement.left, physical.y - image.placement.top);
            let (width, height) = (image.placement.width, image.placement.height);
            // None of the fonts has colour: a byte a pixel.
            if width > 0 && height > 0 && image.data.len() == width as usize * height as usize {
                take(&image.data, Bounds { left, top, right: left + width as i32, bottom: top + height as i32 });
            }
        }
    }
}

/// Syllables and the letters that they are made of.
const fn is_korean(letter: char) -> bool {
    matches!(letter, '\u{1100}'..='\u{11FF}' | '\u{3130}'..='\u{318F}' | '\u{A960}'..='\u{A97F}' | '\u{AC00}'..='\u{D7FF}')
}

/// What the font at `index` of [`FONTS`] is called here.
fn name(index: usize) -> String {
    format!("backdrop {index}")
}

impl Ink {
    /// The finished picture, in straight RGBA: the fill mixed with the outline in linear light.
    fn outlined(&self, room: Size) -> Frame {
        debug_assert!(self.size.width <= room.width && self.size.height <= room.height);
        let (encode, linear) = (encoded8_of_linear16(), linear16_of_encoded8());
        let [outline, fill] = [OUTLINE, FILL].map(|grey| u32::from(linear[usize::from(grey)]));
        let around = dilated(&self.coverage, self.size.width as usize, self.outline);
        let pixels: Vec<u8> = (self.coverage.iter().zip(around))
            .flat_map(|(&inside, around)| {
                let alpha = around.max(inside);
                if alpha == 0 {
                    return [0; 4];
                }
                let (inside, whole) = (u32::from(inside), u32::from(alpha));
                let light = (fill * inside + outline * (whole - inside) + whole / 2) / whole;
                let grey = encode[light as usize];
                [grey, grey, grey, alpha]
            })
            .collect();
        Frame::new(self.size, Buffer::from(pixels))
    }
}

/// Everything within `radius` of what is covered.
fn dilated(coverage: &[u8], width: usize, radius: f32) -> Vec<u8> {
    let height = coverage.len() / width;
    let mut out = vec![0u8; coverage.len()];
    let r = radius.ceil() as i32 + 1;
    for y in 0..height as i32 {
        for x in 0..width as i32 {
            let v = coverage[y as usize * width + x as usize];
            if v < 128 {
                continue;
            }
            for yy in (y - r).max(0)..(y + r + 1).min(height as i32) {
                for xx in (x - r).max(0)..(x + r + 1).min(width as i32) {
                    let d = f32::hypot((x - xx) as f32, (y - yy) as f32) - (f32::from(v) / 255.0 - 0.5);
                    let c = ((radius - d + 0.5).clamp(0.0, 1.0) * 255.0 + 0.5) as u8;
                    let o = &mut out[yy as usize * width + xx as usize];
                    *o = (*o).max(c);
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 14] = [
        "Backdrop",
        "© Backdrop 2026 — Ωμέγα Дом",
        "שלום עולם",
        "مرحبا بالعالم",
        "Backdrop مرحبا 2026",
        "日本語テキスト 简体中文 한국어",
        "हिन्दी क्षत्रिय",
        "ไทย ผู้ใหญ่",
        "emoji 😀 ❤️",
        "বাংলা தமிழ் తెలుగు",
        "ગુજરાતી ಕನ್ನಡ മലയാളം",
        "ଓଡ଼ିଆ ਪੰਜਾਬੀ ខ្មែរ",
        "Հայերեն ქართული ລາວ",
        "שלום world, “123” (abc)",
    ];

    #[test]
    fn sheet() {
        let grounds: [[u8; 4]; 2] = [[255; 4], [0, 0, 0, 255]];
        let side = Size::new(1200, 1000);
        let (rw, rh) = (620u32, 56u32);
        let (w, h) = (rw * 2, rh * TEXTS.len() as u32);
        let mut sheet = vec![0u8; (w * h * 4) as usize];
        for (i, text) in TEXTS.iter().enumerate() {
            let line = render(text, side);
            println!("{text}: {}", line.size());
            for (k, ground) in grounds.iter().enumerate() {
                for y in 0..rh {
                    for x in 0..rw {
                        let at = (((i as u32 * rh + y) * w + k as u32 * rw + x) * 4) as usize;
                        let mut p = *ground;
                        if x < line.size().width && y < line.size().height {
                            let m = line.pixel(x, y);
                            let a = f32::from(m[3]) / 255.0;
                            for c in 0..3 {
                                p[c] = (f32::from(m[c]) * a + f32::from(p[c]) * (1.0 - a)) as u8;
                            }
                        }
                        sheet[at..at + 4].copy_from_slice(&p);
                    }
                }
            }
        }
        let mut e = png::Encoder::new(std::fs::File::create("/work/scratch-lead/texts.png").unwrap(), w, h);
        e.set_color(png::ColorType::Rgba);
        e.write_header().unwrap().write_image_data(&sheet).unwrap();
    }
}
