const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
/** A first letter of ASCII that nothing joins: to segment takes longer than the list of a name. */
const plainFirst = /^[!-~](?![^ -~])/;

/** The first letter of a name as people see it, whatever it is made of. */
export function initialOf(name: string): string {
  const trimmed = name.trim();
  if (plainFirst.test(trimmed)) return trimmed.charAt(0);
  const [first] = graphemes.segment(trimmed);
  return first?.segment ?? "?";
}
