//! Forms that text columns may demand: e-mail addresses, URLs and IP addresses.
//!
//! These decide what is stored, not what is deliverable: an address that the reference product
//! takes must be taken here, so the rules are wide.

/// Longest e-mail address, in characters (RFC 5321, 4.5.3.1.3, less the angle brackets).
pub const EMAIL_CHARS_MAX: usize = 254;
/// Longest URL, in characters (wire protocol, columns of kind `url`).
pub const URL_CHARS_MAX: usize = 2_000;

/// `local@domain`: a local part of 1 to 64 characters without spaces, a domain of labels.
pub fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let local_char = |c: char| c.is_ascii_graphic() && !"@()<>[]:;,\\\"".contains(c);
    text.chars().count() <= EMAIL_CHARS_MAX
        && (1..=64).contains(&local.len())
        && local
            .split('.')
            .all(|atom| !atom.is_empty() && atom.chars().all(local_char))
        && domain.contains('.')
        && is_host_name(domain)
}

/// `scheme://host` with anything after it that holds no space or control character.
pub fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host_and_port = authority.rsplit('@').next().unwrap_or_default();
    text.chars().count() <= URL_CHARS_MAX
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
        && is_host_and_port(host_and_port)
}

/// An IPv4 or IPv6 address without port or prefix length.
pub fn is_ip(text: &str) -> bool {
    text.parse::<core::net::IpAddr>().is_ok()
}

fn is_host_and_port(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, after)) = rest.split_once(']') else {
            return false;
        };
        let port = after.strip_prefix(':');
        return address.parse::<core::net::Ipv6Addr>().is_ok()
            && (after.is_empty() || port.is_some_and(is_port));
    }
    match text.split_once(':') {
        Some((host, port)) => is_host_name(host) && is_port(port),
        None => is_host_name(text),
    }
}

fn is_port(text: &str) -> bool {
    !text.starts_with('+') && text.parse::<u16>().is_ok()
}

/// Labels of letters, digits, hyphens and underscores, or of any letters beyond ASCII: an
/// international name may arrive before it was turned into its ASCII form.
fn is_host_name(text: &str) -> bool {
    let label_char = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(label_char)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emails() {
        for good in [
            "a@b.c",
            "first.last+tag@mail.example.org",
            "o'hara@example.com",
        ] {
            assert!(is_email(good), "{good}");
        }
        let long = format!("{}@example.com", "a".repeat(65));
        for bad in [
            "", "a", "@b.c", "a@", "a@b", "a b@c.d", "a..b@c.d", "a@-b.c", "a@b..c", &long,
        ] {
            assert!(!is_email(bad), "{bad}");
        }
    }

    #[test]
    fn urls() {
        for good in [
            "http://a.b",
            "https://user:pw@host:8080/p?q#f",
            "ftp://[::1]:21/x",
            "a+b://localhost",
        ] {
            assert!(is_url(good), "{good}");
        }
        let long = format!("http://a/{}", "x".repeat(2_000));
        for bad in [
            "",
            "a.b",
            "http://",
            "http:///x",
            "1a://b",
            "http://a b",
            "http://a:x",
            &long,
        ] {
            assert!(!is_url(bad), "{bad}");
        }
    }

    #[test]
    fn ips() {
        for good in ["127.0.0.1", "::1", "2001:db8::ff00:42:8329"] {
            assert!(is_ip(good), "{good}");
        }
        for bad in ["", "256.0.0.1", "1.2.3", "10.0.0.0/8", "[::1]", "::1%eth0"] {
            assert!(!is_ip(bad), "{bad}");
        }
    }
}
