//! The table of endpoints that return pictures: path, inputs, fields, and the function from fields to recipe.

use super::params::{Field, Group, Origin};
use super::{FieldError, Fields, Recipe};
use super::{
    face_restore, headshot, remove, replace_bg, replace_bg_ai, shadow, shared, smart_crop, sticker, studio_shot,
    upscale,
};
use std::sync::LazyLock;

/// Maximum number of pictures in a batch.
pub const MAX_BATCH: usize = 10;

/// An endpoint that returns pictures.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Path without the slash; also the name on the command line.
    pub name: &'static str,
    /// Path.
    pub path: &'static str,
    /// Whether the specification or Backdrop defines it.
    pub origin: Origin,
    /// Summary, one sentence.
    pub about: &'static str,
    /// Description in the contract, as CommonMark; empty if the summary suffices.
    pub description: &'static str,
    /// Values of shared fields that it refuses, as CommonMark; empty if it refuses none.
    pub restriction: &'static str,
    /// Form of its pictures in a request.
    pub input: Input,
    /// All fields except the pictures.
    pub fields: Vec<Field>,
    build: fn(&Fields) -> Result<Recipe, FieldError>,
}

/// Form of an endpoint's pictures in the specification. Over HTTP an endpoint of one picture accepts a file, an address
/// or base64, whatever its form here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A form with a file.
    File,
    /// A form with a file and optionally a background.
    FileAndBackground,
    /// A form with up to [`MAX_BATCH`] files.
    Files,
    /// JSON with an address.
    Url,
    /// JSON with up to [`MAX_BATCH`] addresses.
    Urls,
}

impl Input {
    /// Whether the endpoint takes one picture, not a batch.
    #[must_use]
    pub const fn is_single(self) -> bool {
        match self {
            Self::File | Self::FileAndBackground | Self::Url => true,
            Self::Files | Self::Urls => false,
        }
    }

    /// Whether the pictures are fetched from addresses.
    #[must_use]
    pub const fn is_url(self) -> bool {
        match self {
            Self::Url | Self::Urls => true,
            Self::File | Self::FileAndBackground | Self::Files => false,
        }
    }
}

impl Endpoint {
    /// An endpoint outside [`ENDPOINTS`]; another route translates its requests to these fields.
    pub(super) fn internal(
        path: &'static str,
        origin: Origin,
        about: &'static str,
        input: Input,
        fields: Vec<Field>,
        build: fn(&Fields) -> Result<Recipe, FieldError>,
    ) -> Self {
        let name = path.trim_start_matches('/');
        Self { name, path, origin, about, description: "", restriction: "", input, fields, build }
    }

    /// Validates all fields, requires the required ones, and fills in the defaults.
    ///
    /// # Errors
    /// [`FieldError`] for the first invalid field; without an invalid field, for the first missing one.
    pub fn recipe(&self, fields: &Fields) -> Result<Recipe, FieldError> {
        let recipe = self.built(fields, true)?;
        let missing = self.fields.iter().find(|field| field.required && fields.get(field.name).is_none());
        missing.map_or(Ok(recipe), |field| Err(FieldError::Missing { param: field.name.to_owned() }))
    }

    /// Validates the given fields and fills in the defaults of the others. Required fields may be missing: a preset may
    /// supply them, or these fields are to be saved as a preset.
    ///
    /// # Errors
    /// [`FieldError`] for the first invalid field.
    pub fn validate(&self, fields: &Fields) -> Result<Recipe, FieldError> {
        self.built(fields, false)
    }

    fn built(&self, fields: &Fields, is_complete: bool) -> Result<Recipe, FieldError> {
        let mut recipe = (self.build)(fields).map_err(|error| self.located(error))?;
        super::guidance_rules::validate(&mut recipe, fields, self.input.is_single(), is_complete)?;
        Ok(recipe)
    }

    /// `error`, extended by the endpoints that have the field if this endpoint lacks it.
    #[must_use]
    pub fn located(&self, error: FieldError) -> FieldError {
        let (FieldError::Unknown { param } | FieldError::Misspelled { param, .. }) = &error else { return error };
        let has_it = |other: &&Self| other.input.is_single() && !other.input.is_url() && other.field(param).is_some();
        let others: Vec<_> = ENDPOINTS.iter().filter(has_it).map(|other| other.path).collect();
        if others.is_empty() {
            return error;
        }
        FieldError::Elsewhere { param: param.clone(), here: self.path, others: others.join(", ") }
    }

    /// Whether it takes a mask of its picture.
    #[must_use]
    pub fn takes_mask(&self) -> bool {
        self.input.is_single() && (self.build)(&Fields::default()).is_ok_and(|recipe| recipe.cut().is_some())
    }

    /// Whether it generates backdrops, which only accounts on its allow-list may use.
    #[must_use]
    pub fn generates(&self) -> bool {
        self.path == replace_bg_ai::BACKDROP_PATH
    }

    /// Names of its fields.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|field| field.name)
    }

    /// The table row of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Groups of shared fields that the specification lists for endpoints.
const SIZES: &[&str] = &["quality", "max_dim", "width", "height"];
const FINDING: &[&str] = &["detect", "decontaminate", "engine"];
const MARKS: &[&str] = &["despill", "watermark", "watermark_opacity"];
const PRESET: &[&str] = &["preset"];

struct EndpointEntry {
    path: &'static str,
    origin: Origin,
    about: &'static str,
    description: &'static str,
    restriction: &'static str,
    input: Input,
    /// Groups of the fields that the specification lists; all other fields are extensions.
    specified: &'static [&'static [&'static str]],
    table: fn() -> Vec<Field>,
    build: fn(&Fields) -> Result<Recipe, FieldError>,
}

/// A new endpoint is a file in this folder and an entry here.
const ENTRIES: &[EndpointEntry] = &[
    EndpointEntry {
        path: "/remove",
        origin: Origin::Specification,
        about: "Cuts the subject out of a picture.",
        description: "",
        restriction: "",
        input: Input::File,
        specified: &[&["format", "matting", "edge"], SIZES, FINDING, MARKS, PRESET],
        table: remove::Upload::table,
        build: remove::upload,
    },
    EndpointEntry {
        path: "/remove-url",
        origin: Origin::Specification,
        about: "Fetches a picture and cuts its subject out.",
        description: "",
        restriction: "",
        input: Input::Url,
        specified: &[&["format", "edge"], SIZES, FINDING, MARKS, PRESET],
        table: remove::Url::table,
        build: remove::url,
    },
    EndpointEntry {
        path: "/remove-batch",
        origin: Origin::Specification,
        about: "Cuts the subjects out of up to ten pictures; the reply has a row for each picture.",
        description: "",
        restriction: remove::OF_MANY_PICTURES,
        input: Input::Files,
        specified: &[],
        table: remove::Upload::table,
        build: remove::upload,
    },
    EndpointEntry {
        path: "/remove-batch-url",
        origin: Origin::Specification,
        about: "Fetches up to ten pictures and cuts their subjects out; the reply has a row for each picture.",
        description: "",
        restriction: remove::OF_MANY_PICTURES,
        input: Input::Urls,
        specified: &[&["format"]],
        table: remove::Url::table,
        build: remove::url,
    },
    EndpointEntry {
        path: "/mask",
        origin: Origin::Extension,
        about: "Answers the matte of a picture's subject, or its mask before matting, as 8-bit grey.",
        description: "",
        restriction: "",
        input: Input::File,
        specified: &[],
        table: remove::Mask::table,
        build: remove::mask,
    },
    EndpointEntry {
        path: "/replace-bg",
        origin: Origin::Specification,
        about: "Puts the subject on a colour or another picture.",
        description: "",
        restriction: "",
        input: Input::FileAndBackground,
        specified: &[&["bg_url", "bg_color", "fit", "format"], SIZES, MARKS, PRESET],
        table: replace_bg::Replace::table,
        build: replace_bg::replace,
    },
    EndpointEntry {
        path: replace_bg_ai::BACKDROP_PATH,
        origin: Origin::Specification,
        about: "Puts the subject on a backdrop that is generated from a prompt.",
        description: replace_bg_ai::DESCRIPTION,
        restriction: "",
        input: Input::File,
        specified: &[&["prompt", "model", "format", "detect", "decontaminate"], SIZES, MARKS],
        table: replace_bg_ai::table,
        build: replace_bg_ai::generated,
    },
    EndpointEntry {
        path: "/studio-shot",
        origin: Origin::Specification,
        about: "Centres the subject on a plain canvas with a soft shadow.",
        description: studio_shot::DESCRIPTION,
        restriction: "",
        input: Input::File,
        specified: &[
            &["bg_color", "padding", "shadow", "bg_blur", "transparent", "aspect", "enhance", "enhance_strength"],
            SIZES,
            FINDING,
            MARKS,
            PRESET,
        ],
        table: studio_shot::Studio::table,
        build: studio_shot::studio,
    },
    EndpointEntry {
        path: "/smart-crop",
        origin: Origin::Specification,
        about: "Crops a picture to its subject.",
        description: "",
        restriction: smart_crop::KEEPS_BACKGROUND,
        input: Input::File,
        specified: &[&["padding", "aspect", "format"], FINDING],
        table: smart_crop::Crop::table,
        build: smart_crop::crop,
    },
    EndpointEntry {
        path: "/shadow",
        origin: Origin::Specification,
        about: "Cuts the subject out and adds a drop shadow.",
        description: "",
        restriction: "",
        input: Input::File,
        specified: &[&["angle", "blur", "opacity", "color", "offset"]],
        table: shadow::Cast::table,
        build: shadow::cast,
    },
    EndpointEntry {
        path: "/sticker",
        origin: Origin::Specification,
        about: "Cuts the subject out and draws an outline around it.",
        description: "",
        restriction: "",
        input: Input::File,
        specified: &[&["stroke_width", "stroke_color", "padding"]],
        table: sticker::Sticker::table,
        build: sticker::sticker,
    },
    EndpointEntry {
        path: "/headshot",
        origin: Origin::Specification,
        about: "Makes a portrait: head and shoulders on a plain background, the face restored.",
        description: "",
        restriction: "",
        input: Input::File,
        specified: &[&["bg_color", "restore_face", "aspect"]],
        table: headshot::Headshot::table,
        build: headshot::headshot,
    },
    EndpointEntry {
        path: "/face-restore",
        origin: Origin::Specification,
        about: "Restores the faces in a picture (sharper, less noise).",
        description: "",
        restriction: shared::KEEPS_PICTURE,
        input: Input::File,
        specified: &[],
        table: face_restore::Restore::table,
        build: face_restore::restore,
    },
    EndpointEntry {
        path: "/upscale",
        origin: Origin::Specification,
        about: "Enlarges a picture by a factor of two or four (super-resolution).",
        description: "",
        restriction: shared::KEEPS_PICTURE,
        input: Input::File,
        specified: &[],
        table: upscale::Upscale::table,
        build: upscale::upscale,
    },
];

/// Every endpoint that returns pictures.
pub static ENDPOINTS: LazyLock<Vec<Endpoint>> = LazyLock::new(|| {
    ENTRIES
        .iter()
        .map(|entry| {
            let is_specified = |name: &str| entry.specified.iter().any(|group| group.contains(&name));
            let origin = |name| if is_specified(name) { Origin::Specification } else { Origin::Extension };
            let fields = (entry.table)().into_iter().map(|field| Field { origin: origin(field.name), ..field });
            Endpoint {
                name: entry.path.trim_start_matches('/'),
                path: entry.path,
                origin: entry.origin,
                about: entry.about,
                description: entry.description,
                restriction: entry.restriction,
                input: entry.input,
                fields: fields.collect(),
                build: entry.build,
            }
        })
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    #[test]
    fn every_documented_default_is_the_value_of_an_empty_request() {
        for endpoint in ENDPOINTS.iter() {
            // Required fields have no default; the others are validated without them too.
            let empty = format!("{:?}", (endpoint.build)(&fields(&[])).expect("no fields"));
            let defaults: Vec<_> =
                endpoint.fields.iter().filter_map(|field| field.default.map(|text| (field.name, text))).collect();
            assert!(!defaults.is_empty());
            for &(name, text) in &defaults {
                let said = (endpoint.build)(&fields(&[(name, text)]));
                // The default aspect yields to an exact box; an aspect that is sent does not.
                let is_aspect = name == "aspect" && ["studio-shot", "headshot"].contains(&endpoint.name);
                if !is_aspect && name != "padding" {
                    assert_eq!(format!("{:?}", said.expect(name)), empty, "{} {name}={text}", endpoint.path);
                }
            }
        }
    }

    #[test]
    fn fields_of_the_specification_exist() {
        for (entry, endpoint) in ENTRIES.iter().zip(ENDPOINTS.iter()) {
            for name in entry.specified.iter().copied().flatten() {
                let field = endpoint.field(name).unwrap_or_else(|| panic!("{} {name}", endpoint.path));
                assert_eq!(field.origin, Origin::Specification);
            }
        }
    }

    #[test]
    fn a_missing_required_field_is_reported_after_invalid_ones() {
        let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.path == replace_bg_ai::BACKDROP_PATH).expect("one");
        let refused = |sent: &[(&str, &str)]| endpoint.recipe(&fields(sent)).map(|_| ()).map_err(|it| it.to_string());
        assert_eq!(refused(&[("width", "64")]), Err("`prompt` is missing".to_owned()));
        assert!(refused(&[("width", "0")]).is_err_and(|message| message.contains("`width`")));
        assert_eq!(refused(&[("width", "64"), ("prompt", "a beach")]), Ok(()));
        assert!(
            endpoint.validate(&fields(&[("width", "64")])).is_ok()
                && endpoint.validate(&fields(&[("width", "0")])).is_err()
        );
        let required = |endpoint: &&Endpoint| endpoint.fields.iter().any(|field| field.required);
        assert!(ENDPOINTS.iter().filter(required).count() < ENDPOINTS.len());
    }

    #[test]
    fn an_unknown_field_is_refused_by_every_endpoint() {
        for endpoint in ENDPOINTS.iter() {
            let refused = endpoint.recipe(&fields(&[("egde", "soft")])).expect_err("unknown");
            assert_eq!(refused.param(), "egde", "{}", endpoint.path);
            let has_edge = endpoint.field("edge").is_some();
            assert_eq!(refused.to_string().ends_with("did you mean `edge`?"), has_edge, "{refused}");
        }
    }
}
