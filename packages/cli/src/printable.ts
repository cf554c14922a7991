/**
 * Control, format and other invisible characters: ECMA-48 escape sequences begin with them, and they can begin a line,
 * reorder or hide text (Unicode TR36, 3.4).
 */
export const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\u2028\u2029]/gu;

/** Returns text that a terminal shows as it is, on one line: each unprintable character becomes its codes, such as \\u001b. */
export function escapeUnprintable(text: string): string {
  const escapeUnit = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return text.replaceAll(unprintable, (character) => character.split("").map(escapeUnit).join(""));
}
