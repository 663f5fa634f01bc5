#!/usr/bin/env python3
"""A preprocessor of mdBook: links from pages to files of the repository that are no pages.

With REPOSITORY in the environment, such as https://github.com/OWNER/NAME/blob/main, they lead
there. Without it the text of the link stays, with the path of the file beside it.
"""
import json
import os
import posixpath
import re
import sys

# A link in the text, but no image and none with an address of its own.
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def outside(page, target):
    """Returns the path in the repository, if a link of this page leads out of docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") else path


def rewritten(page, text, address):
    def link(found):
        path = outside(page, found[2])
        if path is None:
            return found[0]
        if address:
            return f"[{found[1]}]({address.rstrip('/')}/{path}{found[3] or ''})"
        shown = found[1]
        return shown if path in shown else f"{shown} (`{path}`)"

    return LINK.sub(link, text)


def walk(node, address):
    if isinstance(node, dict):
        chapter = node.get("Chapter")
        if chapter and chapter.get("path"):
            chapter["content"] = rewritten(chapter["path"], chapter["content"], address)
        for value in node.values():
            walk(value, address)
    elif isinstance(node, list):
        for value in node:
            walk(value, address)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    walk(book, os.environ.get("REPOSITORY"))
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
