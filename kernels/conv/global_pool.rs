//! Global average pooling, and the sum of a plane with a pooled pixel, on one thread: the planes are small (12×12).

use super::Plane;

/// The mean of each channel, as a plane of one pixel.
///
/// # Panics
/// When `output` is not one pixel with the channels of `input`.
pub fn global_average(input: &Plane, output: &mut Plane) {
    let (from, to) = (input.shape(), output.shape());
    assert_eq!((to.height, to.width, to.channels), (1, 1, from.channels), "output of another shape");
    let means = &mut output.data_mut()[to.margin()..][..from.channels];
    means.fill(0.0);
    for row in input.data().chunks_exact(from.row()) {
        for pixel in row[from.margin()..row.len() - from.margin()].chunks_exact(from.channels) {
            for (mean, value) in means.iter_mut().zip(pixel) {
                *mean += value;
            }
        }
    }
    let scale = 1.0 / (from.height * from.width) as f32;
    for mean in means {
        *mean *= scale;
    }
}

/// `max(x + pixel, 0)` at every pixel of `plane`.
///
/// # Panics
/// When `pixel` is not one pixel with the channels of `plane`.
pub fn add_channels_relu(plane: &mut Plane, pixel: &Plane) {
    let (shape, from) = (plane.shape(), pixel.shape());
    assert_eq!((from.height, from.width, from.channels), (1, 1, shape.channels), "pixel of another shape");
    let added = &pixel.data()[from.margin()..][..shape.channels];
    for row in plane.data_mut().chunks_exact_mut(shape.row()) {
        let end = row.len() - shape.margin();
        for values in row[shape.margin()..end].chunks_exact_mut(shape.channels) {
            for (value, added) in values.iter_mut().zip(added) {
                *value = (*value + added).max(0.0);
            }
        }
    }
}
