//! Prompts as people write them, and as nobody does.

use super::*;
use crate::generate::scene::Gobo;
use crate::generate::surface::Species;
use crate::generate::vocabulary::ENTRIES;
use proptest::prelude::*;

fn material(noun: &Option<Noun>) -> Option<Material> {
    noun.as_ref().and_then(|noun| noun.material)
}

#[test]
fn prepositions_say_what_is_ground_and_what_is_behind() {
    let text = "on a walnut table against a brick wall, soft window light from the left, shallow depth of field";
    let reading = read(text);
    assert_eq!(material(&reading.ground), Some(Material::Wood(Species::Walnut)));
    assert_eq!(material(&reading.wall), Some(Material::Brick));
    assert_eq!(reading.lights, [Lighting::Soft, Lighting::Through(Gobo::Window)]);
    assert_eq!((reading.from, reading.focus), (Some(Side::Left), Some(1.0)));
    assert_eq!(
        reading.understood,
        ["walnut", "table", "brick", "wall", "soft", "window light", "from the left", "shallow depth of field"]
    );
    let turned = read("in front of marble, standing on brick");
    assert_eq!((material(&turned.ground), material(&turned.wall)), (Some(Material::Brick), Some(Material::Marble)));
    let placed = read("white marble on oak");
    assert_eq!(material(&placed.ground), Some(Material::Marble));
    assert_eq!(material(&placed.wall), Some(Material::Wood(Species::Oak)));
}

#[test]
fn adjectives_belong_to_the_noun_that_follows() {
    let reading = read("dark green velvet, white brick wall");
    let velvet = reading.ground.expect("velvet");
    assert_eq!((velvet.material, velvet.tone), (Some(Material::Velvet), None));
    assert_eq!(velvet.colors, [recolored(srgb(0x3F_8A_4C), Tone::Dark)]);
    let wall = reading.wall.expect("a wall");
    assert_eq!((wall.material, wall.colors), (Some(Material::Brick), vec![srgb(0xF4_F4_F2)]));
    let painted = read("against dark green");
    assert_eq!(material(&painted.wall), Some(Material::Plain));
    assert_eq!(read("glossy black floor").ground.and_then(|noun| noun.finish), Some(Finish::Glossy));
    assert_eq!(read("dark oak table").ground.and_then(|noun| noun.tone), Some(Tone::Dark));
    assert_eq!(read("pink and orange gradient").colors.len(), 2);
}

#[test]
fn synonyms_plurals_case_accents_and_punctuation_change_nothing() {
    for (one, other) in [
        ("marble", "MARBLE!!!"),
        ("cafe", "Café"),
        ("brick wall", "Brick-Wall"),
        ("grey concrete", "gray cement"),
        ("golden hour", "golden-hour"),
        ("bookshelf", "bookshelves"),
        ("cherry blossom", "sakura"),
        ("velvet", "  «velvet» "),
        ("cafe\u{301}", "cafe"),
        ("white tile", "white tiles"),
        ("leaf shadow", "leaf shadows"),
    ] {
        let (one, other) = (read(one), read(other));
        assert!(!one.understood.is_empty());
        assert_eq!(Reading { understood: Vec::new(), ..one }, Reading { understood: Vec::new(), ..other });
    }
}

#[test]
fn phrases_go_before_words() {
    assert_eq!(read("city bokeh").place, Some(Place::Bokeh));
    assert_eq!(read("city").place, Some(Place::City));
    assert_eq!(read("coffee shop").place, Some(Place::Cafe));
    assert_eq!(read("rose gold").ground.and_then(|noun| noun.material), Some(Material::Copper));
    assert_eq!(read("light blue").colors, [srgb(0xA8_CC_E8)]);
    assert_eq!(read("snow covered mountains").understood, ["snow covered", "mountains"]);
}

#[test]
fn what_is_negated_is_not_there() {
    for text in
        ["no marble", "without marble", "not marble", "avoid white marble", "free of marble", "no oak or marble"]
    {
        let reading = read(text);
        assert_eq!((reading.ground, reading.wall), (None, None), "{text}");
    }
    assert!(read("no shadow").no_shadow && read("shadowless").no_shadow && read("without any hard shadows").no_shadow);
    assert!(!read("shadow").no_shadow);
    assert_eq!(read("cloudless sky").sky, Some(0.0));
    assert_eq!(read("blue sky, no clouds").sky, Some(0.0));
    assert!(read("no floor").no_ground);
    assert_eq!(material(&read("no brick, oak table").ground), Some(Material::Wood(Species::Oak)));
    assert_eq!(material(&read("no brick but concrete").ground), Some(Material::Concrete));
    assert_eq!(material(&read("without people and clutter, marble").ground), Some(Material::Marble));
    assert_eq!(read("confetti, no confetti").weather, []);
    assert_eq!(read("no vignette").vignette, Some(false));
    assert_eq!(read("no blur").focus, Some(0.0));
}

#[test]
fn unknown_words_are_passed_over() {
    let reading = read("a quixotic widget of zorp, xyzzy");
    assert_eq!(reading, Reading::default());
    assert_eq!(read("my zorp on marble").understood, ["marble"]);
    assert_eq!(read("less, less less, ness"), Reading::default());
}

#[test]
fn every_word_of_the_vocabulary_is_understood() {
    for entry in ENTRIES {
        for word in entry.words {
            assert_eq!(read(word).understood, [*word], "{:?}", entry.says);
        }
    }
}

#[test]
fn any_script_can_be_read() {
    for text in [
        "",
        " ",
        "🌲🌲 forest 🌲",
        "غابة، forest",
        "יער forest",
        "森の中、forest。",
        "fo\u{200D}rest forest",
        "ﬁre ẞ İ",
    ] {
        let reading = read(text);
        assert_eq!(
            reading.place == Some(Place::Forest),
            text.contains(" forest") || text.ends_with("forest。"),
            "{text}"
        );
    }
    assert_eq!(read(&"marble ".repeat(500_000)).ground.and_then(|noun| noun.material), Some(Material::Marble));
    assert_eq!(read(&"x".repeat(500)), Reading::default());
}

#[test]
fn the_normal_form_is_that_of_the_words() {
    assert_eq!(normalised("  Café, MARBLE!! (oak) "), "cafe , marble , oak ,");
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in any::<String>()) {
        let reading = read(&text);
        prop_assert!(reading.understood.len() <= text.chars().count());
    }

    #[test]
    fn no_words_in_any_order_are_too_odd(words in prop::collection::vec(0..ENTRIES.len() + 12, 0..40)) {
        let joints = ["no", "without", "on", "against", ",", "and", "or", "in", "less", "free", "of", "with"];
        let word = |at: &usize| ENTRIES.get(*at).map_or_else(|| joints[at - ENTRIES.len()], |entry| entry.words[0]);
        let text = words.iter().map(word).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(read(&text), read(&text.to_uppercase()));
    }
}
