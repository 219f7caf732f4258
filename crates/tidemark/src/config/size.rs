//! Sizes as people write them.

/// Capacity of the list cache when it is simply on.
const LIST_CACHE_BYTES: u64 = 256 << 20;

/// `on`, `off`, or a size.
pub fn list_cache_bytes(text: &str) -> Result<u64, String> {
    match text {
        "on" => Ok(LIST_CACHE_BYTES),
        "off" => Ok(0),
        size => size_bytes(size).ok_or_else(|| "needed: on, off, or a size such as 64MiB".into()),
    }
}

/// `64MiB`, `64MB`, `1GiB`, `512KiB` or plain bytes; the short forms mean powers of 1,024, too.
pub fn size_bytes(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        let read = ["off", "on", "4096", "64MiB", "64MB", "2g", "1 KiB"].map(list_cache_bytes);
        let wanted = [0, 256 << 20, 4_096, 64 << 20, 64 << 20, 2 << 30, 1_024].map(Ok);
        assert_eq!(read, wanted);
        for bad in ["", "MiB", "-1", "1TiB", "99999999999GiB"] {
            assert_eq!(size_bytes(bad), None, "{bad}");
        }
    }
}
