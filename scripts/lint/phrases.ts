/** A phrase to reword, and the line on which it was found. */
export type FoundPhrase = { line: number; phrase: string };

/**
 * Reads a list of phrases, with one regular expression per line. Lines that begin with `#` are comments.
 * @throws SyntaxError for a line that is not a regular expression
 */
export function readPhrases(list: string): RegExp {
  const patterns = list.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
  return new RegExp(patterns.map((pattern) => `(?:${pattern.replaceAll(" ", "\\s+")})`).join("|"), "gi");
}

/** Matches a line break with the comment marker that follows it. */
const lineStart = /\n[ \t]*(?:\*(?!\/)|\/\/+|--)?/g;

/** Finds phrases in a source file or document, including phrases that span two lines. */
export function findPhrases(text: string, phrases: RegExp): FoundPhrase[] {
  // Pads each replaced line start to its old length, so that positions stay the same.
  const joined = text.replace(lineStart, (start) => "\n".padEnd(start.length));
  return [...joined.matchAll(phrases)].map(({ 0: phrase, index }) => ({
    line: text.slice(0, index).split("\n").length,
    phrase: phrase.replace(/\s+/g, " "),
  }));
}
