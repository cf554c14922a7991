import { expect, test } from "vitest";
import { mailHtml } from "./mail-body.ts";

test("a mail as HTML has a heading, paragraphs and links, and nothing of its text as markup", () => {
  const text = 'One & two.\nSee <b>"this"</b>: https://a.test/x?y=1&z=2.\n\nLast.\n';
  expect(mailHtml({ subject: "A <new> sign-in", text })).toBe(
    [
      "<h2>A &lt;new&gt; sign-in</h2>",
      "<p>One &amp; two.<br>",
      'See &lt;b&gt;&quot;this&quot;&lt;/b&gt;: <a href="https://a.test/x?y=1&amp;z=2">https://a.test/x?y=1&amp;z=2</a>.</p>',
      "<p>Last.</p>",
      "",
    ].join("\n"),
  );
});

test.each(["javascript:alert(1)", 'https://a.test/"onmouseover="x', "https://a.test/<script>"])(
  "no link comes out of %s with anything beyond its address",
  (text) => {
    expect(mailHtml({ subject: "S", text })).not.toMatch(/href="(javascript|[^"]*"(?!>))|<script/);
  },
);
