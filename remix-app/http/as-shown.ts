/** A text as people read it off a page and type it again: spaces in a row, and those that do not break, are one space. */
export function asShown(text: string): string {
  return text.trim().replaceAll(/\s+/g, " ");
}
