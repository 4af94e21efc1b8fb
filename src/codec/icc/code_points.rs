//! Colour descriptions by code points (ITU-T H.273): PNG's `cICP`, HEIF's `nclx`.

use super::high_range::HighRange;
use moxcms::{
    CicpColorPrimaries, CicpProfile, ColorProfile, MatrixCoefficients, ToneReprCurve, TransferCharacteristics,
};

/// The code points of a picture whose samples have the full range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::codec) struct CodePoints {
    pub(in crate::codec) primaries: u8,
    pub(in crate::codec) transfer: u8,
}

impl CodePoints {
    /// Whether the samples have a high dynamic range: PQ or HLG.
    const fn has_high_range(self) -> bool {
        matches!(self.transfer, 16 | 18)
    }

    /// The profile of a standard dynamic range; `None` for unspecified or reserved code points. BT.709's curve with
    /// BT.709's primaries is taken as sRGB, as photo viewers do.
    pub(super) fn profile(self) -> Option<ColorProfile> {
        let is_srgb = self.primaries == 1 && matches!(self.transfer, 1 | 6 | 13 | 14 | 15);
        (!is_srgb && !self.has_high_range()).then(|| self.profile_of(self.transfer)).flatten()
    }

    /// The conversion of PQ or HLG; `None` for a standard dynamic range.
    pub(super) fn high_range(self) -> Option<HighRange> {
        // The matrix depends on the primaries alone.
        let matrix = || Some(self.profile_of(8)?.transform_matrix(&ColorProfile::new_srgb()));
        self.has_high_range().then(|| Some(HighRange::new(self.transfer == 18, &matrix()?))).flatten()
    }

    fn profile_of(self, transfer: u8) -> Option<ColorProfile> {
        let transfer_characteristics = TransferCharacteristics::try_from(transfer).ok()?;
        ToneReprCurve::try_from(transfer_characteristics).ok()?;
        let mut profile = ColorProfile::new_from_cicp(CicpProfile {
            color_primaries: CicpColorPrimaries::try_from(self.primaries).ok()?,
            transfer_characteristics,
            matrix_coefficients: MatrixCoefficients::Identity,
            full_range: true,
        });
        // For unspecified primaries the colour engine leaves the profile unchanged, without curves.
        profile.red_trc.as_ref()?;
        // The curves already contain the code points.
        profile.cicp = None;
        Some(profile)
    }
}
