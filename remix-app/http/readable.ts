/**
 * Matches characters that are invisible, break a line, or reverse the text after them. Joiners are allowed, because
 * scripts and emoji need them.
 */
const invisible = /[\p{Cc}\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/u;
/** Matches anything but spaces, controls, joiners, and letters without a visible glyph. */
const visible = /[^\s\p{Cc}\p{Default_Ignorable_Code_Point}\u2800]/u;

/** Returns whether a text, which may have several lines, has a character that can be seen. */
export function hasVisibleCharacter(text: string): boolean {
  return visible.test(text);
}

/**
 * Returns whether a name is one line of whole, visible characters. Names are shown to other people, and a name with
 * other characters could be mistaken for another person's.
 */
export function isReadable(name: string): boolean {
  return name.isWellFormed() && visible.test(name) && !invisible.test(name);
}
