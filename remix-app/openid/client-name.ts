import { isReadable } from "../http/readable.ts";

/** Letters of other scripts, phonetic letters, digits and symbols that people read as a Latin letter (Unicode TR 39). */
const lookalikes: Record<string, string> = {
  a: "аɑαᴀ@4ǎ",
  b: "ьвʙβ8ƅᏏ",
  c: "сϲᴄⅽꮯ¢",
  d: "ԁᴅԀđɗ",
  e: "еєҽᴇε3ɛёҿⲉꬲ",
  f: "ꜰƒғϝ",
  g: "ɡɢցԍ9ǥɠᏀ6",
  h: "һнʜհħᏂ",
  i: "іιɪıɩ1lӏ|!ᎥǀןɭłⲒІ",
  j: "јᴊʝϳ",
  k: "кκᴋƙқⲕ",
  m: "мᴍṃΜⅿ",
  n: "пηɴոռŋᴎ",
  o: "оοσᴏ0օөøⲟ๐໐٥ഠо",
  p: "рρᴘƿⲣ",
  q: "ԛզǫɋ",
  r: "гʀгᴦɾɍⲅ",
  s: "ѕꜱ5$ʂƽՏ",
  t: "тτᴛ7ŧƭⲧ",
  u: "υսᴜцʋџ",
  v: "νѵᴠ∨",
  w: "ԝωᴡшѡա",
  x: "хχ×ⲭ",
  y: "уγʏүұ",
  z: "ᴢʐƶ2ⲍ",
};
const latinByLookalike = new Map(
  Object.entries(lookalikes).flatMap(([latin, similarLetters]) =>
    [...similarLetters].flatMap((letter) => [letter, letter.toLowerCase()].map((each) => [each, latin] as const)),
  ),
);
/** Ranges of A to Z that Unicode does not decompose: circled and squared letters, and regional indicators. */
const enclosedAlphabets = [0x1f130, 0x1f150, 0x1f170, 0x1f1e6];
/** Pairs that people read as one letter. */
const ligatures: [RegExp, string][] = [
  [/rn/g, "m"],
  [/vv/g, "w"],
  [/c[il]/g, "d"],
];

/** Replaces, in a skeleton, symbols and Latin letters that are not listed above. People may read them as any letter. */
const wildcardLetter = "?";

/**
 * Returns what people read: lower-case Latin letters without accents, spaces, punctuation and invisible characters.
 * @param options.symbols whether symbols are letters ("Gateh○use") or separators ("Gate★house")
 */
function computeSkeleton(name: string, { symbols }: { symbols: "letters" | "separators" }): string {
  const letters = [...name.normalize("NFKD").toLowerCase().normalize("NFKD")].map((letter) => {
    const point = letter.codePointAt(0) ?? 0;
    const start = enclosedAlphabets.find((first) => point >= first && point < first + 26);
    if (start !== undefined) return String.fromCharCode(0x61 + point - start);
    return latinByLookalike.get(letter) ?? letter;
  });
  const text = letters.map((letter) => latinByLookalike.get(letter) ?? letter).join("");
  const plain =
    symbols === "letters"
      ? text.replace(/[^\p{L}\p{N}\p{S}]/gu, "").replace(/(?![a-z])[\p{S}\p{Script=Latin}]/gu, wildcardLetter)
      : text.replace(/[^\p{L}\p{N}]/gu, "");
  return ligatures.reduce((text, [pair, letter]) => text.replace(pair, letter), plain);
}

/** Scripts with letters that look Latin. A name that mixes them with Latin letters could spell anything. */
const latinLike =
  /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}]/u;

/** The shortest platform name that is looked for inside of other names. Shorter ones are parts of ordinary words. */
const minContainedLength = 5;

/**
 * Returns what is wrong with a client's display name, or null. People decide by this name whether to sign in, so it must
 * not read like the platform's own name, also not as a part ("Acme Support").
 * @param options.platform the platform's name
 */
export function clientNameFault(name: string, { platform }: { platform: string }): string | null {
  if (!isReadable(name)) return "The name has characters that can’t be seen";
  if (/\p{Script=Latin}/u.test(name) && latinLike.test(name))
    return "The name mixes letters of scripts that look alike";
  const own = computeSkeleton(platform, { symbols: "separators" });
  const find = own.length < minContainedLength ? containsWords : containsName;
  const isOwn = find(name, { own, symbols: "separators" }) || find(name, { own, symbols: "letters" });
  return own !== "" && isOwn ? `The name could be mistaken for ${platform} itself` : null;
}

interface NameSearch {
  own: string;
  symbols: "letters" | "separators";
}

/** Returns whether a part of a name reads like the platform's name. */
function containsName(name: string, { own, symbols }: NameSearch): boolean {
  const skeleton = computeSkeleton(name, { symbols });
  return [...skeleton].some((_, start) => resembles(skeleton.slice(start, start + own.length), own));
}

/** Returns whether words of a name, written together, read like a short name. */
function containsWords(name: string, { own, symbols }: NameSearch): boolean {
  const separator = symbols === "letters" ? /[^\p{L}\p{N}\p{M}\p{S}@!]+/u : /[^\p{L}\p{N}\p{M}@$|!]+/u;
  const words = name.split(separator).map((word) => computeSkeleton(word, { symbols }));
  return words.some((_, first) => words.some((_, last) => resembles(words.slice(first, last + 1).join(""), own)));
}

/** Returns whether more than half of the letters are those of the platform's name, and no other letter is known. */
function resembles(text: string, own: string): boolean {
  const letters = text.replaceAll(wildcardLetter, "").length;
  return (
    text.length === own.length &&
    2 * letters > own.length &&
    Array.from({ length: own.length }).every((_, nth) => text[nth] === own[nth] || text[nth] === wildcardLetter)
  );
}
