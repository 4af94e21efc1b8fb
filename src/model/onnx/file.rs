//! Reads inputs, outputs, parameters and names of weight files from an ONNX file, without ONNX Runtime.
//!
//! The format is a Protocol Buffers message, `ModelProto` of `onnx.proto`. Only the shapes of weights are read.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

/// Maximum bytes of a name.
const LONGEST_NAME: u64 = 4096;
/// Maximum number of inputs, of outputs, and of tensors of weights.
const MOST_ITEMS: usize = 1 << 16;

/// Names and shapes of a graph's inputs and outputs, and the size of its weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphFile {
    /// Inputs, without those that weights fill.
    pub inputs: Vec<Outlet>,
    /// Outputs.
    pub outputs: Vec<Outlet>,
    /// Number of weights, without integers such as shapes.
    pub parameters: u64,
    /// Names of other files with weights, in the folder of the ONNX file.
    pub data: BTreeSet<String>,
    nodes: usize,
    weights: BTreeSet<String>,
}

/// An input or output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlet {
    /// Name.
    pub name: String,
    /// Dimensions: numbers, or names of free dimensions.
    pub shape: Vec<String>,
}

impl fmt::Display for GraphFile {
    /// `inputs: x [1, 3, 320, 320]; outputs: y [1, 1, 320, 320]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |outlets: &[Outlet]| {
            let one = |Outlet { name, shape }: &Outlet| format!("{name} [{}]", shape.join(", "));
            outlets.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        write!(f, "inputs: {}; outputs: {}", listed(&self.inputs), listed(&self.outputs))
    }
}

/// Why a file cannot be read as ONNX.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A read error.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// The file has another format, or is truncated.
    #[error("not an ONNX file, or truncated")]
    OtherFormat,
    /// The weights are in a file outside of the folder.
    #[error("its weights are in {0:?}, which is not a file name")]
    Data(String),
}

impl GraphFile {
    /// Reads `path`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let file = File::open(path)?;
        let end = file.metadata()?.len();
        let mut graph = Self::default();
        let mut reader = Reader { file: BufReader::new(file), at: 0 };
        let read = reader.message(end, &mut |reader, field, value| match (field, value) {
            (7, Value::Bytes(end)) => graph.read_graph(reader, end),
            _ => Ok(()),
        });
        match read {
            Ok(()) if graph.nodes > 0 => {}
            Err(error) if !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => {
                return Err(error.into());
            }
            Ok(()) | Err(_) => return Err(FileError::OtherFormat),
        }
        graph.inputs.retain(|input| !graph.weights.contains(&input.name));
        match graph.data.iter().find(|name| Path::new(name).file_name() != Some(name.as_str().as_ref())) {
            Some(name) => Err(FileError::Data(name.clone())),
            None => Ok(graph),
        }
    }

    fn read_graph(&mut self, reader: &mut Reader, end: u64) -> io::Result<()> {
        reader.message(end, &mut |reader, field, value| {
            let Value::Bytes(end) = value else { return Ok(()) };
            match field {
                1 => self.nodes += 1,
                5 => self.read_weights(reader, end)?,
                11 => self.inputs.push(Outlet::read(reader, end)?),
                12 => self.outputs.push(Outlet::read(reader, end)?),
                _ => {}
            }
            require(
                [&self.weights.len(), &self.inputs.len(), &self.outputs.len()]
                    .into_iter()
                    .all(|count| *count <= MOST_ITEMS),
            )
        })
    }

    /// A `TensorProto`.
    fn read_weights(&mut self, reader: &mut Reader, end: u64) -> io::Result<()> {
        let (mut numbers, mut is_integer) = (1u64, false);
        reader.message(end, &mut |reader, field, value| {
            match (field, value) {
                (1, Value::Number(side)) => numbers = numbers.saturating_mul(side),
                (1, Value::Bytes(end)) => {
                    while reader.at < end {
                        numbers = numbers.saturating_mul(reader.varint()?);
                    }
                }
                // INT32 and INT64.
                (2, Value::Number(kind)) => is_integer = matches!(kind, 6 | 7),
                (8, Value::Bytes(end)) => {
                    self.weights.insert(reader.text(end)?);
                }
                (13, Value::Bytes(end)) => {
                    let (mut key, mut location) = (String::new(), String::new());
                    reader.message(end, &mut |reader, field, value| {
                        match (field, value) {
                            (1, Value::Bytes(end)) => key = reader.text(end)?,
                            (2, Value::Bytes(end)) => location = reader.text(end)?,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    if key == "location" {
                        self.data.insert(location);
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        if !is_integer {
            self.parameters = self.parameters.saturating_add(numbers);
        }
        Ok(())
    }
}

impl Outlet {
    /// A `ValueInfoProto`.
    fn read(reader: &mut Reader, end: u64) -> io::Result<Self> {
        let mut outlet = Self::default();
        reader.message(end, &mut |reader, field, value| match (field, value) {
            (1, Value::Bytes(end)) => reader.text(end).map(|name| outlet.name = name),
            // Type, tensor, shape, dimension.
            (2, Value::Bytes(end)) => reader.within(end, 1, &mut |reader, end| {
                reader.within(end, 2, &mut |reader, end| {
                    reader.within(end, 1, &mut |reader, end| {
                        let mut side = "?".to_owned();
                        reader.message(end, &mut |reader, field, value| match (field, value) {
                            (1, Value::Number(number)) => {
                                side = number.to_string();
                                Ok(())
                            }
                            (2, Value::Bytes(end)) => reader.text(end).map(|name| side = name),
                            _ => Ok(()),
                        })?;
                        outlet.shape.push(side);
                        require(outlet.shape.len() <= MOST_ITEMS)
                    })
                })
            }),
            _ => Ok(()),
        })?;
        Ok(outlet)
    }
}

/// The value of a field: a number, or bytes that end at this position.
#[derive(Clone, Copy)]
enum Value {
    Number(u64),
    Bytes(u64),
}

/// Reads the value of a field; may leave bytes unread.
type Each<'a> = dyn FnMut(&mut Reader, u64, Value) -> io::Result<()> + 'a;

struct Reader {
    file: BufReader<File>,
    at: u64,
}

impl Reader {
    /// The fields of a message up to `end`.
    fn message(&mut self, end: u64, each: &mut Each<'_>) -> io::Result<()> {
        while self.at < end {
            let tag = self.varint()?;
            let value = match tag & 7 {
                0 => Value::Number(self.varint()?),
                1 => Value::Bytes(self.at.saturating_add(8)),
                2 => Value::Bytes(self.varint()?.saturating_add(self.at)),
                5 => Value::Bytes(self.at.saturating_add(4)),
                _ => return require(false),
            };
            let after = if let Value::Bytes(after) = value { after } else { self.at };
            require(tag >> 3 != 0 && after <= end)?;
            each(self, tag >> 3, value)?;
            require(self.at <= after)?;
            self.file.seek_relative((after - self.at) as i64)?;
            self.at = after;
        }
        require(self.at == end)
    }

    /// The messages in a field of a message, recursively.
    fn within(
        &mut self,
        end: u64,
        wanted: u64,
        each: &mut dyn FnMut(&mut Self, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        self.message(end, &mut |reader, field, value| match value {
            Value::Bytes(end) if field == wanted => each(reader, end),
            Value::Bytes(_) | Value::Number(_) => Ok(()),
        })
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.file.read_exact(&mut byte)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(value);
            }
        }
        require(false).map(|()| value)
    }

    fn text(&mut self, end: u64) -> io::Result<String> {
        let length = end - self.at;
        require(length <= LONGEST_NAME)?;
        let mut bytes = vec![0; length as usize];
        self.file.read_exact(&mut bytes)?;
        self.at = end;
        String::from_utf8(bytes).map_err(|_| ErrorKind::InvalidData.into())
    }
}

fn require(holds: bool) -> io::Result<()> {
    if holds { Ok(()) } else { Err(ErrorKind::InvalidData.into()) }
}
