//! The product catalog as a pure function of the row index.
//!
//! `bench/ttl/CATALOG.md` is the definition; `bench/ttl/generator.js` is the twin in Node, and
//! both are held to the digests of that page.

use std::fmt::Write as _;

use model::Timestamp;
use model::calendar::iso_ms;
use serde_json::Value;

use super::words::{
    ADJECTIVES, BRANDS, CATEGORIES, CLAIMS, ENDINGS, MAILBOXES, NOUNS, OPENINGS, TAGS,
};

/// No product is released after this instant: 2026-01-01T00:00:00Z, in seconds since 1970.
const RELEASED_BEFORE_S: i64 = 1_767_225_600;
/// Four years of 365 days: the span releases are drawn from, in seconds.
const RELEASED_SPAN_S: u32 = 4 * 365 * 86_400;
/// Drawn for every row, however many are kept.
const SENTENCES_DRAWN: usize = 5;
/// Drawn for every row, however many are kept.
const TAGS_DRAWN: usize = 4;

/// One row of the catalog. Decimals are kept as whole numbers, so that no digit depends on how
/// a language prints floats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    /// Position in the catalog, from 0.
    pub index: u32,
    /// `name`
    pub name: String,
    /// `description`
    pub description: String,
    /// `sku`, unique in the catalog
    pub sku: String,
    /// `category`
    pub category: &'static str,
    /// `brand`
    pub brand: &'static str,
    /// `price` in hundredths
    pub price_cents: u32,
    /// `stock`, 0 to 500
    pub stock: u32,
    /// `rating` in tenths, 20 to 50
    pub rating_tenths: u32,
    /// `reviewCount`, 0 to 8000
    pub review_count: u32,
    /// `manufacturerEmail`
    pub manufacturer_email: String,
    /// `manufacturerUrl`
    pub manufacturer_url: String,
    /// `releasedAt`
    pub released: Timestamp,
    /// `warehouseIp`
    pub warehouse_ip: String,
    /// `tags`
    pub tags: Vec<&'static str>,
}

/// The draws of one row: mulberry32, started from the row's number.
struct Draws {
    state: u32,
}

impl Draws {
    fn new(index: u32) -> Draws {
        Draws {
            state: index.wrapping_add(1).wrapping_mul(0x9E37_79B1),
        }
    }

    fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x6D2B_79F5);
        let t = self.state;
        let t = (t ^ (t >> 15)).wrapping_mul(t | 1);
        let t = t ^ t.wrapping_add((t ^ (t >> 7)).wrapping_mul(t | 0x3D));
        t ^ (t >> 14)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.next() % bound
    }

    fn pick<'a, const N: usize>(&mut self, list: &[&'a str; N]) -> &'a str {
        list[self.below(N as u32) as usize]
    }

    fn description(&mut self) -> String {
        let count = 3 + self.below(3) as usize;
        let sentences: [String; SENTENCES_DRAWN] = std::array::from_fn(|_| {
            let opening = self.pick(&OPENINGS);
            let claim = self.pick(&CLAIMS);
            let ending = self.pick(&ENDINGS);
            format!("{opening} {claim} {ending}.")
        });
        sentences[..count].join(" ")
    }

    fn tags(&mut self) -> Vec<&'static str> {
        let count = self.below(5) as usize;
        let mut place = self.below(TAGS.len() as u32);
        let mut tags = vec![TAGS[place as usize]];
        // Three steps of at most 5 stay within 15 places, so the four tags are distinct.
        for _ in 1..TAGS_DRAWN {
            place = (place + 1 + self.below(5)) % TAGS.len() as u32;
            tags.push(TAGS[place as usize]);
        }
        tags.truncate(count);
        tags
    }
}

/// The id of row `index`: `product-00000`, `product-00001`, …
pub fn row_id(index: u32) -> String {
    format!("product-{index:05}")
}

impl Product {
    /// Row `index` of the catalog. The order of the draws is the definition's.
    pub fn new(index: u32) -> Product {
        let mut draws = Draws::new(index);
        let category_idx = draws.below(CATEGORIES.len() as u32) as usize;
        let category = CATEGORIES[category_idx];
        let brand = draws.pick(&BRANDS);
        let adjective = draws.pick(&ADJECTIVES);
        let noun = draws.pick(&NOUNS[category_idx]);
        let model_number = 100 + draws.below(900);
        let description = draws.description();
        let lot = 1_000 + draws.below(9_000);
        let price_cents = 500 + draws.below(49_501);
        let stock = draws.below(501);
        let rating_tenths = 20 + draws.below(31);
        let review_count = draws.below(8_001);
        let mailbox = draws.pick(&MAILBOXES);
        let released_s = RELEASED_BEFORE_S - i64::from(draws.below(RELEASED_SPAN_S));
        let octets = [draws.below(256), draws.below(256), 1 + draws.below(254)];
        let tags = draws.tags();

        let sku = format!("{}-{lot}-{index:05}", category[..3].to_ascii_uppercase());
        let host = format!("{}.example.com", brand.to_ascii_lowercase());
        Product {
            index,
            name: format!("{brand} {adjective} {noun} {model_number}"),
            description,
            category,
            brand,
            price_cents,
            stock,
            rating_tenths,
            review_count,
            manufacturer_email: format!("{mailbox}@{host}"),
            manufacturer_url: format!("https://www.{host}/{category}/{}", sku.to_ascii_lowercase()),
            released: Timestamp(released_s * 1_000_000),
            warehouse_ip: format!("10.{}.{}.{}", octets[0], octets[1], octets[2]),
            tags,
            sku,
        }
    }

    /// Its fifteen columns, without its id.
    pub fn columns(&self) -> Value {
        let mut row: Value = serde_json::from_str(&self.json()).expect("a product writes JSON");
        row.as_object_mut().expect("it is one").remove("$id");
        row
    }

    /// The row as the definition's canonical JSON: `$id` and the fifteen columns, no spaces.
    pub fn json(&self) -> String {
        let mut out = String::with_capacity(900);
        let mut text = |key: &str, value: &str| {
            // No character of the catalog needs an escape; a test reads each row back.
            write!(out, r#""{key}":"{value}","#).expect("writing to a string cannot fail");
        };
        text("$id", &row_id(self.index));
        text("name", &self.name);
        text("description", &self.description);
        text("sku", &self.sku);
        text("category", self.category);
        text("brand", self.brand);
        let tags: Vec<String> = self.tags.iter().map(|tag| format!(r#""{tag}""#)).collect();
        format!(
            concat!(
                r#"{{{}"price":{},"stock":{},"rating":{},"reviewCount":{},"#,
                r#""manufacturerEmail":"{}","manufacturerUrl":"{}","releasedAt":"{}","#,
                r#""warehouseIp":"{}","tags":[{}],"inStock":{}}}"#
            ),
            out,
            decimal(self.price_cents, 100),
            self.stock,
            decimal(self.rating_tenths, 10),
            self.review_count,
            self.manufacturer_email,
            self.manufacturer_url,
            iso_ms(self.released),
            self.warehouse_ip,
            tags.join(","),
            self.stock > 0,
        )
    }
}

/// `units / scale` without trailing zeros, and without a point when it is whole. `scale` is a
/// power of ten.
fn decimal(units: u32, scale: u32) -> String {
    let (mut rest, mut scale, whole) = (units % scale, scale, units / scale);
    if rest == 0 {
        return whole.to_string();
    }
    while rest.is_multiple_of(10) {
        (rest, scale) = (rest / 10, scale / 10);
    }
    format!("{whole}.{rest:0width$}", width = scale.ilog10() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::secret::hex;

    fn canonical(rows: u32) -> String {
        let rows: Vec<String> = (0..rows).map(|index| Product::new(index).json()).collect();
        format!("[{}]", rows.join(","))
    }

    #[track_caller]
    fn check(rows: u32, bytes: usize, sha256: &str) {
        let text = canonical(rows);
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        assert_eq!(
            (text.len(), hex(digest.as_ref()).as_str()),
            (bytes, sha256),
            "{rows} rows"
        );
    }

    #[test]
    fn the_first_rows_have_the_digests_of_the_definition() {
        check(
            100,
            78_967,
            "af510a5b13dec9103fd786801e5dbb275e16236b7f62c9f5ecc000afc1151985",
        );
        check(
            10_000,
            7_889_721,
            "18de71a439fdd2ba1604bd35fc2dab2e580ef03141a98b3b382dc6b4363cb74e",
        );
    }

    #[test]
    fn the_definition_shows_row_0_and_these_digests() {
        let page = include_str!("../../../ttl/CATALOG.md");
        assert!(page.contains(&format!("\n{}\n", Product::new(0).json())));
        assert!(page.contains("af510a5b13dec9103fd786801e5dbb275e16236b7f62c9f5ecc000afc1151985"));
        assert!(page.contains("18de71a439fdd2ba1604bd35fc2dab2e580ef03141a98b3b382dc6b4363cb74e"));
    }

    #[test]
    fn draws_follow_the_mulberry32_sequence() {
        let mut draws = Draws::new(0);
        let first = [draws.next(), draws.next(), draws.next()];
        assert_eq!(first, [2_347_010_974, 1_973_779_238, 1_061_036_011]);
    }

    #[test]
    fn decimals_drop_trailing_zeros_and_the_point() {
        let written = [(49_160, 100), (500, 100), (505, 100), (35, 10), (40, 10)]
            .map(|(units, scale)| decimal(units, scale));
        assert_eq!(written, ["491.6", "5", "5.05", "3.5", "4"]);
    }

    #[test]
    fn every_row_is_json_and_every_sku_is_its_own() {
        let mut skus = std::collections::HashSet::new();
        for index in 0..2_000 {
            let row: serde_json::Value = serde_json::from_str(&Product::new(index).json()).unwrap();
            assert_eq!(row.as_object().unwrap().len(), 16);
            assert!(
                skus.insert(row["sku"].as_str().unwrap().to_owned()),
                "row {index}"
            );
        }
    }
}
