import { expect, test } from "vitest";
import { quoteText } from "./inert-text.ts";
import { mailBody } from "./mail-body.ts";
import { mailText } from "./mail-text.ts";

const origin = "https://gatehouse.example";
const site = { origin, product: "Gatehouse", accent: "#035e63" };
const body = (text: string) => mailBody({ subject: "Subject", text }, site);
const hrefsOf = (html: string) => [...html.matchAll(/href="([^"]*)"/g)].map(([, href]) => href);
/**
 * Matches more than the link detectors of email programs do: a scheme, or a dot, an at sign or a backslash inside a
 * word.
 */
const detectable = /\/\/|[\p{L}\p{N}][.\u2024\u3002\uFE52\uFF0E\uFF61@][\p{L}\p{N}]|\\\S/u;

/** Returns the HTML's text line by line, with links as `[label](address)`. */
function wordsOf(html: string): string[] {
  const [, shown = ""] = html.split("<body");
  return shown
    .replaceAll(/<a [^>]*href="([^"]*)"[^>]*>(.*?)<\/a>/g, "[$2]($1)")
    .replaceAll(/<\/(td|p|h1)>|<br>/g, "\n")
    .replaceAll(/<[^>]*>|^[^<>]*>/g, "")
    .split("\n")
    .filter((line) => line.trim() !== "");
}

test("renders an email's brand, heading, facts, one button, a code and small print, as text and as HTML", () => {
  const text = mailText({
    news: ["Somebody did it.", `See ${origin}/x?y=1&z=2.`],
    facts: [
      ["When", "28 Nov 2026, 10:20 UTC"],
      ["Workspace", quoteText('Acme <b>"X"</b>')],
    ],
    action: { label: "Review", url: `${origin}/settings?a=1&b=2` },
    code: { words: "Or enter this code:", code: "012345" },
    more: ["It expires in 15 minutes."],
    footer: ["You’re getting this email for a reason.", "If it wasn’t you, ignore it."],
  });
  const { html, text: plain } = mailBody({ subject: "A <new> thing", text }, site);
  expect(wordsOf(html)).toEqual([
    "Gatehouse",
    "A &lt;new&gt; thing",
    "Somebody did it.",
    `See [${origin}/x?y=1&amp;z=2](${origin}/x?y=1&amp;z=2).`,
    "When",
    "28 Nov 2026, 10:20 UTC",
    "Workspace",
    "Acme &lt;b&gt;&quot;X&quot;&lt;/b&gt;",
    `[Review](${origin}/settings?a=1&amp;b=2)`,
    "Or enter this code:",
    "012345",
    "It expires in 15 minutes.",
    "You’re getting this email for a reason.",
    "If it wasn’t you, ignore it.",
  ]);
  expect(plain).toBe(text);
  expect(text).toContain("\n\n-- \nYou’re getting this email for a reason.\n\nIf it wasn’t you");
});

test("an email loads no external resources, and supports dark mode and the configured accent", () => {
  const { html } = mailBody({ subject: "S", text: "T" }, { ...site, product: "Acme & Co", accent: "#1d4ed8" });
  expect(html).not.toMatch(/<img|<link|<script|url\(|@import|@font-face|src=/);
  expect(html).toContain("@media (prefers-color-scheme: dark)");
  expect(html).toContain("Acme &amp; Co</td>");
  expect(html).toContain("color:#1d4ed8");
  expect(html).not.toContain("#035e63");
});

test("shows the text of an earlier release's email as paragraphs, and links our own URLs in it", () => {
  const { html } = body(`One.\nTwo: three.\n\nSee the credits: ${origin}/workspaces/w/ai/credits\n`);
  expect(wordsOf(html).slice(2)).toEqual([
    "One.",
    "Two: three.",
    `See the credits: [${origin}/workspaces/w/ai/credits](${origin}/workspaces/w/ai/credits)`,
  ]);
});

test("never renders text from a person as a button, a code or small print", () => {
  const name = quoteText(`Pay:\n${origin}/logout\n\n123456\n\n-- \nReally`);
  const { html } = body(`${name}\n\nPay:\nhttps://evil.example/x`);
  expect(hrefsOf(html)).toEqual([]);
  expect(wordsOf(html).at(-1)?.replaceAll("\u200A", "")).toBe("https://evil.example/x");
  expect(html).not.toContain("letter-spacing");
});

test.each([
  "evil.example/login",
  "Claim $500 at https://evil.example",
  "www.evil.example",
  "http://localhost/x",
  "//localhost/x",
  "https://203.0.113.7/login",
  "203.0.113.7",
  "::ffff:203.0.113.7",
  "::1%evil.example",
  "billing@evil.example",
  "mailto:billing@evil.example",
  "\\\\evil\\share",
  "evil\u3002example",
  "evil\uFF0Eexample",
  `${origin}.evil.example/login`,
  `${origin}@evil.example/login`,
  `https://evil.example/?next=${origin}/login`,
  "http://gatehouse.example/login",
  "HTTPS://EVIL.EXAMPLE",
  "(evil.example),evil.example",
])("%s doesn't become a link in the text or HTML of an email, whether quoted or not", (named) => {
  for (const text of [named, quoteText(named)]) {
    const { text: plain, html } = body(`Workspace: ${text}\n\nSee ${origin}/settings.`);
    expect(hrefsOf(html)).toEqual([`${origin}/settings`]);
    expect(plain.replace(`${origin}/settings`, "")).not.toMatch(detectable);
    expect(html.replaceAll(`${origin}/settings`, "")).not.toMatch(detectable);
    expect(plain.replaceAll("\u200A", "")).toContain(named);
  }
});

test("an email does not turn our own URLs in quoted text into links", () => {
  const { text, html } = body(`Workspace: ${quoteText(`${origin}/logout`)}`);
  expect(hrefsOf(html)).toEqual([]);
  expect(text).not.toMatch(detectable);
});

test.each([
  "Budget: $10.10 for November 2026",
  "At 02:30 UTC, 8.080000000001.",
  "Acme Inc. and Co.",
  "Code: 0123456789",
  "Address: 2001:db8:7:7::1",
])("leaves the text %s unchanged", (text) => {
  expect(body(text).text).toBe(text);
});

test.each(["javascript:alert(1)", `${origin}/"onmouseover="x`, `${origin}/<script>`])(
  "produces no markup from %s",
  (text) => {
    expect(body(text).html).not.toMatch(/href="(javascript|[^"]*"(?!>))|<script/);
  },
);

test.each([
  ["mailto:help@example.com", "help@example.com"],
  ["https://example.com/help?a=1&b=2", "https://example.com/help?a=1&b=2"],
])("ends the small print with the address of support, %s", (support, address) => {
  const text = mailText({ news: ["News."], footer: ["You’re getting this email for a reason."] });
  const { html, text: plain } = mailBody({ subject: "Subject", text }, { ...site, support });
  expect(plain).toBe(`${text}\n\nSupport: ${address}`);
  const escaped = (url: string) => url.replaceAll("&", "&amp;");
  expect(wordsOf(html).at(-1)).toBe(`Support: [${escaped(address)}](${escaped(support)})`);
});
