const maxLength = 24;

/**
 * Shortens a series's name in the middle, because often only the ends of names differ. The legend has the full name; in
 * every tooltip and row, long names would be most of the page.
 */
export function shortenName(name: string): string {
  return name.length > maxLength ? `${name.slice(0, maxLength / 2 - 1)}…${name.slice(-maxLength / 2)}` : name;
}
