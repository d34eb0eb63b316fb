// Rich text blocks to DOM nodes: sections, lists, preformatted text, quotes.

import { date, element, emoji, link, mention } from "./mrkdwn.js";

function bare(run, names) {
  switch (run.type) {
    case "text": return document.createTextNode(run.text);
    case "link": return link(run.url, run.text);
    case "emoji": return document.createTextNode(emoji(run.name));
    case "user": return mention("@", run.user_id, names);
    case "channel": return mention("#", run.channel_id, names);
    case "usergroup": return mention("S", run.usergroup_id, names);
    case "broadcast": return element("span", "mention loud", `@${run.range}`);
    case "date": return date(run.timestamp, run.format);
    default: return document.createTextNode(run.value ?? "");
  }
}

function styled(run, names) {
  const tags = { bold: "b", italic: "i", strike: "s", code: "code", underline: "u" };
  return Object.entries(tags).reduce(
    (node, [style, tag]) => (run.style?.[style] ? element(tag, "", node) : node),
    bare(run, names),
  );
}

function part(node, names) {
  const runs = () => node.elements.map((run) => styled(run, names));
  switch (node.type) {
    case "rich_text_preformatted": return element("pre", "", ...runs());
    case "rich_text_quote": return element("blockquote", "", ...runs());
    case "rich_text_list": {
      const list = element(node.style === "ordered" ? "ol" : "ul", `indent-${node.indent ?? 0}`);
      list.append(...node.elements.map((item) => element("li", "", part(item, names))));
      return list;
    }
    default: return element("div", "text", ...runs());
  }
}

export const richText = (block, names) =>
  element("div", "rich", ...block.elements.map((node) => part(node, names)));
