//! Text in HTML pages of our own: listings, redirects.

/// Text in HTML, also inside of quoted attributes.
pub(crate) fn escape_html(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_has_no_way_out_of_text_or_attributes() {
        let mut out = String::new();
        escape_html(r#"<a href="x" title='y'>&"#, &mut out);
        assert_eq!(out, "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;");
    }
}
