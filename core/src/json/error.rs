use core::fmt;

/// Where a text stops being strict JSON, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Bytes before the offending one.
    pub offset: usize,
    /// What is wrong there.
    pub reason: JsonReason,
}

/// Why a text is not strict JSON.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonReason {
    /// The text ends inside a value, or holds none.
    UnexpectedEnd,
    /// A byte the grammar does not allow here.
    UnexpectedByte(u8),
    /// A byte order mark, which RFC 8259, section 8.1 forbids to send.
    ByteOrderMark,
    /// Not UTF-8.
    InvalidUtf8,
    /// A control character that stands unescaped in a string.
    ControlCharacter,
    /// A backslash followed by something that is no escape.
    InvalidEscape,
    /// `\uD800` to `\uDFFF` without its other half: it names no character.
    LoneSurrogate,
    /// Digits missing, or a zero too many in front.
    InvalidNumber,
    /// An exponent that does not fit into 64 bits.
    ExponentTooLarge,
    /// A member name that the object already has, compared after unescaping.
    DuplicateMember,
    /// More than [`MAX_NESTING`](super::MAX_NESTING) containers inside each other.
    TooDeep,
    /// Something follows the value.
    TrailingBytes,
    /// Positions are 32 bits wide; 4 GiB are refused.
    TooLong,
}

impl fmt::Display for JsonReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedEnd => "the text ends too early",
            Self::UnexpectedByte(byte) if byte.is_ascii_graphic() => {
                return write!(f, "unexpected `{}`", *byte as char);
            }
            Self::UnexpectedByte(byte) => return write!(f, "unexpected byte 0x{byte:02x}"),
            Self::ByteOrderMark => "a byte order mark",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::ControlCharacter => "an unescaped control character in a string",
            Self::InvalidEscape => "an invalid escape",
            Self::LoneSurrogate => "half of a surrogate pair",
            Self::InvalidNumber => "an invalid number",
            Self::ExponentTooLarge => "an exponent beyond 64 bits",
            Self::DuplicateMember => "a member name that occurs twice",
            Self::TooDeep => "nested more than 128 deep",
            Self::TrailingBytes => "something follows the value",
            Self::TooLong => "longer than 4 GiB",
        })
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.reason, self.offset)
    }
}

impl core::error::Error for JsonError {}
