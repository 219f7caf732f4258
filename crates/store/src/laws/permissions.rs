//! Permissions of rows as texts, and as what each role may do.

use model::{Action, Permission};

/// Grants as the JSON array of strings in which they are stored and shown.
///
/// Role names hold letters, digits and `_ . - : /` only, so the quotes around a role are all
/// there is to escape.
pub(crate) fn permissions_text(permissions: &[Permission]) -> String {
    let mut text = String::with_capacity(2 + permissions.len() * 24);
    text.push('[');
    for (position, permission) in permissions.iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        text.push('"');
        text.push_str(permission.action.as_str());
        text.push_str("(\\\"");
        text.push_str(permission.role.as_str());
        text.push_str("\\\")\"");
    }
    text.push(']');
    text
}

/// The same of grants as they are stored: the bits of each role's actions.
pub(crate) fn granted_text(grants: &[(String, i64)]) -> String {
    const ACTIONS: [Action; 4] = [Action::Read, Action::Create, Action::Update, Action::Delete];
    let mut text = String::from("[");
    for (role, bits) in grants {
        for action in ACTIONS.iter().filter(|action| bits & action.bit() != 0) {
            if text.len() > 1 {
                text.push(',');
            }
            text.push('"');
            text.push_str(action.as_str());
            text.push_str("(\\\"");
            text.push_str(role);
            text.push_str("\\\")\"");
        }
    }
    text.push(']');
    text
}

/// What each role may do, as one row of grants: the bits of its actions, in the order in which
/// the roles first appear.
pub(crate) fn grants(permissions: &[Permission]) -> Vec<(&str, i64)> {
    let mut grants: Vec<(&str, i64)> = Vec::with_capacity(permissions.len());
    for permission in permissions {
        let role = permission.role.as_str();
        let bit = permission.action.bit();
        match grants.iter_mut().find(|(known, _)| *known == role) {
            Some((_, bits)) => *bits |= bit,
            None => grants.push((role, bit)),
        }
    }
    grants
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Grantee;

    #[test]
    fn grants_are_shown_as_sent_and_stored_by_role() {
        let texts = ["read(\"any\")", "write(\"team:red/owner\")"];
        let permissions = Grantee::Row.parse(texts).unwrap();
        assert_eq!(
            permissions_text(&permissions),
            r#"["read(\"any\")","update(\"team:red/owner\")","delete(\"team:red/owner\")"]"#
        );
        assert_eq!(grants(&permissions), [("any", 1), ("team:red/owner", 12)]);
        assert_eq!(permissions_text(&[]), "[]");
        let stored: Vec<(String, i64)> = grants(&permissions)
            .into_iter()
            .map(|(role, bits)| (role.to_owned(), bits))
            .collect();
        assert_eq!(granted_text(&stored), permissions_text(&permissions));
    }
}
