import { expect, test } from "vitest";
import { clientNameFault } from "./client-name.ts";

const impersonating = [
  ["Gatehouse", "the same name"],
  ["GATEHOUSE", "case"],
  ["gAtEhOuSe", "case"],
  ["Gate house", "a space"],
  ["G a t e h o u s e", "spaces"],
  ["Gate-house", "punctuation"],
  ["Gate.House", "punctuation"],
  ["Gate\u00a0house", "a no-break space"],
  ["Gate\u2009house", "a thin space"],
  ["Gate\u200bhouse", "a zero-width space"],
  ["Gate\u200dhouse", "a zero-width joiner"],
  ["Gate\u2060house", "a word joiner"],
  ["Gate\u00adhouse", "a soft hyphen"],
  ["Gate\ufe0fhouse", "a variation selector"],
  ["\u202eesuohetaG", "a right-to-left override"],
  ["Gаtehouse", "a Cyrillic a"],
  ["Gatеhouse", "a Cyrillic e"],
  ["Gatehοuse", "a Greek omicron"],
  ["Gateհouse", "an Armenian ho"],
  ["ԌАТЕНОUSЕ", "Cyrillic capitals"],
  ["ԍатеноυѕе", "letters of other scripts only"],
  ["Ｇａｔｅｈｏｕｓｅ", "full-width letters"],
  ["𝐆𝐚𝐭𝐞𝐡𝐨𝐮𝐬𝐞", "mathematical letters"],
  ["Ⓖⓐⓣⓔⓗⓞⓤⓢⓔ", "circled letters"],
  ["🅶🅰🆃🅴🅷🅾🆄🆂🅴", "squared letters"],
  ["ɢᴀᴛᴇʜᴏᴜsᴇ", "small capitals"],
  ["Ɡatehouse", "a script g"],
  ["Gàtéhöuse", "accents"],
  ["G\u0336a\u0336tehouse", "combining strokes"],
  ["Gateh0use", "a digit"],
  ["G4t3h0u5e", "digits"],
  ["G@tehou$e", "symbols"],
  ["Gat℮house", "a symbol"],
  ["Gateh○use", "a symbol"],
  ["Gateh◉use", "a symbol"],
  ["Gateh😀use", "an emoji"],
  ["Gateh❤️use Login", "an emoji with a variation selector"],
  ["G⍺teh∘⋃se", "symbols"],
  ["Gatɇhouse", "a letter with a stroke"],
  ["Gⱥtehouse", "a letter with a stroke"],
  ["Gatehꝋuse", "a letter with a stroke"],
  ["Gate★house", "a symbol between the letters"],
  ["Gatehouse Support", "a part of the name"],
  ["Gatehouse’s sign-in", "a possessive"],
  ["The Gatehouse", "a part of the name"],
  ["MyGatehouse", "a part of the name"],
] as const;

test.each(impersonating)("%j is refused, which differs from the platform’s name by %s", (name) => {
  expect(clientNameFault(name, { platform: "Gatehouse" })).not.toBeNull();
});

test.each([
  "Charts",
  "Claude",
  "ChatGPT",
  "Grafana 11",
  "Заметки",
  "Σημειώσεις",
  "図書館 Notes",
  "Café résumé",
  "Gatɇ",
  "♥♥♥♥♥♥♥♥♥",
  "図書館の本を読む人",
  "Lighthouse ★",
])("%s is a client’s own name", (name) => {
  expect(clientNameFault(name, { platform: "Gatehouse" })).toBeNull();
});

test.each([
  ["Acme", "Acme Charts", false],
  ["Acme", "Acmé", false],
  ["Acme", "Acm℮ Login", false],
  ["図書館", "図表館", true],
  ["Acme", "★cm★s", true],
  ["図書館", "図★館", false],
  ["Acme", "A c m e", false],
  ["Acme", "Acmeology", true],
  ["AI", "Mail", true],
  ["AI", "Chat AI", false],
  ["AI", "4l", false],
  ["AI", "Team A+", true],
  ["Northwind", "North Wind Login", false],
  ["Northwind", "Norther winds", true],
  ["Modern", "Modem", false],
  ["図書館", "図書館", false],
])("on the platform %s, the name %s is allowed: %s", (platform, name, isAllowed) => {
  expect(clientNameFault(name, { platform }) === null).toBe(isAllowed);
});
