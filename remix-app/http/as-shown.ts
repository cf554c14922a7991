/**
 * Normalizes text for comparison with what people read on a page and type again, and for names in emails. Turns each
 * run of spaces, including non-breaking ones, line ends and invisible control characters into one space.
 */
export function asShown(text: string): string {
  return text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim();
}
