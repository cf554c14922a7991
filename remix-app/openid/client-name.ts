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
const latinOf = new Map(
  Object.entries(lookalikes).flatMap(([latin, alike]) =>
    [...alike].flatMap((letter) => [letter, letter.toLowerCase()].map((each) => [each, latin] as const)),
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

/** Returns what people read: lower-case Latin letters without accents, spaces, punctuation and invisible characters. */
function skeletonOf(name: string): string {
  const letters = [...name.normalize("NFKD").toLowerCase().normalize("NFKD")].map((letter) => {
    const point = letter.codePointAt(0) ?? 0;
    const start = enclosedAlphabets.find((first) => point >= first && point < first + 26);
    if (start !== undefined) return String.fromCharCode(0x61 + point - start);
    return latinOf.get(letter) ?? letter;
  });
  const plain = letters
    .map((letter) => latinOf.get(letter) ?? letter)
    .join("")
    .replace(/[^\p{L}\p{N}]/gu, "");
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
  const own = skeletonOf(platform);
  const skeleton = skeletonOf(name);
  const isOwn = own.length < minContainedLength ? hasWords(name, own) : skeleton.includes(own);
  return own !== "" && isOwn ? `The name could be mistaken for ${platform} itself` : null;
}

/** Returns whether words of a name, written together, read like a short name. */
function hasWords(name: string, own: string): boolean {
  const words = name.split(/[^\p{L}\p{N}\p{M}@$|!]+/u).map(skeletonOf);
  return words.some((_, first) => words.some((_, last) => words.slice(first, last + 1).join("") === own));
}
