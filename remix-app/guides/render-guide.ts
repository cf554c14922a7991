import { Marked, type Token } from "marked";

/** A part of a guide: HTML, or code that the page shows with a button that copies it. */
export type GuideBlock = { html: string } | { code: string; label: string; section: string };

export interface Guide {
  /** The title's id. */
  id: string;
  title: string;
  /** The headings of the second level, for the list of the page's contents. */
  sections: readonly { id: string; text: string }[];
  blocks: readonly GuideBlock[];
}

/** Returns a link's target on the site or the web, or null to show only the link's text. */
export type ResolveLink = (href: string) => string | null;

/**
 * Renders one of our own documents. Headings have the ids that GitHub gives them. A table's row that begins with a
 * name in backticks, such as an error code, has the name as its id. If an earlier row has the same name, the id begins
 * with the section's id and a hyphen.
 */
export function renderGuide(markdown: string, resolveLink: ResolveLink): Guide {
  const ids = new Set<string>();
  const sections: { id: string; text: string }[] = [];
  const current = { id: "", title: "" };

  const takeId = (candidates: readonly string[]): string | undefined => {
    const id = candidates.find((candidate) => !ids.has(candidate));
    if (id !== undefined) ids.add(id);
    return id;
  };
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const slug = slugOf(text);
        const id = takeId([slug, ...Array.from({ length: 9 }, (_, index) => `${slug}-${index + 1}`)]) ?? "";
        const title = this.parser.parseInline(tokens, this.parser.textRenderer);
        Object.assign(current, { id, title });
        if (depth === 2) sections.push({ id, text: title });
        return `<h${depth} id="${id}">${this.parser.parseInline(tokens)}</h${depth}>`;
      },
      link({ href, tokens }) {
        const target = resolveLink(href);
        const html = this.parser.parseInline(tokens);
        return target === null ? html : `<a class="link" href="${escapeHtml(target)}">${html}</a>`;
      },
      table({ header, rows }) {
        const heads = header.map(({ tokens, text }) =>
          text === "" ? "<td></td>" : `<th scope="col">${this.parser.parseInline(tokens)}</th>`,
        );
        const body = rows.map((row) => {
          const [, name] = /^`([A-Za-z]\w*)`$/.exec(row[0]?.text ?? "") ?? [];
          const id = name && takeId([name, `${current.id}-${name}`]);
          const cells = row.map(({ tokens }) => `<td>${this.parser.parseInline(tokens)}</td>`);
          return `<tr${id ? ` id="${id}"` : ""}>${cells.join("")}</tr>`;
        });
        const table = `<table><thead><tr>${heads.join("")}</tr></thead><tbody>${body.join("")}</tbody></table>`;
        // A region that scrolls must be within the keyboard's reach.
        const label = escapeHtml(`Table: ${current.title}`);
        return `<div class="guide-table" role="group" aria-label="${label}" tabindex="0">${table}</div>`;
      },
      // Code of a list item. Other code becomes a block of its own.
      code: ({ text }) => `<pre tabindex="0"><code>${escapeHtml(text)}</code></pre>`,
      html: () => "",
    },
  });

  const tokens = marked.lexer(markdown);
  const title = tokens.find((token) => token.type === "heading" && token.depth === 1);
  const titleText = title && "text" in title ? title.text.replaceAll("`", "") : "";
  const id = takeId([slugOf(titleText)]) ?? "";
  const blocks: GuideBlock[] = [];
  for (const part of splitAtCode(tokens.filter((token) => token !== title))) {
    if (Array.isArray(part)) blocks.push({ html: marked.parser(part) });
    else blocks.push({ code: part.code, label: labelOf(part.language), section: current.title });
  }
  return { id, title: titleText, sections, blocks };
}

type Code = { code: string; language: string };

function splitAtCode(tokens: readonly Token[]): (Token[] | Code)[] {
  const parts: (Token[] | Code)[] = [];
  for (const token of tokens) {
    const last = parts.at(-1);
    if (token.type === "code") parts.push({ code: token.text, language: token.lang?.split(" ")[0] ?? "" });
    else if (Array.isArray(last)) last.push(token);
    else parts.push([token]);
  }
  return parts;
}

const languageLabels: Readonly<Record<string, string>> = {
  ini: "Settings",
  js: "JavaScript",
  json: "JSON",
  jsonc: "JSON",
  mermaid: "Diagram (Mermaid)",
  python: "Python",
  sh: "Shell",
  sql: "SQL",
  ts: "TypeScript",
  tsx: "TypeScript",
};

function labelOf(language: string): string {
  return languageLabels[language] ?? "Text";
}

/** Returns a heading's anchor, as GitHub generates it. */
function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");
}

function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
}
