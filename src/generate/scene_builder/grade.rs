//! Selects the colour grading by moods and tones.

use crate::generate::linear_rgb::product;
use crate::generate::prompt::ParsedPrompt;
use crate::generate::scene::Grade;
use crate::generate::vocabulary::{Mood, Tone};

/// Colour grading for the moods, tones and vignette of a prompt.
pub(super) fn grade(parsed: &ParsedPrompt) -> Grade {
    let mut grade = Grade { exposure: 1.0, contrast: 1.05, saturation: 1.03, tint: [1.0; 3], vignette: 0.2, fade: 0.0 };
    for mood in &parsed.moods {
        match mood {
            Mood::Warm => grade.tint = product(grade.tint, [1.1, 1.0, 0.84]),
            Mood::Cozy => grade.tint = product(grade.tint, [1.07, 0.99, 0.86]),
            Mood::Cool | Mood::Winter => grade.tint = product(grade.tint, [0.88, 0.99, 1.13]),
            Mood::Moody => (grade.exposure, grade.contrast, grade.vignette) = (0.62, 1.14, 0.5),
            Mood::Airy => (grade.exposure, grade.contrast, grade.fade) = (1.16, 0.92, 0.3),
            Mood::Luxury => {
                (grade.contrast, grade.tint, grade.vignette) = (1.15, product(grade.tint, [1.05, 1.0, 0.9]), 0.35)
            }
            Mood::Minimal => (grade.exposure, grade.contrast, grade.vignette) = (1.06, 0.97, 0.06),
            Mood::Rustic => (grade.saturation, grade.tint) = (0.88, product(grade.tint, [1.05, 1.0, 0.92])),
            Mood::Romantic => (grade.fade, grade.tint) = (0.2, product(grade.tint, [1.05, 0.98, 1.0])),
            Mood::Dramatic => (grade.exposure, grade.contrast, grade.vignette) = (0.85, 1.3, 0.55),
            Mood::Vintage => {
                (grade.saturation, grade.fade, grade.tint) = (0.7, 0.6, product(grade.tint, [1.08, 1.0, 0.84]))
            }
            Mood::Futuristic => (grade.tint, grade.contrast) = (product(grade.tint, [0.92, 0.98, 1.12]), 1.1),
            Mood::Festive => grade.saturation = 1.15,
            Mood::Calm => (grade.contrast, grade.saturation) = (0.92, 0.85),
            Mood::Dreamy => (grade.fade, grade.contrast) = (0.45, 0.9),
            Mood::Industrial => (grade.saturation, grade.contrast) = (0.72, 1.12),
            Mood::Tropical | Mood::Summer => (grade.saturation, grade.exposure) = (1.18, 1.06),
            Mood::Nordic => (grade.saturation, grade.exposure) = (0.82, 1.08),
            Mood::Monochrome => grade.saturation = 0.0,
            Mood::Spring => (grade.saturation, grade.exposure) = (1.08, 1.06),
        }
    }
    for tone in &parsed.tones {
        match tone {
            Tone::Dark => (grade.exposure, grade.vignette) = (grade.exposure * 0.75, 0.4),
            Tone::Light => grade.exposure *= 1.12,
            Tone::Pastel => (grade.saturation, grade.fade) = (grade.saturation * 0.85, 0.3),
            Tone::Vivid => grade.saturation *= 1.3,
            Tone::Muted => grade.saturation *= 0.65,
        }
    }
    match parsed.vignette {
        Some(true) => grade.vignette = 0.65,
        Some(false) => grade.vignette = 0.0,
        None => {}
    }
    grade
}
