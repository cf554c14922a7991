/**
 * A text as people read it off a page and type it again, and as mails name it: spaces in a row, those that do not break,
 * and whatever ends a line or shows nothing are one space.
 */
export function asShown(text: string): string {
  return text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim();
}
