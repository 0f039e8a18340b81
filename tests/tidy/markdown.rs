//! Pages whose links lead somewhere.

use std::fs;
use std::path::Path;

use crate::assert_tidy;
use crate::files::{root, texts};

#[test]
fn links_between_pages_resolve() {
    let mut complaints = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = root().join(path);
        let folder = folder.parent().unwrap_or_else(|| Path::new("."));
        for (line, target) in links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            let page = if file.is_empty() { root().join(path) } else { folder.join(file) };
            if !page.exists() {
                complaints.push(format!("{path}:{line}: {target} leads nowhere; correct the path"));
            } else if !heading.is_empty() && page.is_file() {
                let page = fs::read_to_string(&page).unwrap_or_default();
                if !headings(&page).iter().any(|found| found == heading) {
                    complaints
                        .push(format!("{path}:{line}: {target}: there is no such heading; correct the part after #"));
                }
            }
        }
    }
    assert_tidy(&complaints);
}

#[test]
fn the_readme_names_both_commands() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap_or_default();
    let complaints: Vec<String> = ["cargo demo", "cargo verify"]
        .iter()
        .filter(|command| !readme.contains(**command))
        .map(|command| format!("README.md: tell newcomers about `{command}`"))
        .collect();
    assert_tidy(&complaints);
}

/// Lines of a page that are prose, with their numbers: what stands in a fence is no Markdown.
fn prose(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

fn links(page: &str) -> Vec<(usize, String)> {
    prose(page)
        .flat_map(|(number, line)| {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
            targets.map(move |target| (number, target.to_owned())).collect::<Vec<_>>()
        })
        .collect()
}

/// Headings as links name them.
fn headings(page: &str) -> Vec<String> {
    prose(page)
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[test]
fn links_and_headings_are_found_outside_fences() {
    let page = "# The `one` page\n\nSee [a](b.md#c) and [d](e).\n```\n[no](link)\n# no heading\n```\n";
    assert_eq!(links(page), [(3, "b.md#c".to_owned()), (3, "e".to_owned())]);
    assert_eq!(headings(page), ["the-one-page"]);
}
