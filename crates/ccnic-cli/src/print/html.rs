//! What the pages of `demo` and `reproduce` share: the frame, which fits screens from a phone's on, and
//! quoting.

/// The rules of both pages. Tables and pictures that are wider than the screen scroll within their own boxes.
const STYLE: &str = "*{box-sizing:border-box}\
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222;overflow-wrap:break-word}\
h1{font-size:1.6rem;line-height:1.25;margin-bottom:.2rem}h2{font-size:1.25rem;margin:2.6rem 0 .2rem}\
p.sub{color:#666;margin:.2rem 0 1rem}.scroll{overflow-x:auto}\
table{border-collapse:collapse;width:100%;font-size:.92rem}\
th,td{padding:.35rem .6rem;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}th{vertical-align:bottom}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.n,th.n{white-space:nowrap}\
figure{margin:1.2rem 0}figure svg{display:block;width:100%;height:auto}figcaption{color:#555;font-size:.9rem}\
a{color:#0060a0;text-decoration:none}a:hover{text-decoration:underline}";

/// A page. `style` are rules of its own.
pub fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\
         <style>{STYLE}{style}</style></head>\n<body>\n{body}</body></html>\n",
        escape(title)
    )
}

/// A text as part of a page.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A text with names between backticks, as part of a page.
pub fn prose(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escape).collect();
    if parts.len().is_multiple_of(2) {
        return escape(text); // one has no other end
    }
    let part = |(at, part): (usize, &String)| {
        if !at.is_multiple_of(2) { format!("<code>{part}</code>") } else { part.clone() }
    };
    parts.iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_between_backticks_are_code() {
        assert_eq!(prose("a `b<c` d"), "a <code>b&lt;c</code> d");
        assert_eq!((prose("a ` b"), prose("`x`")), ("a ` b".to_owned(), "<code>x</code>".to_owned()));
    }

    #[test]
    fn names_cannot_break_the_page() {
        assert_eq!(escape("<a&b>"), "&lt;a&amp;b&gt;");
        assert!(page("a<b", "", "").contains("<title>a&lt;b</title>"));
    }
}
