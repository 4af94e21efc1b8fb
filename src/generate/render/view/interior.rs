//! Paints out-of-focus rooms from soft boxes, ellipses and glows.

use super::{ViewContext, bokeh};
use crate::generate::falloff::smoothstep;
use crate::generate::linear_rgb::{Rgb, mix, product, scaled, srgb};
use crate::generate::render::plate::Plate;
use crate::generate::render::span::RgbSpan;
use crate::generate::render::sprite::Sprite;
use crate::generate::scene::Hour;

/// A room under construction: the plate, its daylight and its lamps.
struct Room<'a> {
    context: &'a ViewContext<'a>,
    plate: Plate,
    /// Colour of the daylight through the windows.
    day: Rgb,
    sprites: Vec<Sprite>,
}

impl<'a> Room<'a> {
    /// A wall in even light that falls off from the window side.
    fn new(context: &'a ViewContext<'a>, wall: u32, falloff: f32) -> Self {
        let day = match context.view.hour {
            Hour::Day => [1.0; 3],
            Hour::Dawn => [0.92, 0.88, 0.9],
            Hour::Golden | Hour::Sunset => [1.0, 0.82, 0.6],
            Hour::Dusk => [0.4, 0.42, 0.55],
            Hour::Night => [0.3, 0.25, 0.22],
        };
        let wall = product(context.view.colors.first().copied().unwrap_or_else(|| srgb(wall)), day);
        let side = if context.side < 0.0 { -1.0 } else { 1.0 };
        let plate = Plate::paint(context.aspect, |at| {
            RgbSpan::shaded(wall, |i| {
                let away = (0.55 - side * at.x[i]).max(0.0);
                (1.08 - falloff * away * 0.55) * (1.0 - 0.25 * smoothstep(0.25, 0.0, at.y[i]))
            })
        });
        Self { context, plate, day, sprites: Vec::new() }
    }

    fn color(&self, code: u32) -> Rgb {
        product(srgb(code), self.day)
    }

    fn fill(&mut self, place: [f32; 4], code: u32) {
        let color = self.color(code);
        self.plate.fill_box(place, 0.006, color, 1.0);
    }

    /// A piece of furniture: highlight at the top, darker below, shadow under it.
    fn furniture(&mut self, [left, top, right, bottom]: [f32; 4], code: u32) {
        let color = self.color(code);
        self.plate.fill_box([left - 0.03, bottom - 0.02, right + 0.03, bottom + 0.04], 0.05, scaled(color, 0.12), 0.45);
        self.plate.fill_box([left, top, right, bottom], 0.008, color, 1.0);
        self.plate.fill_box(
            [left, top + 0.6 * (bottom - top), right, bottom],
            0.4 * (bottom - top),
            scaled(color, 0.6),
            0.55,
        );
        self.plate.fill_box([left, top, right, top + 0.015], 0.012, mix(color, [1.0; 3], 0.3), 0.5);
    }

    /// A window with the sky at the hour.
    fn window(&mut self, [left, top, right, bottom]: [f32; 4], panes: usize) {
        let sky = match self.context.view.hour {
            Hour::Day => scaled(srgb(0xF4_F8_FC), 1.25),
            Hour::Dawn => scaled(srgb(0xFA_E2_D6), 1.1),
            Hour::Golden | Hour::Sunset => scaled(srgb(0xFF_D0_8C), 1.25),
            Hour::Dusk => srgb(0x5A_72_A8),
            Hour::Night => srgb(0x10_18_30),
        };
        self.fill([left - 0.02, top - 0.02, right + 0.02, bottom + 0.025], 0xE6_E2_DA);
        self.plate.fill_box([left, top, right, bottom], 0.006, sky, 1.0);
        let out = mix(sky, product(srgb(0x7E_94_6C), self.day), 0.55);
        self.plate.fill_box([left, top + 0.62 * (bottom - top), right, bottom], 0.12, out, 0.7);
        for pane in 1..panes {
            let u = left + (right - left) * pane as f32 / panes as f32;
            self.fill([u - 0.006, top, u + 0.006, bottom], 0xDC_D8_D0);
        }
        let middle = 0.5 * (top + bottom);
        self.fill([left, middle - 0.005, right, middle + 0.005], 0xDC_D8_D0);
        self.plate.add_glow([0.5 * (left + right), middle], 0.5 * (bottom - top), scaled(sky, 0.2));
    }

    fn lamp(&mut self, [u, v]: [f32; 2], radius: f32) {
        let warm = srgb(0xFF_CB_82);
        self.plate.fill_ellipse([u, v], [radius, 0.8 * radius], 0.02, scaled(warm, 1.2), 0.95);
        self.plate.add_glow([u, v], 3.2 * radius, scaled(warm, 0.3));
    }

    fn plant(&mut self, [u, v]: [f32; 2], size: f32, index: usize) {
        self.furniture([u - 0.22 * size, v - 0.3 * size, u + 0.22 * size, v], 0xB9_9A_80);
        for leaf in 0..9 {
            let number = |which: u32| self.context.random(index * 16 + leaf, 90 + which);
            let (x, y) = ((number(0) - 0.5) * size, v - size * (0.4 + 0.75 * number(1)));
            let color = self.color(if number(2) > 0.5 { 0x4C_72_3E } else { 0x78_96_5A });
            self.plate.fill_ellipse([u + x, y], [size * 0.17, size * 0.26], 0.02, color, 0.85);
        }
    }

    /// A row of objects on a shelf, in random `codes`.
    fn objects(&mut self, [left, right]: [f32; 2], floor: f32, tall: f32, codes: &[u32], index: usize) {
        let mut at = left;
        let mut object = 0;
        while at < right && object < 200 {
            let number = |which: u32| self.context.random(index * 256 + object, 120 + which);
            let (wide, high) = (tall * (0.18 + 0.25 * number(0)), tall * (0.6 + 0.4 * number(1)));
            let code = codes[(number(2) * codes.len() as f32) as usize % codes.len()];
            let color = scaled(self.color(code), 0.75 + 0.45 * number(3));
            self.plate.fill_box([at, floor - high, at + wide, floor], 0.004, color, 1.0);
            at += wide * (1.0 + 0.25 * number(4));
            object += 1;
        }
    }

    /// Grid lines: the joints of panels and tiles.
    fn lines(&mut self, [left, top, right, bottom]: [f32; 4], across: usize, down: usize, code: u32) {
        let color = self.color(code);
        for index in 0..=across.min(80) {
            let u = left + (right - left) * index as f32 / across.max(1) as f32;
            self.plate.fill_box([u - 0.0025, top, u + 0.0025, bottom], 0.003, color, 0.8);
        }
        for index in 0..=down.min(80) {
            let v = top + (bottom - top) * index as f32 / down.max(1) as f32;
            self.plate.fill_box([left, v - 0.0025, right, v + 0.0025], 0.003, color, 0.8);
        }
    }

    fn lights(&mut self, each: f32, band: [f32; 2], sizes: [f32; 2], codes: &[u32], share: f32) {
        let colors: Vec<Rgb> = codes.iter().map(|code| srgb(*code)).collect();
        self.sprites.extend(bokeh(self.context, each, band, sizes, &colors, share));
    }

    fn finish(self) -> (Plate, Vec<Sprite>) {
        (self.plate, self.sprites)
    }

    fn half_width(&self) -> f32 {
        0.5 * self.context.aspect + 0.05
    }
}

pub(super) fn kitchen(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0xE4_DF_D6, 0.5);
    let (edge, half) = (context.edge, room.half_width());
    // Splashback, cabinets above it, a window, a worktop with objects on it.
    room.fill([-half, 0.28, half, edge - 0.1], 0xDD_DB_D4);
    room.lines([-half, 0.28, half, edge - 0.1], (half * 26.0) as usize, 7, 0xC8_C5_BD);
    for index in 0..(half * 3.0) as usize + 1 {
        let left = -half + 0.42 * index as f32;
        if (left + 0.2 - 0.32).abs() > 0.38 {
            room.furniture([left, -0.05, left + 0.405, 0.245], 0xC7_CB_C4);
            room.fill([left + 0.36, 0.16, left + 0.37, 0.21], 0x8A_7A_58);
        }
    }
    room.window([0.1, 0.02, 0.56, 0.36], 2);
    room.furniture([-half, edge - 0.1, half, edge + 0.05], 0xB9_AE_9E);
    room.fill([-half, edge - 0.112, half, edge - 0.09], 0xF0_ED_E6);
    room.fill([-half, 0.335, -0.12, 0.35], 0xA8_7E_54);
    room.objects([-half + 0.06, -0.16], 0.335, 0.075, &[0xF2_EE_E4, 0xC9_8E_5C, 0x7E_8C_76, 0x4A_5A_58], 1);
    room.objects([-half + 0.1, -0.3], edge - 0.11, 0.12, &[0xB0_6A_42, 0xD9_CE_BC, 0x5E_6E_58, 0xEC_E8_DE], 2);
    room.plant([0.66, edge - 0.11], 0.15, 3);
    room.lamp([-0.42, 0.18], 0.03);
    room.finish()
}

pub(super) fn bathroom(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0xE8_EA_E8, 0.35);
    let (edge, half) = (context.edge, room.half_width());
    room.lines([-half, 0.0, half, edge], (half * 14.0) as usize, 9, 0xCE_D2_D0);
    room.window([0.4, 0.04, 0.78, 0.4], 2);
    // A round mirror, a basin on a board, towels, a plant.
    let mirror = room.color(0xC6_D2_D6);
    let rim = room.color(0xB4_92_5C);
    room.plate.fill_ellipse([-0.22, 0.24], [0.185, 0.185], 0.006, rim, 1.0);
    room.plate.fill_ellipse([-0.22, 0.24], [0.172, 0.172], 0.006, mix(mirror, [1.0; 3], 0.35), 1.0);
    room.plate.fill_ellipse([-0.16, 0.3], [0.1, 0.12], 0.1, scaled(mirror, 0.7), 0.6);
    room.furniture([-half, edge - 0.06, 0.2, edge + 0.05], 0xA8_84_5E);
    let basin = room.color(0xF8_F8_F5);
    room.plate.fill_ellipse([-0.22, edge - 0.085], [0.17, 0.045], 0.008, basin, 1.0);
    room.fill([-0.235, edge - 0.2, -0.22, edge - 0.11], 0x9A_9C_9C);
    room.furniture([0.28, edge - 0.34, 0.4, edge - 0.02], 0xE6_DC_CC);
    room.objects([-0.72, -0.46], edge - 0.065, 0.11, &[0xE8_DE_CE, 0x8C_9E_92, 0xC8_A0_74, 0xF4_F2_EC], 1);
    room.plant([0.06, edge - 0.06], 0.13, 2);
    room.finish()
}

pub(super) fn living_room(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0xDB_D4_C8, 0.6);
    let (edge, half) = (context.edge, room.half_width());
    room.fill([-half, edge - 0.05, half, 1.0], 0xA8_84_60);
    room.window([0.34, 0.02, 0.74, edge - 0.16], 2);
    for (left, right) in [(0.22, 0.34), (0.74, 0.88)] {
        room.furniture([left, -0.05, right, edge - 0.04], 0xEC_E6_DC);
    }
    room.furniture([-0.24, 0.1, -0.02, 0.27], 0xF2_EE_E6);
    room.fill([-0.22, 0.12, -0.04, 0.25], 0xC2_A2_86);
    room.furniture([-0.62, edge - 0.24, 0.12, edge - 0.02], 0x86_8C_88);
    room.furniture([-0.66, edge - 0.17, -0.54, edge - 0.02], 0x7C_82_7E);
    room.furniture([-0.48, edge - 0.21, -0.34, edge - 0.1], 0xC9_8E_5C);
    room.furniture([-0.12, edge - 0.21, 0.02, edge - 0.1], 0xE8_DE_CE);
    room.lamp([-0.74, 0.22], 0.065);
    room.plant([0.24, edge + 0.0], 0.26, 4);
    room.finish()
}

pub(super) fn bedroom(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0xDC_D6_CE, 0.5);
    let (edge, half) = (context.edge, room.half_width());
    room.fill([-half, edge - 0.04, half, 1.0], 0xC2_AA_8C);
    room.window([-0.84, 0.02, -0.5, 0.36], 2);
    room.furniture([-0.36, edge - 0.32, 0.56, edge - 0.02], 0xAE_96_7E);
    room.furniture([-0.34, edge - 0.15, 0.54, edge + 0.06], 0xF4_F0_EA);
    for left in [-0.26, 0.14] {
        room.furniture([left, edge - 0.24, left + 0.3, edge - 0.12], 0xFB_F9_F5);
    }
    room.furniture([-0.34, edge - 0.04, 0.54, edge + 0.1], 0xA8_B0_AC);
    room.lamp([0.7, edge - 0.26], 0.055);
    room.furniture([0.6, edge - 0.15, 0.82, edge], 0x9A_7A_58);
    room.furniture([0.0, 0.06, 0.24, 0.22], 0xE8_E2_D8);
    room.finish()
}

pub(super) fn office(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0xD4_D8_DA, 0.3);
    let (edge, half) = (context.edge, room.half_width());
    for index in 0..(half * 3.0) as usize + 1 {
        let left = -half + 0.4 * index as f32;
        room.window([left + 0.03, 0.04, left + 0.36, edge - 0.2], 1);
    }
    room.fill([-half, edge - 0.05, half, 1.0], 0x8E_90_92);
    for (index, left) in [-0.72_f32, -0.1, 0.46].into_iter().enumerate() {
        room.furniture([left, edge - 0.13, left + 0.44, edge - 0.1], 0xC4_A8_86);
        room.furniture([left + 0.1, edge - 0.27, left + 0.3, edge - 0.15], 0x2A_2E_34);
        room.fill(
            [left + 0.11, edge - 0.26, left + 0.29, edge - 0.165],
            if index == 1 { 0x8A_B4_D4 } else { 0x5A_74_8C },
        );
        room.furniture([left + 0.14, edge - 0.12, left + 0.28, edge + 0.04], 0x3A_40_46);
    }
    room.plant([0.34, edge + 0.01], 0.24, 4);
    room.lights(7.0, [0.0, 0.1], [0.02, 0.034], &[0xFF_F6_E8], 0.7);
    room.finish()
}

pub(super) fn cafe(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0x5E_48_38, 0.5);
    let (edge, half) = (context.edge, room.half_width());
    room.fill([-half, edge - 0.02, half, 1.0], 0x4A_34_26);
    room.window([0.42, 0.1, 0.84, edge - 0.18], 2);
    for (index, floor) in [0.2_f32, 0.34].into_iter().enumerate() {
        room.fill([-0.78, floor, 0.1, floor + 0.014], 0x8A_62_3E);
        room.objects(
            [-0.76, 0.08],
            floor,
            0.1,
            &[0x8C_A0_86, 0xC8_9A_5E, 0x6A_3A_26, 0xE6_D8_BE, 0x3E_4A_4A],
            5 + index,
        );
    }
    room.furniture([-half, edge - 0.16, 0.16, edge + 0.03], 0x006E_4C32);
    room.furniture([-0.5, edge - 0.25, -0.3, edge - 0.16], 0xA8_AC_AE);
    room.furniture([0.36, edge - 0.12, 0.58, edge + 0.03], 0x7A_56_3A);
    for (index, u) in [-0.56_f32, -0.2, 0.16, 0.52].into_iter().enumerate() {
        room.lamp([u, 0.1 + 0.03 * context.random(index, 8)], 0.034);
    }
    room.lights(16.0, [0.02, edge - 0.05], [0.01, 0.034], &[0xFF_C8_7A, 0xFF_E0_B0, 0xFF_A8_5A], 0.5);
    room.finish()
}

pub(super) fn library(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0x4C_34_24, 0.45);
    let half = room.half_width();
    let spines = [0x7A_2E_26, 0x2E_4A_5A, 0xB8_8E_4E, 0x3E_54_3A, 0xD8_C8_A8, 0x5A_3A_52, 0x8C_5A_34, 0x2A_2A_30];
    for (index, floor) in [0.15_f32, 0.34, 0.53, 0.72].into_iter().enumerate() {
        room.objects([-half, half], floor, 0.155, &spines, 10 + index);
        room.fill([-half, floor, half, floor + 0.018], 0x6E_4A_2E);
        room.plate.fill_box([-half, floor - 0.19, half, floor - 0.13], 0.04, [0.0; 3], 0.5);
    }
    for index in 0..(half * 2.4) as usize + 1 {
        let u = -half + 0.84 * index as f32;
        room.furniture([u, -0.05, u + 0.035, 0.9], 0x5E_3E_26);
    }
    room.lamp([0.5, 0.2], 0.05);
    room.finish()
}

pub(super) fn shop(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0xEC_E8_E2, 0.2);
    let (edge, half) = (context.edge, room.half_width());
    room.fill([-half, edge - 0.03, half, 1.0], 0xD2_CC_C4);
    for (column, left) in [-0.86_f32, -0.3, 0.34].into_iter().enumerate() {
        room.furniture([left, 0.08, left + 0.48, edge - 0.02], 0xF6_F3_EE);
        for shelf in 0..3 {
            let floor = 0.23 + 0.14 * shelf as f32;
            room.objects(
                [left + 0.03, left + 0.45],
                floor,
                0.09,
                &[0xE8_B4_A8, 0xA8_C0_C4, 0xD8_C4_9A, 0x8C_90_94, 0xF4_E6_DA],
                20 + column * 4 + shelf,
            );
            room.fill([left, floor, left + 0.48, floor + 0.01], 0xC4_AE_92);
        }
    }
    room.lights(9.0, [-0.02, 0.1], [0.018, 0.034], &[0xFF_F2_DC], 0.9);
    room.finish()
}

pub(super) fn loft(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0x9A_8A_7E, 0.5);
    let (edge, half) = (context.edge, room.half_width());
    room.lines([-half, 0.0, half, edge], 0, 34, 0x86_74_68);
    for index in 0..(half * 2.0) as usize + 1 {
        let left = -half + 0.58 * index as f32;
        room.window([left + 0.06, 0.06, left + 0.46, edge - 0.14], 4);
        room.lines([left + 0.06, 0.06, left + 0.46, edge - 0.14], 4, 5, 0x38_3A_3C);
    }
    room.fill([-half, edge - 0.03, half, 1.0], 0x8C_88_84);
    room.furniture([-0.16, -0.05, -0.08, edge], 0x3C_3E_40);
    room.furniture([0.24, edge - 0.12, 0.6, edge + 0.02], 0x6E_4E_36);
    room.lamp([0.0, 0.12], 0.03);
    room.finish()
}

pub(super) fn gym(context: &ViewContext<'_>) -> (Plate, Vec<Sprite>) {
    let mut room = Room::new(context, 0x54_58_5C, 0.45);
    let (edge, half) = (context.edge, room.half_width());
    room.fill([-half, edge - 0.04, half, 1.0], 0x34_36_38);
    room.fill([-half, 0.1, half, edge - 0.2], 0x78_80_86);
    for index in 0..(half * 5.0) as usize + 1 {
        let u = -half + 0.24 * index as f32;
        room.furniture([u, edge - 0.18, u + 0.13, edge - 0.13], 0x1E_20_22);
        room.furniture([u + 0.02, edge - 0.08, u + 0.15, edge - 0.02], 0x1E_20_22);
    }
    room.furniture([-0.55, 0.05, -0.52, edge], 0x26_28_2A);
    room.furniture([-0.2, 0.05, -0.17, edge], 0x26_28_2A);
    room.fill([-0.7, 0.3, -0.02, 0.315], 0xB0_B4_B8);
    let plates = room.color(0x1A_1B_1D);
    for u in [-0.66, -0.06] {
        room.plate.fill_ellipse([u, 0.307], [0.03, 0.11], 0.006, plates, 1.0);
    }
    for u in [-0.6_f32, 0.0, 0.6] {
        room.plate.fill_box([u - 0.2, 0.03, u + 0.2, 0.05], 0.008, [1.2; 3], 1.0);
    }
    room.finish()
}
