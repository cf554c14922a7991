/**
 * Control, format and other invisible characters: ECMA-48 escape sequences begin with them, and they can begin a line,
 * reorder or hide text (Unicode TR36, 3.4).
 */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu;

/** Returns text that a terminal shows as it is, on one line: each unprintable character becomes its code, such as \\u001b. */
export function escapeUnprintable(text: string): string {
  return text.replaceAll(unprintable, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
