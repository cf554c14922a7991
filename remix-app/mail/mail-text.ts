/** The parts of an email, in order. Names and other values must pass through `quoteText`. */
export interface MailParts {
  /** Paragraphs that say what happened. */
  news: readonly string[];
  facts?: readonly (readonly [label: string, value: string])[];
  /** The email's only button, which leads to our own origin. */
  action?: { label: string; url: string };
  /** A code to type instead of using the button. */
  code?: { words: string; code: string };
  /** Paragraphs that say when the link or code expires, what happens next, and which alternatives exist. */
  more?: readonly string[];
  /** Paragraphs in small print that say why the email was sent, and what to do if it was unexpected. */
  footer: readonly string[];
}

/** Begins the small print, like a signature (RFC 3676, section 4.3). */
const signatureDelimiter = "-- ";

/** Writes an email as plain text that `parseMailText` can parse, because the outbox stores only text. */
export function mailText({ news, facts = [], action, code, more = [], footer }: MailParts): string {
  return [
    ...news,
    ...(facts.length > 0 ? [facts.map(([label, value]) => `${label}: ${value}`).join("\n")] : []),
    ...(action ? [`${action.label}:\n${action.url}`] : []),
    ...(code ? [code.words, code.code] : []),
    ...more,
    `${signatureDelimiter}\n${footer.join("\n\n")}`,
  ].join("\n\n");
}

export type ParsedPart =
  | { kind: "paragraph"; text: string }
  | { kind: "facts"; facts: { label: string; value: string }[] }
  | { kind: "button"; label: string; url: string }
  | { kind: "code"; code: string };

/** Parses text that `mailText` has written. */
export function parseMailText(text: string): { parts: ParsedPart[]; footer: string[] } {
  const [body = "", ...rest] = text.trim().split(`\n\n${signatureDelimiter}\n`);
  const paragraphs = (words: string) => words.split(/\n{2,}/).filter((paragraph) => paragraph !== "");
  return { parts: paragraphs(body).map(parsePart), footer: paragraphs(rest.join("\n\n")) };
}

function parsePart(text: string): ParsedPart {
  const [, label, url] = /^(.+):\n(https?:\/\/\S+)$/.exec(text) ?? [];
  if (label && url) return { kind: "button", label, url };
  if (/^\d{6,10}$/.test(text)) return { kind: "code", code: text };
  if (text.includes("://")) return { kind: "paragraph", text };
  const facts = text.split("\n").map((line) => /^(\p{Lu}[^:]{0,40}): (.+)$/u.exec(line));
  // A sentence may also contain a colon, but a line of facts never ends with a full stop.
  if (facts.every((fact) => fact !== null) && (facts.length > 1 || !text.endsWith("."))) {
    return { kind: "facts", facts: facts.map(([, name = "", value = ""]) => ({ label: name, value })) };
  }
  return { kind: "paragraph", text };
}
