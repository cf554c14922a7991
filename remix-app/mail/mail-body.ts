export interface Mail {
  to: string;
  /** One line, sentence case; the heading too. */
  subject: string;
  /** Paragraphs, a blank line between them. Addresses in it become links. */
  text: string;
}

/** The mail as HTML, in the manner of supabase/templates: a heading and paragraphs, nothing loaded from anywhere. */
export function mailHtml({ subject, text }: Pick<Mail, "subject" | "text">): string {
  const paragraphs = text
    .trim()
    .split(/\n{2,}/)
    .map((paragraph) => `<p>${linked(escaped(paragraph)).replaceAll("\n", "<br>\n")}</p>`);
  return [`<h2>${escaped(subject)}</h2>`, ...paragraphs, ""].join("\n");
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

function linked(html: string): string {
  return html.replaceAll(/\bhttps?:\/\/(?:&amp;|[^\s&<>"])*[^\s&<>".,;:!?)]/g, (url) => `<a href="${url}">${url}</a>`);
}
