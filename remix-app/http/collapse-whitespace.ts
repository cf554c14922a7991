/**
 * Normalizes text for comparison with what people read on a page and type again, and for names in emails. Replaces each
 * run of whitespace (including line breaks and non-breaking spaces) and control characters with one space.
 */
export function collapseWhitespace(text: string): string {
  return text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim();
}
