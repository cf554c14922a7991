import { withoutLinks } from "./inert-text.ts";

export interface Mail {
  to: string;
  /** One line, sentence case, the heading too. Fixed words: a name in it would read as ours. */
  subject: string;
  /** Paragraphs, a blank line between them. Names and other values go in by `quoted`. */
  text: string;
}

const url = /(https?:\/\/[^\s<>"]*[^\s<>".,;:!?)])/;

/**
 * Renders a mail as text and as HTML. URLs on our own origin are links; nothing else becomes one, in either body. The
 * HTML looks like supabase/templates: a heading and paragraphs, nothing loaded from anywhere.
 * @param options.origin ours, as `https://gatehouse.example`
 */
export function mailBody(
  { subject, text }: Pick<Mail, "subject" | "text">,
  { origin }: { origin: string },
): { text: string; html: string } {
  const pieces = text.split(url).map((piece) => {
    const isOwn = piece.startsWith(`${origin}/`);
    return { words: isOwn ? piece : withoutLinks(piece), isOwn };
  });
  const paragraphs = pieces
    .map(({ words, isOwn }) => (isOwn ? `<a href="${escaped(words)}">${escaped(words)}</a>` : escaped(words)))
    .join("")
    .trim()
    .split(/\n{2,}/)
    .map((paragraph) => `<p>${paragraph.replaceAll("\n", "<br>\n")}</p>`);
  return {
    text: pieces.map(({ words }) => words).join(""),
    html: [`<h2>${escaped(subject)}</h2>`, ...paragraphs, ""].join("\n"),
  };
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
