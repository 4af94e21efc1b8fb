//! Materials of grounds, walls and props, and their gloss.

use super::linear_rgb::Rgb;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Material {
    Plain,
    Marble,
    Granite,
    Travertine,
    Slate,
    Sandstone,
    Onyx,
    Concrete,
    Plaster,
    Terrazzo,
    Brick,
    Tiles,
    SubwayTiles,
    Mosaic,
    Checker,
    Cobbles,
    Pebbles,
    Wood(Species),
    Rattan,
    Linen,
    Cotton,
    Denim,
    Burlap,
    Knit,
    Felt,
    Velvet,
    Silk,
    Curtain,
    Leather,
    Fur,
    Carpet,
    Paper,
    Kraft,
    Crumpled,
    Steel,
    Gold,
    Copper,
    Rust,
    Glass,
    Mirror,
    Sand,
    Snow,
    Grass,
    Moss,
    Soil,
    Leaves,
    Asphalt,
    Water,
    Ice,
    Chalkboard,
    Cork,
    Terracotta,
    Stripes,
    Dots,
    Checks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Species {
    Oak,
    Walnut,
    Pine,
    Birch,
    Cherry,
    Mahogany,
    Ebony,
    Bamboo,
    /// Weathered and grey.
    Barn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Glossy,
    Matt,
}

/// A surface: material, colour and finish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Surface {
    pub(super) material: Material,
    /// Overrides the colour of the material.
    pub(super) color: Option<Rgb>,
    /// -1 (dark) to 1 (light).
    pub(super) tone: f32,
    pub(super) finish: Option<Finish>,
    pub(super) seed: u32,
}

impl Surface {
    pub(super) fn new(material: Material, seed: u32) -> Self {
        Self { material, color: None, tone: 0.0, finish: None, seed }
    }

    pub(super) fn painted(color: Rgb, seed: u32) -> Self {
        Self { color: Some(color), ..Self::new(Material::Plain, seed) }
    }

    /// Strength of the mirror reflection, 0..1, and its roughness (blur), 0..1.
    pub(super) fn gloss(&self) -> (f32, f32) {
        let own = match self.material {
            Material::Mirror => (0.95, 0.02),
            Material::Glass => (0.8, 0.05),
            Material::Water => (0.75, 0.25),
            Material::Ice => (0.5, 0.3),
            Material::Marble | Material::Onyx | Material::Granite => (0.42, 0.3),
            Material::Tiles | Material::SubwayTiles | Material::Mosaic | Material::Checker => (0.4, 0.25),
            Material::Terrazzo => (0.3, 0.4),
            Material::Steel | Material::Gold | Material::Copper => (0.5, 0.8),
            Material::Wood(Species::Ebony | Species::Mahogany | Species::Walnut | Species::Cherry) => (0.24, 0.6),
            Material::Wood(Species::Oak | Species::Pine | Species::Birch | Species::Bamboo) => (0.16, 0.7),
            Material::Leather | Material::Silk | Material::Slate | Material::Concrete => (0.1, 0.9),
            Material::Plain
            | Material::Travertine
            | Material::Sandstone
            | Material::Plaster
            | Material::Brick
            | Material::Cobbles
            | Material::Pebbles
            | Material::Wood(Species::Barn)
            | Material::Rattan
            | Material::Linen
            | Material::Cotton
            | Material::Denim
            | Material::Burlap
            | Material::Knit
            | Material::Felt
            | Material::Velvet
            | Material::Curtain
            | Material::Fur
            | Material::Carpet
            | Material::Paper
            | Material::Kraft
            | Material::Crumpled
            | Material::Rust
            | Material::Sand
            | Material::Snow
            | Material::Grass
            | Material::Moss
            | Material::Soil
            | Material::Leaves
            | Material::Asphalt
            | Material::Chalkboard
            | Material::Cork
            | Material::Terracotta
            | Material::Stripes
            | Material::Dots
            | Material::Checks => (0.0, 1.0),
        };
        match self.finish {
            None => own,
            Some(Finish::Matt) => (own.0 * 0.15, 1.0),
            Some(Finish::Glossy) => (own.0.max(0.5), own.1.min(0.12)),
        }
    }
}
