//! The words that the built-in generator knows.
//!
//! A table: one entry a concept, with the words and phrases for it, and what it says about a scene. Words stand in the
//! singular, in lower case and without accents, as [`prompt`](super::prompt) turns those that it reads.

use super::scene::{Gobo, Hour, Place, Weather};
use super::surface::{Finish, Material, Species};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A concept.
#[derive(Debug)]
pub(super) struct Entry {
    /// Words and phrases for it; the first is its name.
    pub(super) words: &'static [&'static str],
    pub(super) says: Says,
}

/// What a concept says about a scene.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Says {
    /// Of what the ground or the wall is; `true`: more likely a wall, when nothing says which.
    Material(Material, bool),
    /// The ground, as in "marble floor", or the wall.
    Slot(Slot),
    Place(Place),
    /// A sky with so many clouds, 0 to 1.
    Sky(f32),
    Hour(Hour),
    Light(Lighting),
    From(Side),
    Color(u32),
    Tone(Tone),
    Finish(Finish),
    Mood(Mood),
    Weather(Weather),
    Prop(Stand),
    Shadow(Shade),
    /// Depth of field, 0 (all is sharp) to 1.
    Focus(f32),
    /// Seamless paper.
    Sweep,
    Gradient,
    Vignette,
}

/// Ground or wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Ground,
    /// A table: wood, if nothing else is said.
    Table,
    Wall,
    /// What is behind, of whatever it is.
    Backdrop,
}

/// Something to stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stand {
    Podium,
    Shelf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lighting {
    Soft,
    Hard,
    Spot,
    Neon,
    Back,
    Sun,
    Candle,
    Flash,
    HighKey,
    LowKey,
    Through(Gobo),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
    Above,
    Behind,
    Front,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Dark,
    Light,
    Pastel,
    Vivid,
    Muted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Warm,
    Cool,
    Moody,
    Airy,
    Luxury,
    Minimal,
    Rustic,
    Romantic,
    Dramatic,
    Cozy,
    Vintage,
    Futuristic,
    Festive,
    Calm,
    Dreamy,
    Industrial,
    Tropical,
    Nordic,
    Monochrome,
    Spring,
    Summer,
    Winter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shade {
    Visible,
    Long,
    Hard,
    Soft,
}

const fn entry(words: &'static [&'static str], says: Says) -> Entry {
    Entry { words, says }
}

const fn ground(words: &'static [&'static str], material: Material) -> Entry {
    entry(words, Says::Material(material, false))
}

const fn wall(words: &'static [&'static str], material: Material) -> Entry {
    entry(words, Says::Material(material, true))
}

const fn place(words: &'static [&'static str], place: Place) -> Entry {
    entry(words, Says::Place(place))
}

const fn color(words: &'static [&'static str], code: u32) -> Entry {
    entry(words, Says::Color(code))
}

/// Every concept.
pub(super) const ENTRIES: &[Entry] = &[
    // Stone, masonry.
    ground(&["marble", "marbled", "carrara", "calacatta", "quartz"], Material::Marble),
    ground(&["onyx", "agate"], Material::Onyx),
    ground(&["granite"], Material::Granite),
    ground(&["travertine", "limestone"], Material::Travertine),
    ground(&["slate", "stone", "rock", "basalt"], Material::Slate),
    wall(&["sandstone"], Material::Sandstone),
    ground(&["concrete", "cement", "microcement"], Material::Concrete),
    wall(&["plaster", "stucco", "limewash", "clay", "venetian plaster"], Material::Plaster),
    ground(&["terrazzo"], Material::Terrazzo),
    wall(&["brick", "brickwork", "bricks"], Material::Brick),
    wall(&["tile", "tiled", "ceramic", "ceramic tile", "porcelain"], Material::Tiles),
    wall(&["subway tile", "metro tile", "subway"], Material::SubwayTiles),
    wall(&["mosaic", "zellige"], Material::Mosaic),
    ground(&["checkerboard", "checkered floor", "chessboard", "checkered tile"], Material::Checker),
    ground(&["cobblestone", "cobble", "paving", "pavement"], Material::Cobbles),
    ground(&["pebble", "gravel", "shingle"], Material::Pebbles),
    ground(&["terracotta"], Material::Terracotta),
    // Wood and what is woven of plants.
    ground(&["oak", "wood", "wooden", "timber", "hardwood", "parquet", "plank", "board"], Material::Wood(Species::Oak)),
    ground(&["walnut", "teak", "rosewood"], Material::Wood(Species::Walnut)),
    ground(&["pine", "plywood", "larch", "cedar"], Material::Wood(Species::Pine)),
    ground(&["birch", "maple", "ash wood", "beech"], Material::Wood(Species::Birch)),
    ground(&["cherry wood", "cherrywood"], Material::Wood(Species::Cherry)),
    ground(&["mahogany"], Material::Wood(Species::Mahogany)),
    ground(&["ebony", "wenge"], Material::Wood(Species::Ebony)),
    ground(&["bamboo"], Material::Wood(Species::Bamboo)),
    ground(&["barn wood", "driftwood", "reclaimed wood", "weathered wood", "old wood"], Material::Wood(Species::Barn)),
    ground(&["rattan", "wicker", "cane", "woven"], Material::Rattan),
    ground(&["cork", "corkboard"], Material::Cork),
    // Cloth, leather, paper.
    ground(&["linen", "canvas", "tablecloth", "cloth", "fabric", "textile"], Material::Linen),
    ground(&["cotton", "bedsheet", "muslin"], Material::Cotton),
    ground(&["denim", "jeans"], Material::Denim),
    ground(&["burlap", "jute", "hessian", "sackcloth"], Material::Burlap),
    ground(&["wool", "knit", "knitted", "woollen", "woolen", "blanket", "sweater"], Material::Knit),
    ground(&["felt"], Material::Felt),
    ground(&["velvet", "velour", "suede"], Material::Velvet),
    ground(&["silk", "satin", "silky"], Material::Silk),
    wall(&["curtain", "drape", "drapery"], Material::Curtain),
    ground(&["leather"], Material::Leather),
    ground(&["fur", "sheepskin", "fluffy", "fleece", "faux fur"], Material::Fur),
    ground(&["carpet", "rug"], Material::Carpet),
    wall(&["paper", "cardboard paper", "cardstock"], Material::Paper),
    ground(&["kraft", "kraft paper", "cardboard", "brown paper"], Material::Kraft),
    wall(&["crumpled paper", "crumpled", "wrinkled paper", "tissue paper", "foil"], Material::Crumpled),
    wall(&["chalkboard", "blackboard"], Material::Chalkboard),
    wall(&["stripe", "striped", "wallpaper"], Material::Stripes),
    wall(&["polka dot", "dot", "dotted"], Material::Dots),
    ground(&["gingham", "plaid", "picnic blanket", "checked", "tartan"], Material::Checks),
    // Metal, glass.
    ground(
        &[
            "steel",
            "metal",
            "metallic",
            "aluminium",
            "aluminum",
            "brushed steel",
            "stainless steel",
            "chrome",
            "silver",
        ],
        Material::Steel,
    ),
    ground(&["gold", "golden", "brass", "gilded"], Material::Gold),
    ground(&["copper", "bronze", "rose gold"], Material::Copper),
    wall(&["rust", "rusty", "rusted", "corten", "oxidised", "oxidized"], Material::Rust),
    ground(&["glass", "acrylic", "plexiglass"], Material::Glass),
    ground(&["mirror", "mirrored", "reflective"], Material::Mirror),
    // What lies on the ground outdoors.
    ground(&["sand", "sandy"], Material::Sand),
    ground(&["snow", "snowy", "snow covered"], Material::Snow),
    ground(&["grass", "grassy", "lawn", "turf"], Material::Grass),
    ground(&["moss", "mossy"], Material::Moss),
    ground(&["soil", "earth", "dirt", "mud"], Material::Soil),
    ground(&["fallen leaf", "autumn leaf", "foliage floor"], Material::Leaves),
    ground(&["asphalt", "tarmac", "road"], Material::Asphalt),
    ground(&["water", "pool", "puddle", "water surface"], Material::Water),
    ground(&["ice", "icy", "frozen"], Material::Ice),
    // What a ground or wall is called.
    entry(&["floor", "ground", "surface", "flooring"], Says::Slot(Slot::Ground)),
    entry(
        &["table", "tabletop", "desk", "counter", "countertop", "worktop", "bench", "workbench"],
        Says::Slot(Slot::Table),
    ),
    entry(&["wall", "panelling", "panel", "facade"], Says::Slot(Slot::Wall)),
    entry(&["backdrop", "background", "backgrounds"], Says::Slot(Slot::Backdrop)),
    entry(
        &["podium", "pedestal", "plinth", "platform", "stand", "display stand", "cylinder"],
        Says::Prop(Stand::Podium),
    ),
    entry(&["shelf", "shelves", "ledge", "windowsill", "mantelpiece"], Says::Prop(Stand::Shelf)),
    // Places.
    entry(&["sky", "blue sky", "heaven"], Says::Sky(0.35)),
    entry(&["cloud", "cloudy", "cloudy sky", "clouds"], Says::Sky(0.62)),
    entry(&["overcast", "storm", "stormy", "thunderstorm", "grey sky"], Says::Sky(0.95)),
    entry(&["clear sky", "cloudless sky", "cloudless"], Says::Sky(0.0)),
    place(
        &["space", "galaxy", "star", "stars", "starry", "cosmos", "universe", "nebula", "starry sky", "milky way"],
        Place::Space,
    ),
    place(&["sea", "ocean", "seaside", "horizon over water"], Place::Sea),
    place(&["beach", "shore", "coast", "seashore"], Place::Beach),
    place(&["lake", "river", "lakeside", "pond"], Place::Lake),
    place(&["mountain", "alps", "hill", "peak", "valley"], Place::Mountains),
    place(&["desert", "dune", "sahara"], Place::Desert),
    place(
        &["snowfield", "snowy landscape", "winter landscape", "snowy forest", "ski slope", "arctic"],
        Place::Snowfield,
    ),
    place(&["meadow", "pasture", "countryside", "grassland", "park"], Place::Meadow),
    place(
        &["lavender field", "flower field", "lavender", "flower meadow", "tulip field", "wildflower"],
        Place::Flowers,
    ),
    place(&["field", "wheat", "wheat field", "cornfield", "farm"], Place::Field),
    place(&["forest", "wood land", "woodland", "woods", "tree"], Place::Forest),
    place(&["jungle", "rainforest", "palm", "palm leaf", "monstera", "tropical leaf"], Place::Jungle),
    place(&["garden", "flower", "greenery", "foliage", "greenhouse", "floral", "plant", "rose garden"], Place::Garden),
    place(&["autumn", "autumn forest", "fall foliage", "autumnal"], Place::Autumn),
    place(&["blossom", "cherry blossom", "sakura", "cherry tree"], Place::Blossom),
    place(&["city", "skyline", "cityscape", "downtown", "skyscraper", "metropolis"], Place::City),
    place(&["street", "alley", "urban", "town"], Place::Street),
    place(&["city bokeh", "bokeh", "city light", "night city light", "blurred light", "street light"], Place::Bokeh),
    place(&["cyberpunk", "neon sign", "neon city", "neon wall", "arcade"], Place::Neon),
    place(&["kitchen"], Place::Kitchen),
    place(&["bathroom", "spa", "washroom", "shower"], Place::Bathroom),
    place(&["living room", "room", "interior", "lounge", "home", "sofa", "apartment"], Place::LivingRoom),
    place(&["bedroom", "bed", "hotel room"], Place::Bedroom),
    place(&["office", "workplace", "coworking", "meeting room", "studio office"], Place::Office),
    place(&["cafe", "coffee shop", "restaurant", "bar", "bistro", "pub", "diner"], Place::Cafe),
    place(&["library", "bookshelf", "bookshelves", "bookstore", "bookcase", "book"], Place::Library),
    place(&["shop", "store", "boutique", "supermarket", "mall", "retail"], Place::Shop),
    place(&["loft", "warehouse", "factory", "garage"], Place::Loft),
    place(&["gym", "fitness", "fitness studio", "workout"], Place::Gym),
    place(&["stage", "concert", "theatre", "theater", "nightclub", "club"], Place::Stage),
    place(&["underwater", "under water", "deep sea", "aquarium"], Place::Underwater),
    place(&["smoke backdrop", "ink", "smoky backdrop"], Place::Smoke),
    place(&["fire", "flame", "fireplace", "bonfire", "campfire", "blaze"], Place::Fire),
    // Times of day.
    entry(&["sunset", "sundown", "evening sun"], Says::Hour(Hour::Sunset)),
    entry(&["golden hour", "golden light", "late afternoon", "evening"], Says::Hour(Hour::Golden)),
    entry(&["dawn", "sunrise", "morning", "daybreak"], Says::Hour(Hour::Dawn)),
    entry(&["dusk", "twilight", "blue hour"], Says::Hour(Hour::Dusk)),
    entry(&["night", "midnight", "nighttime", "nocturnal"], Says::Hour(Hour::Night)),
    entry(&["day", "daylight", "daytime", "noon", "midday"], Says::Hour(Hour::Day)),
    // Light.
    entry(
        &[
            "soft light",
            "diffuse",
            "diffused",
            "diffuse light",
            "diffused light",
            "softbox",
            "soft lighting",
            "even light",
            "soft",
        ],
        Says::Light(Lighting::Soft),
    ),
    entry(&["hard light", "harsh", "harsh light", "hard lighting", "direct light"], Says::Light(Lighting::Hard)),
    entry(&["spotlight", "spot light", "spot", "spotlit"], Says::Light(Lighting::Spot)),
    entry(&["neon", "neon light", "neon glow", "rgb light", "neon lighting"], Says::Light(Lighting::Neon)),
    entry(&["backlight", "backlit", "rim light", "back light", "contre jour"], Says::Light(Lighting::Back)),
    entry(&["sunlight", "sun", "sunny", "sunshine", "sunlit", "natural light"], Says::Light(Lighting::Sun)),
    entry(
        &["candlelight", "candle", "candle light", "lantern", "tungsten", "lamp light"],
        Says::Light(Lighting::Candle),
    ),
    entry(&["flash", "ring light", "flashlight"], Says::Light(Lighting::Flash)),
    entry(&["high key", "bright white"], Says::Light(Lighting::HighKey)),
    entry(&["low key", "chiaroscuro", "dim", "dimly lit"], Says::Light(Lighting::LowKey)),
    entry(&["window light", "window", "window shadow", "window shade"], Says::Light(Lighting::Through(Gobo::Window))),
    entry(
        &["blind", "venetian blind", "shutter", "blind shadow", "jalousie"],
        Says::Light(Lighting::Through(Gobo::Blinds)),
    ),
    entry(
        &["dappled", "dappled light", "leaf shadow", "plant shadow", "palm shadow", "tree shadow", "leafy shadow"],
        Says::Light(Lighting::Through(Gobo::Leaves)),
    ),
    entry(
        &["caustic", "water reflection", "water ripple", "pool light", "ripple"],
        Says::Light(Lighting::Through(Gobo::Ripples)),
    ),
    entry(&["from left", "left", "from the left"], Says::From(Side::Left)),
    entry(&["from right", "right", "from the right"], Says::From(Side::Right)),
    entry(&["from above", "overhead", "top light", "top lit", "toplight", "overhead light"], Says::From(Side::Above)),
    entry(&["from behind", "light behind"], Says::From(Side::Behind)),
    entry(&["from front", "front light", "frontal", "front lit"], Says::From(Side::Front)),
    entry(&["shadow"], Says::Shadow(Shade::Visible)),
    entry(&["long shadow"], Says::Shadow(Shade::Long)),
    entry(&["hard shadow", "harsh shadow", "crisp shadow", "sharp shadow", "strong shadow"], Says::Shadow(Shade::Hard)),
    entry(&["soft shadow", "gentle shadow", "subtle shadow"], Says::Shadow(Shade::Soft)),
    // What is in the air.
    entry(&["snowfall", "falling snow", "snowing", "snowflake", "blizzard"], Says::Weather(Weather::Snowfall)),
    entry(&["rain", "rainy", "raining", "drizzle"], Says::Weather(Weather::Rain)),
    entry(&["fog", "foggy", "mist", "misty", "haze", "hazy"], Says::Weather(Weather::Fog)),
    entry(&["smoke", "smoky", "steam", "vapour", "vapor"], Says::Weather(Weather::Smoke)),
    entry(&["confetti", "party"], Says::Weather(Weather::Confetti)),
    entry(&["petal", "rose petal", "falling petal", "flower petal"], Says::Weather(Weather::Petals)),
    entry(&["bubble", "soap bubble"], Says::Weather(Weather::Bubbles)),
    entry(&["sparkle", "glitter", "sparkling", "glittering", "shimmer"], Says::Weather(Weather::Sparkle)),
    entry(&["dust", "dusty", "dust particle", "particle"], Says::Weather(Weather::Dust)),
    entry(
        &["fairy light", "string light", "fairylight", "christmas light", "christmas"],
        Says::Weather(Weather::Fairylights),
    ),
    entry(&["balloon"], Says::Weather(Weather::Balloons)),
    // Moods.
    entry(&["warm", "warm tone"], Says::Mood(Mood::Warm)),
    entry(&["cool", "cold", "chilly", "cool tone"], Says::Mood(Mood::Cool)),
    entry(&["moody", "mysterious", "gloomy", "noir"], Says::Mood(Mood::Moody)),
    entry(&["airy", "bright", "fresh", "light and airy"], Says::Mood(Mood::Airy)),
    entry(&["luxury", "luxurious", "elegant", "premium", "opulent"], Says::Mood(Mood::Luxury)),
    entry(&["minimal", "minimalist", "minimalistic", "simple", "clean", "plain"], Says::Mood(Mood::Minimal)),
    entry(&["rustic", "farmhouse", "country style"], Says::Mood(Mood::Rustic)),
    entry(&["romantic", "wedding", "valentine"], Says::Mood(Mood::Romantic)),
    entry(&["dramatic", "cinematic", "epic"], Says::Mood(Mood::Dramatic)),
    entry(&["cozy", "cosy", "hygge", "homely"], Says::Mood(Mood::Cozy)),
    entry(&["vintage", "retro", "nostalgic", "film look", "analog"], Says::Mood(Mood::Vintage)),
    entry(&["futuristic", "sci fi", "tech", "high tech"], Says::Mood(Mood::Futuristic)),
    entry(&["festive", "celebration", "holiday", "birthday"], Says::Mood(Mood::Festive)),
    entry(&["calm", "serene", "peaceful", "zen"], Says::Mood(Mood::Calm)),
    entry(&["dreamy", "ethereal", "magical"], Says::Mood(Mood::Dreamy)),
    entry(&["industrial", "grunge"], Says::Mood(Mood::Industrial)),
    entry(&["tropical", "exotic", "summer vibe"], Says::Mood(Mood::Tropical)),
    entry(&["nordic", "scandinavian", "japandi"], Says::Mood(Mood::Nordic)),
    entry(&["monochrome", "black and white", "greyscale", "grayscale", "colourless"], Says::Mood(Mood::Monochrome)),
    entry(&["spring", "springtime", "easter"], Says::Mood(Mood::Spring)),
    entry(&["summer", "summery"], Says::Mood(Mood::Summer)),
    entry(&["winter", "wintry"], Says::Mood(Mood::Winter)),
    // Studios, and how sharp all is.
    entry(
        &[
            "studio sweep",
            "sweep",
            "seamless",
            "seamless paper",
            "infinity cove",
            "cyclorama",
            "studio",
            "photo studio",
            "cove",
        ],
        Says::Sweep,
    ),
    entry(&["gradient", "ombre", "colour gradient", "color gradient", "duotone"], Says::Gradient),
    entry(&["vignette", "vignetting", "dark corner"], Says::Vignette),
    entry(
        &[
            "shallow depth of field",
            "blurred",
            "blurry",
            "blur",
            "out of focus",
            "shallow focus",
            "blurred background",
            "defocused",
            "depth of field",
        ],
        Says::Focus(1.0),
    ),
    entry(&["sharp", "in focus", "deep focus", "crisp", "sharp background", "deep depth of field"], Says::Focus(0.0)),
    entry(&["glossy", "polished", "shiny", "gloss", "lacquered", "wet"], Says::Finish(Finish::Glossy)),
    entry(&["matte", "matt", "unpolished", "honed"], Says::Finish(Finish::Matt)),
    // Tones and colours.
    entry(&["dark", "deep", "darker", "black painted"], Says::Tone(Tone::Dark)),
    entry(&["light", "pale", "lighter", "whitewashed", "bleached"], Says::Tone(Tone::Light)),
    entry(&["pastel", "powdery"], Says::Tone(Tone::Pastel)),
    entry(&["vivid", "vibrant", "saturated", "colourful", "colorful", "bold", "hot"], Says::Tone(Tone::Vivid)),
    entry(&["muted", "dusty tone", "desaturated", "earthy", "faded"], Says::Tone(Tone::Muted)),
    color(&["white", "pure white"], 0xF4_F4_F2),
    color(&["black", "jet black", "pitch black"], 0x18_18_1A),
    color(&["grey", "gray", "neutral grey", "neutral gray"], 0x8C_8D_90),
    color(&["charcoal", "anthracite", "graphite"], 0x33_36_3A),
    color(&["beige", "nude", "oatmeal"], 0xDD_CB_B0),
    color(&["cream", "ivory", "off white", "vanilla", "eggshell"], 0xF2_E8_D5),
    color(&["taupe", "greige"], 0xA8_9A_8B),
    color(&["brown", "chocolate", "coffee"], 0x6B_47_2F),
    color(&["tan", "camel", "caramel", "khaki"], 0x00C0_9564),
    color(&["red", "scarlet", "crimson"], 0xC4_26_2E),
    color(&["burgundy", "maroon", "wine", "bordeaux"], 0x64_18_2A),
    color(&["orange", "tangerine"], 0xE8_7A_2A),
    color(&["peach", "apricot"], 0xF6_B9_94),
    color(&["coral", "salmon"], 0xF0_7C_66),
    color(&["yellow", "lemon", "sunny yellow"], 0xF4_CE_3A),
    color(&["mustard", "ochre", "amber"], 0xC9_97_2C),
    color(&["green"], 0x3F_8A_4C),
    color(&["sage", "sage green", "eucalyptus"], 0xA3_B1_95),
    color(&["olive", "olive green"], 0x6F_73_3A),
    color(&["mint", "mint green", "pistachio"], 0xB4_DD_C4),
    color(&["emerald", "forest green", "bottle green", "emerald green"], 0x12_5A_40),
    color(&["teal", "petrol"], 0x1F_6E_73),
    color(&["turquoise", "aqua", "cyan"], 0x3F_BF_C4),
    color(&["blue"], 0x2F_68_B8),
    color(&["sky blue", "light blue", "baby blue", "powder blue"], 0xA8_CC_E8),
    color(&["navy", "navy blue", "dark blue", "midnight blue", "indigo"], 0x1C_2A_4E),
    color(&["purple", "violet"], 0x6E_3F_9E),
    color(&["lilac", "mauve", "lavender purple"], 0xC4_AE_DA),
    color(&["pink", "rose"], 0xF0_9A_B4),
    color(&["blush", "blush pink", "dusty pink", "millennial pink"], 0xE9_C6_BF),
    color(&["magenta", "fuchsia", "hot pink"], 0xD4_2A_8A),
];

/// Words in the longest phrase.
pub(super) fn longest_phrase() -> usize {
    static LONGEST: LazyLock<usize> = LazyLock::new(|| {
        ENTRIES.iter().flat_map(|entry| entry.words).map(|words| words.split(' ').count()).max().unwrap_or(1)
    });
    *LONGEST
}

/// The concept that a word or phrase stands for.
pub(super) fn concept(phrase: &str) -> Option<&'static Entry> {
    static INDEX: LazyLock<HashMap<&'static str, &'static Entry>> =
        LazyLock::new(|| ENTRIES.iter().flat_map(|entry| entry.words.iter().map(move |word| (*word, entry))).collect());
    INDEX.get(phrase).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_more_than_eighty_concepts_and_no_word_has_two() {
        assert!(ENTRIES.len() >= 80, "{}", ENTRIES.len());
        let mut words: Vec<&str> = ENTRIES.iter().flat_map(|entry| entry.words).copied().collect();
        let all = words.len();
        words.sort_unstable();
        let twice: Vec<_> = words.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        assert_eq!(twice, [""; 0], "of {all} words");
        for (at, one) in ENTRIES.iter().enumerate() {
            assert!(ENTRIES[at + 1..].iter().all(|other| other.says != one.says), "{:?} is said twice", one.says);
        }
    }

    #[test]
    fn words_are_as_a_prompt_is_read() {
        for word in ENTRIES.iter().flat_map(|entry| entry.words) {
            assert!(word.chars().all(|c| c.is_ascii_lowercase() || c == ' '), "{word}");
            assert!(!word.starts_with(' ') && !word.ends_with(' ') && !word.contains("  "), "{word}");
        }
    }
}
