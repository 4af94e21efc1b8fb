//! Draws plots as inline SVG: lines on linear, logarithmic and percentile axes, and stacked bars. Colours are CSS classes.

const WIDTH: f64 = 760.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
/// Height of the plot of lines, without the axis.
const HEIGHT: f64 = 280.0;
const AXIS: f64 = 46.0;
const BAR: f64 = 26.0;
const BAR_STEP: f64 = 36.0;

/// How values map to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
    /// Shares of 0..1, by the logarithm of what is above them: 0.9, 0.99 and 0.999 are equally far apart.
    Percentile,
}

impl Scale {
    pub(super) fn position(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.log10(),
            Self::Percentile => -(1.0 - value).log10(),
        }
    }
}

/// An axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    label: String,
    scale: Scale,
    /// First and last value.
    ends: [f64; 2],
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From 0 to the largest value.
    pub(super) fn linear(label: &str, largest: f64) -> Self {
        let step = round_step(largest / 6.0);
        let end = (largest / step).ceil().max(1.0) * step;
        let ticks = (0..).map(|i| f64::from(i) * step).take_while(|&value| value <= end * 1.001);
        Self {
            label: label.to_owned(),
            scale: Scale::Linear,
            ends: [0.0, end],
            ticks: ticks.map(|value| (value, plain(value))).collect(),
        }
    }

    /// Decades with 1, 2 and 5, around positive values.
    pub(super) fn log(label: &str, smallest: f64, largest: f64) -> Self {
        let from = smallest.log10().floor() as i32;
        let to = largest.log10().ceil() as i32;
        let all: Vec<f64> = (from..=to).flat_map(|decade| [1.0, 2.0, 5.0].map(|m| m * 10_f64.powi(decade))).collect();
        let start = all.iter().copied().rfind(|&value| value <= smallest).unwrap_or(smallest);
        let end = all.iter().copied().find(|&value| value >= largest).unwrap_or(largest);
        let ticks = all.into_iter().filter(|value| (start..=end).contains(value));
        Self {
            label: label.to_owned(),
            scale: Scale::Log,
            ends: [start, if end > start { end } else { start * 10.0 }],
            ticks: ticks.map(|value| (value, plain(value))).collect(),
        }
    }

    /// Shares up to `last`, which is below 1.
    pub(super) fn percentiles(label: &str, last: f64) -> Self {
        let marks = [0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999];
        let ticks = marks.into_iter().filter(|&share| share <= last);
        Self {
            label: label.to_owned(),
            scale: Scale::Percentile,
            ends: [0.0, last],
            ticks: ticks.map(|share| (share, plain(share * 100.0))).collect(),
        }
    }

    /// The position of a value, 0 to 1 within the axis.
    fn position(&self, value: f64) -> f64 {
        let [start, end] = self.ends.map(|end| self.scale.position(end));
        (self.scale.position(value) - start) / (end - start)
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.position(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        TOP + (1.0 - self.position(value)) * HEIGHT
    }
}

/// A step of 1, 2 or 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * decade).find(|&step| step >= least * 0.999).unwrap_or(decade * 10.0)
}

/// A number of an axis: without trailing zeros.
fn plain(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Points that are joined.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Index of its colour.
    pub(super) colour: usize,
    pub(super) dashed: bool,
    /// Whether each point has a dot.
    pub(super) dots: bool,
}

/// A plot of lines with a legend for those that have a name.
pub(super) fn lines(title: &str, x: &Axis, y: &Axis, lines: &[Line]) -> String {
    let mut svg = begin(title, TOP + HEIGHT + AXIS);
    for (value, label) in &y.ticks {
        let at = y.y(*value);
        svg += &format!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>", WIDTH - RIGHT);
        svg += &format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, at + 4.0);
    }
    x_axis(&mut svg, x, TOP + HEIGHT);
    let middle = TOP + HEIGHT / 2.0;
    svg += &format!(
        "<text class=\"label\" text-anchor=\"middle\" transform=\"translate(16 {middle}) rotate(-90)\">{}</text>",
        escape(&y.label)
    );
    for line in lines {
        let points: Vec<_> = line.points.iter().map(|&(at, value)| (x.x(at), y.y(value))).collect();
        let path: String = points.iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
        let dashed = if line.dashed { " dashed" } else { "" };
        svg += &format!("<polyline class=\"line s{}{dashed}\" points=\"{}\"/>", line.colour, path.trim_end());
        for (x, y) in points.iter().filter(|_| line.dots) {
            svg += &format!("<circle class=\"dot s{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>", line.colour);
        }
    }
    svg.push_str("</svg>");
    let named = lines.iter().filter(|line| !line.name.is_empty());
    svg + &legend(named.map(|line| (line.colour, line.dashed, line.name.clone())))
}

/// One bar of parts: its label, and for each part its colour and value.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) parts: Vec<(usize, f64)>,
}

/// Horizontal stacked bars with a legend of the parts.
pub(super) fn bars(title: &str, x: &Axis, bars: &[Bar], names: impl Iterator<Item = (usize, String)>) -> String {
    let height = BAR_STEP * bars.len() as f64;
    let mut svg = begin(title, TOP + height + AXIS);
    x_axis(&mut svg, x, TOP + height);
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + BAR_STEP * index as f64 + (BAR_STEP - BAR) / 2.0;
        let label = escape(&bar.label);
        svg += &format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 8.0,
            top + BAR / 2.0 + 4.0
        );
        let mut from = 0.0;
        for &(colour, value) in &bar.parts {
            let (left, right) = (x.x(from), x.x(from + value));
            svg += &format!(
                "<rect class=\"fill s{colour}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
                right - left
            );
            from += value;
        }
    }
    svg.push_str("</svg>");
    svg + &legend(names.map(|(colour, name)| (colour, false, name)))
}

fn begin(title: &str, height: f64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escape(title)
    )
}

fn x_axis(svg: &mut String, x: &Axis, bottom: f64) {
    for (value, label) in &x.ticks {
        let at = x.x(*value);
        *svg += &format!("<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
        *svg += &format!("<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", bottom + 18.0);
    }
    *svg += &format!("<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{bottom}\" y2=\"{bottom}\"/>", WIDTH - RIGHT);
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let label = escape(&x.label);
    *svg +=
        &format!("<text class=\"label\" x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", bottom + 38.0);
}

fn legend(entries: impl Iterator<Item = (usize, bool, String)>) -> String {
    let entry = |(colour, dashed, name): (usize, bool, String)| {
        let dashed = if dashed { " dashed" } else { "" };
        format!("<li><span class=\"key s{colour}{dashed}\"></span>{}</li>", escape(&name))
    };
    format!("<ul class=\"legend\">{}</ul>", entries.map(entry).collect::<String>())
}

/// Text for HTML and its attributes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers_that_enclose_the_values() {
        assert_eq!(labels(&Axis::linear("ms", 87.0)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::linear("ms", 0.3)), ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"]);
        assert_eq!(labels(&Axis::log("ms", 70.0, 1900.0)), ["50", "100", "200", "500", "1000", "2000"]);
        assert_eq!(labels(&Axis::percentiles("%", 0.992)), ["0", "50", "75", "90", "95", "99"]);
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
    }
}
