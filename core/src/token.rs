/// What the tokens of HTTP are made of: header names, media types, parameters (RFC 9110, section 5.6.2).
pub(crate) fn is_token_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
