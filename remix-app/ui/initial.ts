const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** The first letter of a name as people see it, whatever it is made of. */
export function initialOf(name: string): string {
  const [first] = graphemes.segment(name.trim());
  return first?.segment ?? "?";
}
