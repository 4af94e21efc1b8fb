//! Natural prompts, synonyms, negations, and arbitrary text.

use super::*;
use crate::generate::linear_rgb::srgb;
use crate::generate::scene::{Gobo, Place};
use crate::generate::surface::{Finish, Material, Species};
use crate::generate::vocabulary::{CONCEPTS, LightDirection, LightStyle, Tone};
use proptest::prelude::*;

fn material(noun: &Option<NounPhrase>) -> Option<Material> {
    noun.as_ref().and_then(|noun| noun.material)
}

#[test]
fn prepositions_distinguish_ground_and_background() {
    let text = "on a walnut table against a brick wall, soft window light from the left, shallow depth of field";
    let parsed = parse(text);
    assert_eq!(material(&parsed.ground), Some(Material::Wood(Species::Walnut)));
    assert_eq!(material(&parsed.wall), Some(Material::Brick));
    assert_eq!(parsed.lights, [LightStyle::Soft, LightStyle::Through(Gobo::Window)]);
    assert_eq!((parsed.light_from, parsed.focus), (Some(LightDirection::Left), Some(1.0)));
    assert_eq!(
        parsed.understood,
        ["walnut", "table", "brick", "wall", "soft", "window light", "from the left", "shallow depth of field"]
    );
    let reversed = parse("in front of marble, standing on brick");
    assert_eq!((material(&reversed.ground), material(&reversed.wall)), (Some(Material::Brick), Some(Material::Marble)));
    let placed = parse("white marble on oak");
    assert_eq!(material(&placed.ground), Some(Material::Marble));
    assert_eq!(material(&placed.wall), Some(Material::Wood(Species::Oak)));
}

#[test]
fn adjectives_belong_to_the_noun_that_follows() {
    let parsed = parse("dark green velvet, white brick wall");
    let velvet = parsed.ground.expect("velvet");
    assert_eq!((velvet.material, velvet.tone), (Some(Material::Velvet), None));
    assert_eq!(velvet.colors, [Tone::Dark.applied_to(srgb(0x3F_8A_4C))]);
    let wall = parsed.wall.expect("a wall");
    assert_eq!((wall.material, wall.colors), (Some(Material::Brick), vec![srgb(0xF4_F4_F2)]));
    let painted = parse("against dark green");
    assert_eq!(material(&painted.wall), Some(Material::Plain));
    assert_eq!(parse("glossy black floor").ground.and_then(|noun| noun.finish), Some(Finish::Glossy));
    assert_eq!(parse("dark oak table").ground.and_then(|noun| noun.tone), Some(Tone::Dark));
    assert_eq!(parse("pink and orange gradient").colors.len(), 2);
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
        let (one, other) = (parse(one), parse(other));
        assert!(!one.understood.is_empty());
        assert_eq!(ParsedPrompt { understood: Vec::new(), ..one }, ParsedPrompt { understood: Vec::new(), ..other });
    }
}

#[test]
fn phrases_win_over_words() {
    assert_eq!(parse("city bokeh").place, Some(Place::Bokeh));
    assert_eq!(parse("city").place, Some(Place::City));
    assert_eq!(parse("coffee shop").place, Some(Place::Cafe));
    assert_eq!(parse("rose gold").ground.and_then(|noun| noun.material), Some(Material::Copper));
    assert_eq!(parse("light blue").colors, [srgb(0xA8_CC_E8)]);
    assert_eq!(parse("snow covered mountains").understood, ["snow covered", "mountains"]);
}

#[test]
fn negated_concepts_are_removed() {
    for text in
        ["no marble", "without marble", "not marble", "avoid white marble", "free of marble", "no oak or marble"]
    {
        let parsed = parse(text);
        assert_eq!((parsed.ground, parsed.wall), (None, None), "{text}");
    }
    assert!(
        parse("no shadow").no_shadow && parse("shadowless").no_shadow && parse("without any hard shadows").no_shadow
    );
    assert!(!parse("shadow").no_shadow);
    assert_eq!(parse("cloudless sky").sky, Some(0.0));
    assert_eq!(parse("blue sky, no clouds").sky, Some(0.0));
    assert!(parse("no floor").no_ground);
    assert_eq!(material(&parse("no brick, oak table").ground), Some(Material::Wood(Species::Oak)));
    assert_eq!(material(&parse("no brick but concrete").ground), Some(Material::Concrete));
    assert_eq!(material(&parse("without people and clutter, marble").ground), Some(Material::Marble));
    assert_eq!(parse("confetti, no confetti").air, []);
    assert_eq!(parse("no vignette").vignette, Some(false));
    assert_eq!(parse("no blur").focus, Some(0.0));
}

#[test]
fn a_material_does_not_end_the_negation_of_its_noun() {
    for (text, same) in [
        ("no brick wall, beach", "beach"),
        ("beach, no wooden floor", "beach"),
        ("forest without a wooden table", "forest"),
        ("beach, no white marble tile floor", "beach"),
        ("no oak podium or wooden shelf, beach", "beach"),
        ("no wooden table but a marble table", "marble table"),
        ("no wood, a table", "table"),
        ("no wood on a table", "table"),
        ("no brick, wall of marble", "wall, marble"),
    ] {
        assert_eq!(parse(text), parse(same), "{text}");
    }
    assert_eq!(parse("oak table, no wooden table").ground, None);
    let kept = parse("marble floor, no wooden floor");
    assert_eq!((material(&kept.ground), kept.no_ground), (Some(Material::Marble), false));
}

#[test]
fn unknown_words_are_skipped() {
    let parsed = parse("a quixotic widget of zorp, xyzzy");
    assert_eq!(parsed, ParsedPrompt::default());
    assert_eq!(parse("my zorp on marble").understood, ["marble"]);
    assert_eq!(parse("less, less less, ness"), ParsedPrompt::default());
}

#[test]
fn every_word_of_the_vocabulary_is_recognized() {
    for entry in CONCEPTS {
        for word in entry.words {
            assert_eq!(parse(word).understood, [*word], "{:?}", entry.meaning);
        }
    }
}

#[test]
fn any_script_is_parsed() {
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
        let parsed = parse(text);
        assert_eq!(
            parsed.place == Some(Place::Forest),
            text.contains(" forest") || text.ends_with("forest。"),
            "{text}"
        );
    }
    assert_eq!(parse(&"marble ".repeat(500_000)).ground.and_then(|noun| noun.material), Some(Material::Marble));
    assert_eq!(parse(&"x".repeat(500)), ParsedPrompt::default());
}

#[test]
fn the_normal_form_is_lower_case_words_without_accents() {
    assert_eq!(normalised("  Café, MARBLE!! (oak) "), "cafe , marble , oak ,");
}

proptest! {
    #[test]
    fn any_word_order_is_parsed_regardless_of_case(words in prop::collection::vec(0..CONCEPTS.len() + 12, 0..40)) {
        let function_words = ["no", "without", "on", "against", ",", "and", "or", "in", "less", "free", "of", "with"];
        let word = |at: &usize| CONCEPTS.get(*at).map_or_else(|| function_words[at - CONCEPTS.len()], |entry| entry.words[0]);
        let text = words.iter().map(word).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(parse(&text), parse(&text.to_uppercase()));
    }
}
