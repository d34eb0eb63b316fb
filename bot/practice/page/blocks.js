// Layout blocks and their elements to DOM nodes.

import { element, link, mrkdwn, plain, words } from "./mrkdwn.js";
import { richText } from "./rich_text.js";

const MENUS = new Set(["static_select", "overflow", "radio_buttons"]);

function image(block) {
  // Pictures from elsewhere are not fetched; their words and address stand for them.
  const label = block.alt_text || "picture";
  return element("p", "picture", block.image_url ? link(block.image_url, `🖼 ${label}`) : `🖼 ${label}`);
}

function button(item, act) {
  const made = element("button", `press ${item.style ?? ""}`, plain(item.text.text).textContent);
  made.type = "button";
  made.dataset.action = item.action_id;
  made.addEventListener("click", () => {
    if (item.url) window.open(item.url, "_blank", "noopener");
    act(item, {}, made);
  });
  return made;
}

function menu(item, act) {
  const made = element("select", "press");
  const hint = item.placeholder?.text ?? (item.type === "overflow" ? "⋯" : "Choose…");
  made.append(new Option(hint, ""));
  made.append(...(item.options ?? []).map((option) => new Option(option.text.text, option.value)));
  made.setAttribute("aria-label", hint);
  made.addEventListener("change", () => made.value && act(item, { option: made.value }, made));
  return made;
}

function interactive(item, act) {
  if (item.type === "button") return button(item, act);
  if (MENUS.has(item.type)) return menu(item, act);
  if (item.type === "image") return image(item);
  return element("span", "unshown", `[${item.type}]`);
}

function section(block, names, act) {
  const body = element("div", "section-body");
  if (block.text) body.append(words(block.text, names));
  if (block.fields) {
    body.append(element("div", "fields", ...block.fields.map((field) => words(field, names))));
  }
  const made = element("div", "section", body);
  if (block.accessory) made.append(interactive(block.accessory, act));
  return made;
}

function table(block, names) {
  const align = (column) => block.column_settings?.[column]?.align ?? "left";
  const rows = block.rows.map((row, index) =>
    element("tr", "", ...row.map((cell, column) => {
      const content = cell.type === "rich_text" ? richText(cell, names) : cell.text;
      return element(index === 0 ? "th" : "td", `align-${align(column)}`, content);
    })));
  return element("div", "table", element("table", "", ...rows));
}

function context(block, names) {
  const items = block.elements.map((item) =>
    item.type === "image" ? image(item) : words(item, names));
  return element("div", "context", ...items);
}

const RENDER = {
  section,
  table,
  context,
  image,
  header: (block) => element("h3", "header", plain(block.text.text).textContent),
  divider: () => element("hr"),
  rich_text: richText,
  markdown: (block) => element("div", "text", block.text),
  actions: (block, _names, act) =>
    element("div", "actions", ...block.elements.map((item) => interactive(item, act))),
};

/** `act(element, {option}, node)` is called for a press. */
export function renderBlock(block, names, act) {
  const render = RENDER[block.type];
  const made = render ? render(block, names, act) : element("div", "unshown", `[${block.type}]`);
  made.dataset.block = block.type;
  return made;
}

export function renderMessageBody(message, names, act) {
  if (message.blocks.length) {
    return element("div", "blocks", ...message.blocks.map((block) => renderBlock(block, names, act)));
  }
  return message.text ? mrkdwn(message.text, names) : null;
}
