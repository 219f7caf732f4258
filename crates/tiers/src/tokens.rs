//! What many entries depend on: a random token for each name, kept in the tier itself.
//!
//! An entry is stored under a key that contains the tokens read before its value was computed. To
//! forget all entries of a name is to delete its token: the next one that is made is another. A
//! token that the tier loses costs the entries under it and can never bring old ones back, which a
//! counter would do.

use twox_hash::XxHash3_64;

use super::host::Host;
use super::tier::{Lookup, NAME_BYTES, Tier, TierError, TierFault, TokenName};

const TOKEN_BYTES: usize = 16;
/// A token is stored again after this time, since a file overwrites what was written first.
pub const AGAIN_MS: u64 = 10_000;
/// An invalidation may take a token away as soon as it is made; so many do not follow each other by
/// chance.
const TRIES: u32 = 16;
/// What begins the key of a token, so that names and keys of entries may be equal.
const PREFIX: &[u8] = b"token";

/// What stands for the present state of a name.
pub type Token = [u8; TOKEN_BYTES];

/// Its token is another one after any tag was forgotten, which says whether a tag of a value was
/// forgotten while the value was computed: which tags it has is known only then.
const ANY_TAG: &TokenName = b"any tag that some value may have";
/// Tags that one value may have.
pub const OWN_TAGS_MAX: usize = 64;
/// Of one tag in front of a value: its name and its token.
const OWN_TAG_BYTES: usize = NAME_BYTES + TOKEN_BYTES;

/// The key of the token of a name.
pub fn key_of(name: &TokenName) -> Vec<u8> {
    [PREFIX, name].concat()
}

/// Whether this is the key of a token.
pub fn is_key(key: &[u8]) -> bool {
    name_in(key).is_some()
}

/// The name whose token has this key.
pub fn name_in(key: &[u8]) -> Option<TokenName> {
    key.strip_prefix(PREFIX)?.try_into().ok()
}

fn read(tier: &dyn Tier, key: &[u8]) -> Result<FoundToken, TierError> {
    Ok(match tier.get(key)? {
        Lookup::Hit(hit) => match hit.value().try_into() {
            Ok(token) => FoundToken::Token(token, hit.written_ms),
            // Nothing of ours.
            Err(_) => FoundToken::None(tier.ticket(key)?),
        },
        Lookup::Miss(ticket) => FoundToken::None(ticket),
    })
}

enum FoundToken {
    /// The token and when it was written.
    Token(Token, u64),
    None(super::tier::MissTicket),
}

/// The token of a name; one that is missing is made. Of two processes that make one, both read what
/// was stored last.
pub fn token(tier: &dyn Tier, name: &TokenName, host: &Host) -> Result<Token, TierError> {
    let key = key_of(name);
    for _ in 0..TRIES {
        let ticket = match read(tier, &key)? {
            FoundToken::Token(token, written_ms) => {
                if (host.now_ms)().saturating_sub(written_ms) >= AGAIN_MS {
                    keep(tier, &key, token)?;
                }
                return Ok(token);
            }
            FoundToken::None(ticket) => ticket,
        };
        let mut token = [0; TOKEN_BYTES];
        (host.random)(&mut token);
        tier.set(&key, &token, None, Some(ticket))?;
    }
    let text = "what the entry depends on is being forgotten";
    Err(TierError::new(TierFault::Busy, text))
}

fn keep(tier: &dyn Tier, key: &[u8], token: Token) -> Result<(), TierError> {
    let ticket = tier.ticket(key)?;
    // It may have been deleted before the ticket; then this is not the token any more.
    if matches!(read(tier, key)?, FoundToken::Token(found, _) if found == token) {
        match tier.set(key, &token, None, Some(ticket)) {
            // The old record is still there.
            Err(error) if error.fault == TierFault::Busy => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// `key` with the present tokens of `names`; missing ones are made.
pub fn key_with(
    tier: &dyn Tier,
    key: &[u8],
    names: &[TokenName],
    host: &Host,
) -> Result<Vec<u8>, TierError> {
    if let Some(full) = known_key(tier, key, names)? {
        return Ok(full);
    }
    let tokens = names.iter().map(|name| token(tier, name, host));
    let tokens = tokens.collect::<Result<Vec<Token>, TierError>>()?;
    Ok(joined(key, &tokens))
}

/// As [`key_with`], where the tier remembers the tokens and finds that they are still the same.
fn known_key(
    tier: &dyn Tier,
    key: &[u8],
    names: &[TokenName],
) -> Result<Option<Vec<u8>>, TierError> {
    match tier.joint_reads() {
        Some(joint) => joint.key_under(key, names),
        None => Ok(None),
    }
}

/// Whether `full` is still the key that [`key_with`] gave for these names.
pub fn is_current(
    tier: &dyn Tier,
    key: &[u8],
    names: &[TokenName],
    full: &[u8],
) -> Result<bool, TierError> {
    if let Some(known) = known_key(tier, key, names)? {
        return Ok(known == full);
    }
    let mut tokens = Vec::with_capacity(names.len());
    for name in names {
        match read(tier, &key_of(name))? {
            FoundToken::Token(token, _) => tokens.push(token),
            FoundToken::None(_) => return Ok(false),
        }
    }
    Ok(joined(key, &tokens) == full)
}

/// Forgets every entry that depends on `name`, by a notice. Whether there was a token.
pub fn forget(tier: &dyn Tier, name: &TokenName, notice: &[u8]) -> Result<bool, TierError> {
    tier.delete_noted(&key_of(name), notice)
}

/// As [`forget`], of a tag that values may have of their own.
///
/// First the token that stands for all: a writer that finds that one unchanged, after it has read
/// the tag's, has read a token that is deleted after that.
pub fn forget_tag(tier: &dyn Tier, name: &TokenName, notice: &[u8]) -> Result<bool, TierError> {
    tier.delete(&key_of(ANY_TAG))?;
    forget(tier, name, notice)
}

/// What says whether a tag was forgotten since.
pub struct TagWatch(Token);

impl TagWatch {
    /// To be called before the value is computed.
    pub fn begin(tier: &dyn Tier, host: &Host) -> Result<TagWatch, TierError> {
        token(tier, ANY_TAG, host).map(TagWatch)
    }

    /// Whether no tag was forgotten since.
    pub fn is_current(&self, tier: &dyn Tier) -> Result<bool, TierError> {
        let found = read(tier, &key_of(ANY_TAG))?;
        Ok(matches!(found, FoundToken::Token(found, _) if found == self.0))
    }
}

/// The value behind its tags and their present tokens. Missing ones are made.
pub fn with_own_tags(
    tier: &dyn Tier,
    value: &[u8],
    tags: &[TokenName],
    host: &Host,
) -> Result<Vec<u8>, TierError> {
    let count = u8::try_from(tags.len()).ok();
    let count = count.filter(|count| usize::from(*count) <= OWN_TAGS_MAX);
    let Some(count) = count else {
        let text = format!("a value may have {OWN_TAGS_MAX} tags, not {}", tags.len());
        return Err(TierError::new(TierFault::TooLarge, text));
    };
    let mut bytes = Vec::with_capacity(1 + tags.len() * OWN_TAG_BYTES + value.len());
    bytes.push(count);
    for tag in tags {
        bytes.extend(tag);
        bytes.extend(token(tier, tag, host)?);
    }
    bytes.extend(value);
    Ok(bytes)
}

/// The names of the tags in front of a value, and how many bytes they take; `None` if one of them
/// was forgotten since, or these bytes are no value with tags.
pub fn own_tags(
    tier: &dyn Tier,
    bytes: &[u8],
) -> Result<Option<(Vec<TokenName>, usize)>, TierError> {
    let Some((count, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    let length = usize::from(*count) * OWN_TAG_BYTES;
    let Some(tags) = rest.get(..length) else {
        return Ok(None);
    };
    let mut names = Vec::with_capacity((*count).into());
    for tag in tags.as_chunks::<OWN_TAG_BYTES>().0 {
        let (name, held) = tag.split_at(NAME_BYTES);
        let name: TokenName = name.try_into().expect("its length");
        let found = read(tier, &key_of(&name))?;
        if !matches!(found, FoundToken::Token(found, _) if found == held) {
            return Ok(None);
        }
        names.push(name);
    }
    Ok(Some((names, 1 + length)))
}

/// `key` with these tokens.
pub fn joined(key: &[u8], tokens: &[Token]) -> Vec<u8> {
    match tokens {
        [token] => [key, token].concat(),
        // The tokens are random, so that two seeds of a quick hash keep them apart.
        tokens => {
            let all = tokens.concat();
            let hash = |seed| XxHash3_64::oneshot_with_seed(seed, &all).to_le_bytes();
            [key, &hash(0), &hash(1)].concat()
        }
    }
}
