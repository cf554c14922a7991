import { expect, test } from "vitest";
import { hasVisibleCharacter, isReadable } from "./readable.ts";

test.each(["Nightly", "Ada’s phone", "日本語", "x\u3164x", "👩‍💻", "نگین\u200cالسادات"])(
  "accepts the name %j as readable",
  (name) => {
    expect(isReadable(name)).toBe(true);
  },
);

test.each([
  ...[
    "",
    " ",
    "\u00a0",
    "\u200d",
    "\u3164\u00ad",
    "\ufe0f",
    "\u{e0041}",
    "a\0b",
    "a\nb",
    "a\tb",
    "\u0085",
    "\ud83d",
    "a\udc00",
  ],
  ...["a\u061cb", "a\u180eb", "a\u200bb", "a\u200eb", "a\u2028b", "a\u202eb", "a\u2060b", "a\u2066b", "\ufeffa"],
])("rejects the name %j as unreadable", (name) => {
  expect(isReadable(name)).toBe(false);
});

test.each([
  ["Ticket 4711\nSecond line", true],
  ["\u200b\u202e.", true],
  ["\u200b", false],
  ["\u202e\u2066\n", false],
  ["\0", false],
])("finds a visible character in %j: %j", (text, found) => {
  expect(hasVisibleCharacter(text)).toBe(found);
});
