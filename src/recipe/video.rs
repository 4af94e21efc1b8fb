//! Fields and recipe of `/video/remove`: format, background, temporal smoothing and sound of a clip's cutout.

use super::params::{Field, Group, fields};
use super::values::choice;
use super::{FieldError, Fields, Flag, Kind, ModelRef, Network, TextSpec, Value, Whole};
use crate::codec::Channels;
use crate::image::SourceUrl;
use crate::image::color::Color;
use std::sync::LazyLock;

/// The path of the endpoint.
pub const VIDEO_PATH: &str = "/video/remove";

/// All fields of `/video/remove` except the clip.
pub static VIDEO_FIELDS: LazyLock<Vec<Field>> = LazyLock::new(VideoFields::table);

/// File format of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VideoFormat {
    /// VP9 with alpha in WebM.
    #[default]
    Webm,
    /// `ProRes` 4444 in MOV.
    Mov,
    /// H.264 in MP4, without alpha: on a colour, or the matte.
    Mp4,
    /// A ZIP archive of PNG files, one for each frame.
    PngSequence,
    /// GIF, with binary alpha.
    Gif,
    /// Animated WebP.
    Webp,
}

impl VideoFormat {
    /// Every format.
    pub const ALL: [Self; 6] = [Self::Webm, Self::Mov, Self::Mp4, Self::PngSequence, Self::Gif, Self::Webp];

    /// Value of the field `format`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Webm => "webm",
            Self::Mov => "mov",
            Self::Mp4 => "mp4",
            Self::PngSequence => "png_sequence",
            Self::Gif => "gif",
            Self::Webp => "webp",
        }
    }

    /// File extension.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Webm => "webm",
            Self::Mov => "mov",
            Self::Mp4 => "mp4",
            Self::PngSequence => "zip",
            Self::Gif => "gif",
            Self::Webp => "webp",
        }
    }

    /// Media type, unique among the formats.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Webm => "video/webm",
            Self::Mov => "video/quicktime",
            Self::Mp4 => "video/mp4",
            Self::PngSequence => "application/zip",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Whether the format has alpha.
    #[must_use]
    pub const fn has_alpha(self) -> bool {
        match self {
            Self::Webm | Self::Mov | Self::PngSequence | Self::Gif | Self::Webp => true,
            Self::Mp4 => false,
        }
    }
}

choice!(VideoFormat {
    "webm" => Self::Webm,
    "mov" => Self::Mov,
    "mp4" => Self::Mp4,
    "png_sequence" => Self::PngSequence,
    "gif" => Self::Gif,
    "webp" => Self::Webp,
});

/// The processing of one clip, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoRecipe {
    /// Format of the result.
    pub format: VideoFormat,
    /// The cutout in colour, or its matte in grey.
    pub channels: Channels,
    /// Colour behind the subject; `None` keeps it transparent.
    pub background: Option<Color>,
    /// Strength of temporal smoothing, 0 (no smoothing) to 100.
    pub smoothing: u8,
    /// Whether a frame with real transparency keeps its alpha as its matte.
    pub keep_alpha: bool,
    /// Whether the sound is kept, if the format has an audio track.
    pub audio: bool,
    /// Text drawn over every frame for a sandbox key.
    pub stamp: Option<&'static str>,
    /// The model named by the request.
    pub named_model: Option<ModelRef>,
    /// The segmentation network of all frames.
    pub network: Network,
}

fields! {
    struct VideoFields {
        /// Format of the result: `webm` is VP9 with alpha, `mov` ProRes 4444, `png_sequence` a ZIP archive of PNG files. `mp4` has no alpha and needs `bg_color` or `channels=alpha`; the alpha of `gif` is binary.
        format: VideoFormat = Some("webm");
        /// `rgba` is the cutout, `alpha` its matte in grey, which takes no `bg_color`.
        channels: Channels = Some("rgba");
        /// Colour behind the subject; without it the result is transparent.
        bg_color: Color = None;
        /// Strength of temporal smoothing between the masks of neighbouring frames: 0 processes each frame by itself.
        smoothing: Whole<0, 100> = Some("50");
        /// A clip that already has real transparency keeps it as its matte.
        keep_alpha: Flag = Some("true");
        /// Keeps the sound, where the format has an audio track: webm, mov and mp4.
        audio: Flag = Some("true");
        /// The model that cuts out all frames, by a name of `GET /models`, with or without its version. The header `x-service-model` is an alternative. Without either the account's model cuts out. The built-in network runs once for each frame.
        segmentation_model: ModelRef = None;
        /// Public https address that receives a webhook when the job ends, signed as in Standard Webhooks.
        webhook_url: WebhookUrl = None;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebhookUrl(SourceUrl);

impl Value for WebhookUrl {
    const KIND: Kind = Kind::Text(TextSpec {
        expected: "a public https URL",
        pattern: Some("^[hH][tT][tT][pP][sS]://"),
        max_length: 2048,
        examples: &["https://example.org/hooks/backdrop"],
    });

    fn parse(text: &str) -> Option<Self> {
        SourceUrl::parse(text).ok().map(Self)
    }
}

impl VideoRecipe {
    /// Validates one field by itself; [`VideoRecipe::of`] checks dependences on other fields.
    ///
    /// # Errors
    /// [`FieldError`] when no field has this name, or it refuses the value.
    pub fn validate_field(name: &str, value: &str) -> Result<(), FieldError> {
        let unknown = || Err(VideoFields::unknown(name));
        VideoFields::default().set(name, value).unwrap_or_else(unknown)
    }

    /// Validates every field and fills in the defaults. The network is the built-in one and there is no stamp: neither
    /// follows from fields alone.
    ///
    /// # Errors
    /// [`FieldError`] for the first field that is refused.
    pub fn of(fields: &Fields) -> Result<Self, FieldError> {
        let own = VideoFields::read(fields)?;
        let format = own.format.unwrap_or_default();
        let channels = own.channels.unwrap_or_default();
        let sent = fields.get("bg_color").unwrap_or_default();
        // A fully transparent colour counts as no background.
        let background = own.bg_color.filter(|Color([.., alpha])| *alpha > 0);
        if channels == Channels::Alpha && background.is_some() {
            return Err(FieldError::invalid(
                "bg_color",
                sent,
                "none with channels=alpha, because a matte has no background",
            ));
        }
        if !format.has_alpha() && channels == Channels::Rgba && !background.is_some_and(Color::is_opaque) {
            let expected = "webm, mov, png_sequence, gif or webp, or mp4 with an opaque `bg_color` or with \
                            channels=alpha, because mp4 has no transparency";
            return Err(FieldError::invalid("format", format.name(), expected));
        }
        Ok(Self {
            format,
            channels,
            background,
            smoothing: own.smoothing.and_then(|smoothing| u8::try_from(smoothing.get()).ok()).unwrap_or(50),
            keep_alpha: own.keep_alpha.is_none_or(|Flag(yes)| yes),
            audio: own.audio.is_none_or(|Flag(yes)| yes),
            stamp: None,
            named_model: own.segmentation_model,
            network: Network::default(),
        })
    }
}

/// Address of the webhook at the end of the job. The fields must be validated.
#[must_use]
pub fn webhook_url(fields: &Fields) -> Option<SourceUrl> {
    fields.get("webhook_url").and_then(WebhookUrl::parse).map(|WebhookUrl(url)| url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::tests::fields;

    fn recipe(pairs: &[(&str, &str)]) -> Result<VideoRecipe, FieldError> {
        VideoRecipe::of(&fields(pairs))
    }

    #[test]
    fn every_documented_default_is_the_value_of_an_empty_request() {
        let empty = recipe(&[]).expect("no fields");
        let expected = VideoRecipe {
            format: VideoFormat::Webm,
            channels: Channels::Rgba,
            background: None,
            smoothing: 50,
            keep_alpha: true,
            audio: true,
            stamp: None,
            named_model: None,
            network: Network::default(),
        };
        assert_eq!(empty, expected);
        for field in VIDEO_FIELDS.iter() {
            if let Some(text) = field.default {
                assert_eq!(recipe(&[(field.name, text)]).expect(field.name), empty, "{}", field.name);
            }
        }
    }

    #[test]
    fn every_field_reaches_the_recipe() {
        let sent = [
            ("format", "gif"),
            ("bg_color", "red"),
            ("smoothing", "7"),
            ("keep_alpha", "0"),
            ("audio", "0"),
            ("segmentation_model", "isnet"),
        ];
        let expected = VideoRecipe {
            format: VideoFormat::Gif,
            channels: Channels::Rgba,
            background: Some(Color([255, 0, 0, 255])),
            smoothing: 7,
            keep_alpha: false,
            audio: false,
            stamp: None,
            named_model: Some(ModelRef("isnet".into())),
            network: Network::default(),
        };
        assert_eq!(recipe(&sent).expect("all valid"), expected);
        assert_eq!(recipe(&[("channels", "alpha")]).expect("valid").channels, Channels::Alpha);
        let with_webhook = fields(&[("webhook_url", "https://example.org/done")]);
        assert_eq!(recipe(&[("webhook_url", "https://example.org/done")]).expect("valid").format, VideoFormat::Webm);
        assert_eq!(webhook_url(&with_webhook).map(|url| url.to_string()).as_deref(), Some("https://example.org/done"));
        assert_eq!(webhook_url(&fields(&[])), None);
    }

    #[test]
    fn mp4_takes_an_opaque_colour_or_the_matte() {
        assert!(recipe(&[("format", "mp4"), ("bg_color", "#00f")]).is_ok());
        assert!(recipe(&[("format", "mp4"), ("channels", "alpha")]).is_ok());
        for more in [None, Some(("bg_color", "transparent")), Some(("bg_color", "#0000ff80"))] {
            let sent: Vec<_> = [("format", "mp4")].into_iter().chain(more).collect();
            let refused = recipe(&sent).expect_err("it has no alpha");
            assert_eq!(refused.param(), "format");
            let message = refused.to_string();
            assert!(message.contains("`bg_color`") && message.contains("channels=alpha"), "{message}");
        }
    }

    #[test]
    fn a_matte_has_no_background_and_a_transparent_one_is_none() {
        let refused = recipe(&[("channels", "alpha"), ("bg_color", "red")]).expect_err("both");
        assert_eq!(refused.param(), "bg_color");
        assert!(recipe(&[("channels", "alpha"), ("bg_color", "transparent")]).is_ok());
        assert_eq!(recipe(&[("bg_color", "transparent")]).expect("valid").background, None);
        assert_eq!(recipe(&[("bg_color", "#ff000080")]).expect("valid").background, Some(Color([255, 0, 0, 128])));
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        for (name, value) in [
            ("format", "avi"),
            ("channels", "rgb"),
            ("smoothing", "101"),
            ("smoothing", "-1"),
            ("audio", "maybe"),
            ("bg_color", "redd"),
            ("webhook_url", "http://example.org/"),
            ("webhook_url", "https://user@example.org/"),
            ("fps", "30"),
        ] {
            assert_eq!(recipe(&[(name, value)]).expect_err(value).param(), name, "{value}");
        }
    }

    #[test]
    fn names_and_media_types_of_formats_are_unique() {
        for (at, one) in VideoFormat::ALL.iter().enumerate() {
            assert_eq!(VideoFormat::parse(one.name()), Some(*one));
            for other in &VideoFormat::ALL[..at] {
                assert!(one.name() != other.name() && one.media_type() != other.media_type());
                assert_ne!(one.extension(), other.extension());
            }
        }
    }
}
