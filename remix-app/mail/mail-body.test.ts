import { expect, test } from "vitest";
import { quoted } from "./inert-text.ts";
import { mailBody } from "./mail-body.ts";

const origin = "https://gatehouse.example";
const body = (text: string) => mailBody({ subject: "Subject", text }, { origin });
const hrefsOf = (html: string) => [...html.matchAll(/href="([^"]*)"/g)].map(([, href]) => href);
/** More than link detectors of mail programs look for: a scheme, or a dot, an at sign or a backslash inside a word. */
const detectable = /\/\/|[\p{L}\p{N}][.\u2024\u3002\uFE52\uFF0E\uFF61@][\p{L}\p{N}]|\\\S/u;

test("a mail as HTML has a heading, paragraphs and our links, and nothing of its text as markup", () => {
  const text = `One & two.\nSee <b>"this"</b>: ${origin}/x?y=1&z=2.\n\nLast.\n`;
  expect(mailBody({ subject: "A <new> sign-in", text }, { origin }).html).toBe(
    [
      "<h2>A &lt;new&gt; sign-in</h2>",
      "<p>One &amp; two.<br>",
      `See &lt;b&gt;&quot;this&quot;&lt;/b&gt;: <a href="${origin}/x?y=1&amp;z=2">${origin}/x?y=1&amp;z=2</a>.</p>`,
      "<p>Last.</p>",
      "",
    ].join("\n"),
  );
  expect(body(text).text).toBe(text);
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
])("%s becomes no link in either body, forgotten or quoted", (named) => {
  for (const text of [named, quoted(named)]) {
    const { text: plain, html } = body(`Workspace: ${text}\n\nSee ${origin}/settings.`);
    expect(hrefsOf(html)).toEqual([`${origin}/settings`]);
    expect(plain.replace(`${origin}/settings`, "")).not.toMatch(detectable);
    expect(html.replaceAll(`${origin}/settings`, "")).not.toMatch(detectable);
    expect(plain.replaceAll("\u200A", "")).toContain(named);
  }
});

test("a quoted URL of ours becomes no link: only our own words link", () => {
  const { text, html } = body(`Workspace: ${quoted(`${origin}/logout`)}`);
  expect(hrefsOf(html)).toEqual([]);
  expect(text).not.toMatch(detectable);
});

test.each([
  "Budget: $10.10 for November 2026",
  "At 02:30 UTC, 8.080000000001.",
  "Acme Inc. and Co.",
  "Code: 0123456789",
  "Address: 2001:db8:7:7::1",
])("%s stays as it is", (text) => {
  expect(body(text).text).toBe(text);
});

test.each(["javascript:alert(1)", `${origin}/"onmouseover="x`, `${origin}/<script>`])(
  "no markup comes out of %s",
  (text) => {
    expect(body(text).html).not.toMatch(/href="(javascript|[^"]*"(?!>))|<script/);
  },
);
